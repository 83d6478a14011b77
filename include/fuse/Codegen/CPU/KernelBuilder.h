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

/// What a processor has for products.
struct CPUVectors {
  /// Numbers in f32 per register, and registers.
  int64_t lanes, registers;
  bool fma, dot, tiles;

  /// Vectors of outputs side by side: what they need beside the sums of six
  /// tokens has to fit into registers too.
  int64_t getPanelVectors() const { return registers >= 32 ? 4 : 2; }
  int64_t getPanelColumns() const { return getPanelVectors() * lanes; }
};

/// Why a step has no kernel, or an empty string.
std::string getCPUProblem(const CPUStep &step);

/// Emits the phases of the steps of a function. Buffers are flat memrefs;
/// indices count elements. Those in bf16 hold i16: LLVM would move parts of
/// vectors by way of f32 where a processor has no instructions for bf16.
class CPUKernelBuilder {
public:
  CPUKernelBuilder(llvm::ArrayRef<CPUStep> steps, CPUVectors vectors,
                   mlir::ModuleOp kernels);

  /// Emits the phases as `name_rows` and so on, from the second step on as
  /// `name_2_rows`; returns the plan.
  mlir::DictionaryAttr build(llvm::StringRef name);

private:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;
  using Plan = llvm::ArrayRef<mlir::NamedAttribute>;
  /// Gets a column and how many follow it in the same vector.
  using ColumnBody = llvm::function_ref<Values(Value column, Value mask,
                                               mlir::ValueRange carried)>;

  /// Numbers in bf16 in a row of a tile of AMX, and rows of a tile.
  static constexpr int64_t kTermsPerTile = 32, kTileRows = 16;
  static constexpr int64_t kAnySize = int64_t(1) << 40;
  /// Of functions that take pointers instead of descriptors.
  static constexpr llvm::StringLiteral kPointersAttrName = "llvm.bareptr";

  // KernelBuilder.cpp: phases and their arguments.
  mlir::NamedAttribute entry(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute entry(llvm::StringRef name, llvm::StringRef value);
  void addArgument(Value &slot, mlir::Type element, Plan plan);
  /// An operand of a step, null for none: an argument of the function, or what
  /// an earlier step made.
  void addOperand(Value &slot, Value operand);
  /// A result of the step in the making.
  void addResult(Value &slot, mlir::Value result);
  void addWorkspace(Value &slot, int64_t index, mlir::Type element);
  void addPacked(Value &slot, llvm::ArrayRef<Value> weights);
  /// What GEMM1 reads: the input as it is, or what the rows made.
  void addInput(Value &slot);
  /// A workspace buffer with `bytes` for each token.
  int64_t makeWorkspace(int64_t bytes);
  /// Makes the function of a phase, in whose body the builder is then. A task
  /// is one of `panels` and up to `tokensPerTask` tokens.
  void begin(llvm::StringRef suffix, int64_t panels, int64_t tokensPerTask);
  void end();

  // KernelBuilder.cpp: steps.
  void startStep(const CPUStep &step, size_t number);
  /// Says where the values of a step are: in results of the function, or in the
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
  /// A loop from 0 below `size`, none where that is one step.
  void forBlocks(int64_t size, int64_t step,
                 llvm::function_ref<void(Value)> body);
  void when(Value condition, llvm::function_ref<void()> body);

  /// The size is no one's: only of memrefs of static shape a function takes
  /// plain pointers, and nothing reads it.
  mlir::MemRefType bufferOf(mlir::Type element) {
    return mlir::MemRefType::get({kAnySize}, getStorage(element));
  }
  mlir::Type getStorage(mlir::Type element) {
    return element.isBF16() ? b.getI16Type() : element;
  }
  /// The type of what a buffer holds.
  mlir::Type getContent(Value buffer) {
    mlir::Type element = mlir::getElementTypeOrSelf(buffer.getType());
    return element.isInteger(16) ? b.getBF16Type() : element;
  }

  // Vectors.
  mlir::VectorType vectorOf(mlir::Type element) {
    return mlir::VectorType::get({vectors.lanes}, element);
  }
  Value zeros();
  /// `lanes` elements in f32. With a mask the others are 0.
  Value load(Value buffer, Value index, Value mask = {});
  /// The same in the type of what the buffer holds.
  Value loadRaw(Value buffer, Value index, Value mask = {});
  /// Rounds to that type.
  void store(Value value, Value buffer, Value index, Value mask = {});
  /// Rounds to a type and widens again.
  Value round(Value value, mlir::Type element);
  /// The mask of the first `count` lanes.
  Value maskBelow(Value count);
  Value multiplyAdd(Value x, Value y, Value sum);
  /// The sum of all lanes, in an order of its own.
  Value addLanes(Value vector);

  // Rows.cpp: the norm.
  void buildRows();
  void buildRow(Value row);
  /// Vectors of a row of `width` in order; what is left at the end has a mask.
  Values forColumns(int64_t width, mlir::ValueRange carried, ColumnBody body);
  /// A phase whose tasks are rows.
  void buildRowTasks(llvm::StringRef suffix,
                     llvm::function_ref<void(Value row)> body);

  // Products.cpp: the products.
  void buildHidden();
  void buildOutput(unsigned index);
  /// A loop over the tasks of a product; `finish` gets the index of a token,
  /// of its sums in `tile` and of the first output of a panel.
  void buildTasks(
      Value input, Value packed, int64_t panels, int64_t terms,
      llvm::function_ref<void(Value token, Value sums, Value panel)> finish);
  void multiplyRows(Value input, Value packed, int64_t terms, Value firstToken,
                    Value numTokens, Value panel);
  mlir::func::FuncOp getMultiply(int64_t tokens);
  /// Calls for some tokens with AMX, 32 or what is left of them at a time.
  void multiplyTiles(
      Value numTokens,
      llvm::function_ref<void(mlir::func::FuncOp, Value token, Value rows)>
          call);
  mlir::func::FuncOp getMultiplyTiles(int64_t numTiles);
  /// An intrinsic of AMX; nothing for one without a result.
  Value callAMX(llvm::StringRef name, mlir::ValueRange operands,
                bool hasResult = true);
  /// The address of an element.
  Value addressOf(Value buffer, Value at);
  Values multiplyStep(int64_t tokens, Value input, mlir::ValueRange starts,
                      Value packed, Value at, Value step,
                      mlir::ValueRange sums);
  /// Bias and rounding of a linear.
  Value finishLinear(Value sums, Value bias, Value column, Value mask,
                     mlir::Type element);
  /// The mask of a vector of outputs, none where all are there.
  Value getMask(Value column, int64_t width);

  mlir::Type pointType(llvm::StringRef point) const;
  bool isPaired() const { return weightType.isBF16(); }
  /// Whether sums of that many terms are made by AMX, which takes 32 at once.
  bool hasTiles(int64_t terms) const {
    return vectors.tiles && isPaired() && inputType.isBF16() &&
           terms % kTermsPerTile == 0;
  }
  /// Steps of a sum: of one term or of a pair.
  int64_t getSteps(int64_t terms) const {
    return isPaired() ? terms / 2 : terms;
  }

  /// Where a value is: the kind and the index of a phase's argument.
  struct Place {
    llvm::StringRef kind;
    int64_t index;
  };

  llvm::ArrayRef<CPUStep> steps;
  /// Of the step in the making.
  MlpProblem p;
  CPUVectors vectors;
  mlir::ModuleOp kernels;
  mlir::ImplicitLocOpBuilder b;
  mlir::Type f32, index;
  /// Of weights, and of what they are multiplied with.
  mlir::Type weightType, inputType;
  mlir::Type xType;

  // The phase in the making.
  std::string name, prefix;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::Attribute> plans;
  llvm::SmallVector<Value *> slots;
  Value numTokens, firstTask, lastTask;
  /// Sums of the tokens of a task in a panel.
  Value tile;

  // The plan in the making.
  llvm::SmallVector<mlir::Attribute> phases, packedWeights, workspace;
  llvm::DenseMap<mlir::Value, Place> places;
  int64_t inputBuffer = -1, hiddenBuffer = -1, streamBuffer = -1;

  // Arguments of phases.
  Value x, residual, normWeight, normBias, input, stream, normed;
};

} // namespace fuse

#endif // FUSE_CODEGEN_CPU_KERNELBUILDER_H
