//===- ProductBuilder.h - Emitter of what goes with products -- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_CONVERSION_FUSETOTILE_PRODUCTBUILDER_H
#define FUSE_LIB_CONVERSION_FUSETOTILE_PRODUCTBUILDER_H

#include "NormBuilder.h"

namespace fuse {

/// Bytes of 256 packed rows of a k-step.
constexpr int64_t kWeightStage = 256 * 128;

/// Arguments and epilogues of the two products, whichever operand tokens are.
class ProductBuilder : public NormBuilder {
public:
  ProductBuilder(const DecodeProblem &problem, Team team,
                 mlir::OpBuilder &builder)
      : NormBuilder(problem, team, builder), outputs(problem.outputs.size()),
        biases(problem.outputs.size()), alphas(problem.outputs.size()) {}

protected:
  // Arguments.
  void addFirstWeights(Value &slot, int64_t tiles, int64_t steps);
  void addLastWeights(Value &slot, int64_t tiles, int64_t steps);
  void addHiddenBiases();
  void addOutputOperands();
  void addScalars();

  /// Sums of a product of stored values, scaled and with their bias.
  Values finish(llvm::ArrayRef<Value> sums, Value alpha,
                llvm::ArrayRef<Value> bias);
  /// A bias of `count` neighbouring rows, or nothing.
  Values loadBias(Value buffer, Value row, int64_t count);
  /// Hidden units from the sums of gate and up, packed as the last product
  /// reads them; there are no sums of a gate in a dense MLP.
  Value activateHidden(llvm::ArrayRef<Value> gate, llvm::ArrayRef<Value> up,
                       llvm::ArrayRef<Value> biasGate,
                       llvm::ArrayRef<Value> biasUp);
  /// Stores neighbouring outputs of a token, finished from their sums.
  void storeOutputs(size_t index, Value token, Value row,
                    llvm::ArrayRef<Value> sums);

  /// Arguments; null where the problem has none.
  Value gateBias, upBias, outputResidual;
  Values outputs, biases, alphas;
  Value alphaGate, alphaUp, hiddenScale;

private:
  void addPacked(Value &slot, llvm::StringRef recipe,
                 llvm::ArrayRef<Value> sources, int64_t tiles, int64_t steps);
};

} // namespace fuse

#endif // FUSE_LIB_CONVERSION_FUSETOTILE_PRODUCTBUILDER_H
