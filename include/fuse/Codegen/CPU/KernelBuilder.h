//===- KernelBuilder.h - Emitter of kernels for a CPU -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_CPU_KERNELBUILDER_H
#define FUSE_CODEGEN_CPU_KERNELBUILDER_H

#include "fuse/Codegen/CPU/Steps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

namespace fuse {

/// Vector registers of a processor and its instructions for products.
struct CPUVectors {
  /// Number of f32 values per register, and number of registers.
  int64_t lanes, registers;
  bool fma, dot, tiles;

  /// Number of adjacent vectors of outputs. The registers have to hold the sums
  /// of six tokens and their operands.
  int64_t getPanelVectors() const { return registers >= 32 ? 4 : 2; }
  int64_t getPanelColumns() const { return getPanelVectors() * lanes; }
};

/// The reason that a step has no kernel, or an empty string.
std::string getCPUProblem(const CPUStep &step);
/// The same for weights of 4 bits.
std::string getFourBitProblem(const MlpProblem &problem);
/// The scales, zero points and scale of the tensor of a weight of 4 bits.
mlir::OperandRange getScaleOperands(mlir::Operation *op, unsigned weight);

/// Emits the phases of the steps of a function. Buffers are flat memrefs;
/// indices count elements. Buffers of bf16 hold i16: without bf16 instructions,
/// LLVM would move parts of vectors through f32.
class CPUKernelBuilder {
public:
  CPUKernelBuilder(llvm::ArrayRef<CPUStep> steps, CPUVectors vectors,
                   mlir::ModuleOp kernels);

  /// Emits the phases as `name_rows` and so on, and as `name_2_rows` from the
  /// second step on. Returns the plan.
  mlir::DictionaryAttr build(llvm::StringRef name);

private:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;
  using Plan = llvm::ArrayRef<mlir::NamedAttribute>;
  /// Called with a column and the mask of the columns in its vector.
  using ColumnBody = llvm::function_ref<Values(Value column, Value mask,
                                               mlir::ValueRange carried)>;

  /// Weights of 4 bits, and memory of a task for a dequantized block.
  struct Codes {
    struct Scales {
      Value scale, zero, whole;
    };
    /// Words of 8 codes, in the order of panels.
    Value packed;
    /// Of each weight in a panel.
    llvm::SmallVector<Scales, 2> scales;
    /// Rows, columns in a panel, groups and words of one weight.
    int64_t rows = 0, width = 0, groups = 0, words = 0;
    /// Inputs of a block, and of a part of it that has one group.
    int64_t block = 0, segment = 0;
    /// Real values of a block; scales and zero points of a group.
    Value real, scale, zero;
  };

  /// Number of bf16 values in a row of an AMX tile, and number of rows.
  static constexpr int64_t kTermsPerTile = 32, kTileRows = 16;
  static constexpr int64_t kAnySize = int64_t(1) << 40;
  /// Attribute of functions that take pointers instead of descriptors.
  static constexpr llvm::StringLiteral kPointersAttrName = "llvm.bareptr";

  // KernelBuilder.cpp: phases and their arguments.
  mlir::NamedAttribute entry(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute entry(llvm::StringRef name, llvm::StringRef value);
  void addArgument(Value &slot, mlir::Type element, Plan plan);
  /// Adds an operand of a step, or nothing if it is null. It is an argument of
  /// the function or the result of an earlier step.
  void addOperand(Value &slot, Value operand);
  void addVector(Value &slot, Value vector);
  mlir::NamedAttrList describeSources(llvm::ArrayRef<Value> matrices);
  /// Adds a result of the current step.
  void addResult(Value &slot, mlir::Value result);
  void addWorkspace(Value &slot, int64_t index, mlir::Type element);
  void addPacked(Value &slot, llvm::ArrayRef<Value> weights);
  /// Adds the input of GEMM1: the original input, or the output of the row
  /// phase.
  void addInput(Value &slot);
  /// Adds a workspace buffer with `bytes` per token.
  int64_t makeWorkspace(int64_t bytes);
  /// Creates the function of a phase and moves the builder into its body. A
  /// task is one of `panels` and up to `tokensPerTask` tokens. The caller may
  /// choose fewer, a multiple of `multiple`, if that is not 0.
  void begin(llvm::StringRef suffix, int64_t panels, int64_t tokensPerTask,
             int64_t multiple = 0);
  void end();

  // KernelBuilder.cpp: steps.
  void startStep(const CPUStep &step, size_t number);
  /// Assigns the values of a step to results of the function or to the
  /// workspace.
  void placeValues(const CPUStep &step);
  void buildProblem();

  // Maps.cpp: elementwise ops.
  void buildMaps(llvm::ArrayRef<mlir::Operation *> maps);
  void buildMap(mlir::Operation *op,
                llvm::DenseMap<mlir::Value, Value> &elements);

  // Index arithmetic and loops.
  Value c(int64_t value);
  Value plus(Value x, Value y);
  Value plus(Value x, int64_t y);
  Value times(Value x, Value y);
  Value times(Value x, int64_t y);
  Values loop(Value from, Value to, int64_t step, mlir::ValueRange carried,
              llvm::function_ref<Values(Value, mlir::ValueRange)> body);
  void loop(Value from, Value to, int64_t step,
            llvm::function_ref<void(Value)> body);
  /// A loop from 0 to `size`, without a loop if that is a single step.
  void forBlocks(int64_t size, int64_t step,
                 llvm::function_ref<void(Value)> body);
  void when(Value condition, llvm::function_ref<void()> body);

  /// The size is arbitrary: functions take plain pointers only for memrefs of
  /// static shape, and nothing reads the size.
  mlir::MemRefType bufferOf(mlir::Type element) {
    return mlir::MemRefType::get({kAnySize}, getStorage(element));
  }
  mlir::Type getStorage(mlir::Type element) {
    return element.isBF16() ? b.getI16Type() : element;
  }
  /// The element type of the values in a buffer.
  mlir::Type getContent(Value buffer) {
    mlir::Type element = mlir::getElementTypeOrSelf(buffer.getType());
    return element.isInteger(16) ? b.getBF16Type() : element;
  }

  // Vectors.
  mlir::VectorType vectorOf(mlir::Type element) {
    return mlir::VectorType::get({vectors.lanes}, element);
  }
  Value zeros();
  /// Loads `lanes` elements as f32. Masked-off elements are 0.
  Value load(Value buffer, Value index, Value mask = {});
  /// Loads elements in the type of the buffer's values.
  Value loadRaw(Value buffer, Value index, Value mask = {});
  /// Rounds to the type of the buffer's values and stores.
  void store(Value value, Value buffer, Value index, Value mask = {});
  /// Rounds to a type and widens back to f32.
  Value round(Value value, mlir::Type element);
  /// The mask of the first `count` lanes.
  Value maskBelow(Value count);
  Value multiplyAdd(Value x, Value y, Value sum);
  /// The sum of all lanes, in an unspecified order.
  Value addLanes(Value vector);

  // Rows.cpp: the norm.
  void buildRows();
  void buildRow(Value row);
  /// Visits the vectors of a row of `width` in order. The last one has a mask
  /// if it is incomplete.
  Values forColumns(int64_t width, mlir::ValueRange carried, ColumnBody body);
  /// A phase whose tasks are rows.
  void buildRowTasks(llvm::StringRef suffix,
                     llvm::function_ref<void(Value row)> body);

  // FourBits.cpp: weights of 4 bits.
  void addCodes(Codes &codes, llvm::ArrayRef<Value> weights,
                unsigned firstWeight);
  Value allocate(int64_t size, mlir::Type element);
  void allocateBlock(Codes &codes);
  void loadScales(const Codes &codes, Value panel, Value group);
  void decodeWords(const Codes &codes, Value at, Value to);
  /// Writes `count` inputs of a panel, from `first` on, to the block.
  void dequantizeBlock(const Codes &codes, Value panel, Value first,
                       Value count);

  // Products.cpp: the products.
  void buildHidden();
  void buildOutput(unsigned index);
  /// A loop over the tasks of a product. `finish` receives the index of a
  /// token, of its sums in `tile`, and of the panel.
  void buildTasks(
      Value input, Value packed, Codes *codes, int64_t panels, int64_t terms,
      llvm::function_ref<void(Value token, Value sums, Value panel)> finish);
  void multiplyRows(Value input, Value packed, const Codes *codes,
                    int64_t terms, Value firstToken, Value numTokens,
                    Value panel);
  mlir::func::FuncOp getMultiply(int64_t tokens);
  /// Number of tokens of a call that multiplies fastest.
  int64_t getTokensPerCall(int64_t terms) const;
  /// Emits calls that use AMX for up to 32 tokens each.
  void multiplyTiles(
      Value numTokens,
      llvm::function_ref<void(mlir::func::FuncOp, Value token, Value rows)>
          call);
  mlir::func::FuncOp getMultiplyTiles(int64_t numTiles);
  /// Calls an AMX intrinsic. Returns null if it has no result.
  Value callAMX(llvm::StringRef name, mlir::ValueRange operands,
                bool hasResult = true);
  /// The address of an element.
  Value addressOf(Value buffer, Value at);
  Values multiplyStep(int64_t tokens, Value input, mlir::ValueRange starts,
                      Value packed, Value at, Value step,
                      mlir::ValueRange sums);
  /// Applies bias and rounding of a linear.
  Value finishLinear(Value sums, Value bias, Value column, Value mask,
                     mlir::Type element);
  /// The mask of a vector of outputs, or null if all are valid.
  Value getMask(Value column, int64_t width);

  mlir::Type pointType(RoundingPoint point) const;
  bool isPaired() const { return weightType.isBF16(); }
  bool isPacked() const { return p.quant && p.quant.isPacked(); }
  /// Whether blocks of dequantized weights have whole tiles.
  bool hasBlocksOfTiles() const {
    int64_t group = p.quant.getBlockColumns();
    return group % kTermsPerTile == 0 || kTermsPerTile % group == 0;
  }
  /// Whether AMX computes sums of `terms` terms; it adds 32 at once.
  bool hasTiles(int64_t terms) const {
    return vectors.tiles && isPaired() && inputType.isBF16() &&
           terms % kTermsPerTile == 0 && (!isPacked() || hasBlocksOfTiles());
  }
  /// Number of steps of a sum. A step is one term or a pair.
  int64_t getSteps(int64_t terms) const {
    return isPaired() ? terms / 2 : terms;
  }

  /// Location of a value: kind and index of a phase's argument.
  struct Place {
    llvm::StringRef kind;
    int64_t index;
  };

  llvm::ArrayRef<CPUStep> steps;
  /// Problem of the current step.
  MlpProblem p;
  CPUVectors vectors;
  mlir::ModuleOp kernels;
  mlir::ImplicitLocOpBuilder b;
  mlir::Type f32, index;
  /// Type of the weights, and of the values that they are multiplied by.
  mlir::Type weightType, inputType;
  mlir::Type xType;

  // State of the current phase.
  std::string name, prefix;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::Attribute> plans;
  llvm::SmallVector<Value *> slots;
  Value numTokens, firstTask, lastTask;
  /// Sums of the tokens of a task in one panel.
  Value tile;

  // State of the plan.
  llvm::SmallVector<mlir::Attribute> phases, packedWeights, workspace;
  llvm::DenseMap<mlir::Value, Place> places;
  int64_t inputBuffer = -1, hiddenBuffer = -1, streamBuffer = -1;

  // Arguments of phases.
  Value x, residual, normWeight, normBias, input, stream, normed;
};

} // namespace fuse

#endif // FUSE_CODEGEN_CPU_KERNELBUILDER_H
