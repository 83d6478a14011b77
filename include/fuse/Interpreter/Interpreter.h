//===- Interpreter.h - Functions by their contracts -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_INTERPRETER_INTERPRETER_H
#define FUSE_INTERPRETER_INTERPRETER_H

#include "fuse/IO/HostTensor.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Interpreter/LayerMath.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace fuse {

/// Computes the values that a function's results may have. Each layer op,
/// function op and fused op, and the few ops between them, is evaluated by its
/// contract. Fused ops are not decomposed, and nothing is lowered.
class Interpreter {
public:
  /// `accumulator` is the accumulator in which fused ops sum products of 8-bit
  /// floats. With `mayRoundParts`, relaxed ops may round partial sums of their
  /// last product to bf16, as scheduled kernels do.
  explicit Interpreter(Accumulator accumulator = Accumulator::Single,
                       bool mayRoundParts = false)
      : accumulator(accumulator), mayRoundParts(mayRoundParts) {}

  /// The results of `function` on `inputs`. Fails on an op that the interpreter
  /// does not support.
  llvm::Expected<std::vector<Tensor>> run(mlir::func::FuncOp function,
                                          llvm::ArrayRef<HostTensor> inputs);

private:
  llvm::Error runBlock(mlir::Block &block);
  llvm::Error runOp(mlir::Operation *op);
  bool runLayerOp(mlir::Operation *op);
  void runLayer(RMSNormOp norm);
  void runLayer(LayerNormOp norm);
  void runLayer(LinearOp linear);
  void runLayer(ActivationOp activation);
  void runLayer(GatedMulOp product);
  void runLayer(ResidualAddOp sum);
  void runLayer(QuantizeOp quantized);
  void runLayer(DequantizeOp real);
  void runLayer(DequantizeWeightOp real);
  void runLayer(DynamicQuantizeOp dynamic);
  void runLayer(RotaryOp rotary);
  void runLayer(CrossEntropyOp loss);
  void runLayer(MoEExpertsOp experts);
  bool runFusedOp(mlir::Operation *op);
  const Tensor &get(mlir::Value value) const { return tensors.at(value); }
  const Tensor *getIf(mlir::Value value) const {
    return value ? &tensors.at(value) : nullptr;
  }
  void set(mlir::Value value, Tensor tensor) {
    tensors.insert_or_assign(value, std::move(tensor));
  }

  Accumulator accumulator;
  bool mayRoundParts;
  struct Less {
    bool operator()(mlir::Value lhs, mlir::Value rhs) const {
      return lhs.getAsOpaquePointer() < rhs.getAsOpaquePointer();
    }
  };
  std::map<mlir::Value, Tensor, Less> tensors;

  template <typename OpTy>
  friend class FusedOpInterpreter;
};

/// Index of the first value of `actual` that is not in `expected`, or nothing.
std::optional<int64_t> findOutside(const Tensor &expected,
                                   const HostTensor &actual);

} // namespace fuse

#endif // FUSE_INTERPRETER_INTERPRETER_H
