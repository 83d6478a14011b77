//===- GemmEpilogue.h - Emitter of what goes with products -- ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_HOPPER_EMIT_GEMMEPILOGUE_H
#define FUSE_CODEGEN_HOPPER_EMIT_GEMMEPILOGUE_H

#include "NormBuilder.h"

namespace fuse {

/// Bytes of 256 packed rows of a k-step.
constexpr int64_t kWeightStage = 256 * 128;

/// Warps of a block: some copy, two warpgroups multiply.
constexpr int64_t kCopyWarps = 4, kMathWarps = 8;
constexpr int64_t kMathThreads = kMathWarps * 32;
/// Named barrier of the math warps; barrier 0 is the whole block's.
constexpr int64_t kMathBarrier = 1;

/// Sums of GEMM1 after their rounding point.
struct Rounded {
  using Values = llvm::SmallVector<mlir::Value>;

  /// f32 values, or nothing; there is no gate in a dense MLP.
  Values gate, up;
  /// The same as pairs of bf16 where that is what they were rounded to.
  Values gatePairs, upPairs;

  size_t getSize() const { return 2 * upPairs.size() + up.size(); }
  Rounded slice(size_t first, size_t size) const;
  /// All pairs, and the inverse.
  Values getPairs() const;
  static Rounded fromPairs(mlir::ValueRange pairs, bool isGated);
};

/// Arguments and epilogues of the two products, whichever operand tokens are.
class ProductBuilder : public NormBuilder {
public:
  ProductBuilder(const MlpProblem &problem, CtaGroup ctaGroup,
                 mlir::OpBuilder &builder)
      : NormBuilder(problem, ctaGroup, builder),
        outputs(problem.outputs.size()), biases(problem.outputs.size()),
        alphas(problem.outputs.size()), outputScales(problem.outputs.size()) {}

protected:
  // Arguments.
  /// A matrix of `tokens` rows in the workspace, of which copies take
  /// `boxTokens` and a k-step of columns at a time.
  void addTokenMap(Value &slot, int64_t offset, int64_t tokens, int64_t columns,
                   int64_t boxTokens);
  void addGemm1Weights(Value &slot, int64_t tiles, int64_t steps);
  void addGemm2Weights(Value &slot, int64_t tiles, int64_t steps);
  void addHiddenBiases();
  void addOutputOperands();
  /// Scales of GEMM1 and of the last, and all with the input's.
  void addHiddenScalars();
  /// Scales of weights that are operands.
  void addWeightScales();
  void addOutputScalars();
  void addScalars();

  /// Sums of a product of stored values, scaled and with their bias.
  Values finish(llvm::ArrayRef<Value> sums, Value alpha,
                llvm::ArrayRef<Value> bias);
  /// A bias of `count` neighboring rows, or nothing.
  Values loadBias(Value buffer, Value row, int64_t count);
  /// Sums of gate and up, finished and rounded; no gate in a dense MLP.
  Rounded roundHidden(llvm::ArrayRef<Value> gate, llvm::ArrayRef<Value> up,
                      llvm::ArrayRef<Value> biasGate,
                      llvm::ArrayRef<Value> biasUp);
  /// Of a product with tokens on the left, the sums of a thread for one of its
  /// two tokens and a group of 32 packed rows: 16 of each half of a run, whose
  /// columns of eight begin at `first` and `second`. They are neighbors in
  /// this order, of a gated MLP with gate and up in turn.
  static llvm::SmallVector<int64_t> getPlaces(int64_t half, int64_t first,
                                              int64_t second);
  /// Hidden units before they are quantized.
  Values activateAll(const Rounded &values);
  /// Hidden units, packed as GEMM2 reads them.
  Value activateHidden(const Rounded &values) {
    return quantize(activateAll(values), hiddenScale);
  }
  /// Stores neighboring outputs of a token, finished from their sums.
  void storeOutputs(size_t index, Value token, Value row,
                    llvm::ArrayRef<Value> sums);

  /// Roles of copying and of math warps, with their registers.
  tile::SpecializeOp makeRoles();

  /// Arguments; null where the problem has none.
  Value gateBias, upBias, outputResidual;
  Values outputs, biases, alphas;
  Value alphaGate, alphaUp, hiddenScale, gateScales, upScales;
  Values outputScales;

private:
  float getScale(ScaleName name) {
    return problem.scales.getScale(name).value_or(1);
  }
  void addPacked(Value &slot, llvm::StringRef recipe,
                 llvm::ArrayRef<Value> sources, int64_t tiles, int64_t steps);
};

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_EMIT_GEMMEPILOGUE_H
