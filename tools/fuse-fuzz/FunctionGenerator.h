//===- FunctionGenerator.h - One random function of layer ops ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function is a list of chains. Each chain is a family's decomposition with
// random omissions, types, scales and weights. Some have defects: second users,
// shared weights, inconsistent scales, members in a separate region. At the
// end, independent neighbors are swapped at random, which interleaves the
// chains with each other and with unrelated ops.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_FUNCTIONGENERATOR_H
#define FUSE_TOOLS_FUSE_FUZZ_FUNCTIONGENERATOR_H

#include "ModuleGenerator.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace fuse {

/// Quantization of the linears of one chain.
struct Quantization {
  enum Kind { None, Scaled, QDQ, WeightOnly, Dynamic } kind = None;
  mlir::Type storage;
  QuantOrder order = QuantOrder::Reciprocal;
  BiasPlace biasPlace = BiasPlace::BeforeRounding;
  /// Arithmetic of dynamic scales, or null for that of the ops.
  QuantAttr dynamic;
};

class FunctionGenerator {
public:
  FunctionGenerator(Random &random, mlir::ModuleOp module, unsigned index,
                    Stratum stratum, uint64_t combination = 0);
  void generate();

private:
  // Attributes and locations.
  mlir::Location loc();
  mlir::Attribute attribute(unsigned depth);
  void decorate(mlir::Operation *op);
  mlir::FloatAttr scale();

  // Types and values.
  mlir::Type floatType();
  mlir::RankedTensorType type(mlir::Value like, mlir::Type element);
  mlir::RankedTensorType resultType(mlir::Value like);
  mlir::Value value(mlir::Type type);
  mlir::Value view(mlir::RankedTensorType type);
  mlir::Value stream();

  // Members.
  mlir::Value residualAdd(mlir::Value lhs, mlir::Value rhs);
  mlir::Value norm(mlir::Value x);
  mlir::Value quantize(mlir::Value x, const Quantization &how,
                       mlir::FloatAttr scale);
  mlir::Value quantizeDynamically(mlir::Value x, const Quantization &how);
  mlir::Value quantizedInput(mlir::Value x, const Quantization &how,
                             mlir::FloatAttr &scale);
  mlir::Value linear(mlir::Value x, int64_t outputs, const Quantization &how,
                     mlir::FloatAttr inputScale);
  mlir::Value activation(mlir::Value x);
  mlir::Value gatedMul(mlir::Value lhs, mlir::Value rhs);

  // Chains.
  mlir::Value head(mlir::Value x);
  void mlp();
  void normLinear();
  void normQuantize();
  void actQuantize();
  void chain();

  // Surroundings.
  void rotary();
  void crossEntropy();
  void experts();
  void castStream();
  void transposed();
  void unrelated();
  void between();
  void secondUser(mlir::Value value);
  void shuffle(mlir::Block *block);

  template <typename OpTy, typename... Args>
  mlir::Value create(Args &&...args) {
    auto op = OpTy::create(builder, loc(), std::forward<Args>(args)...);
    decorate(op);
    values.push_back(op->getResult(0));
    return values.back();
  }

  void chooseBoundary(mlir::ModuleOp module, uint64_t combination);
  /// Parameters of one combination of `Stratum::Boundary`.
  struct Combination {
    unsigned family;
    Quantization how;
    int64_t width;
  };
  std::optional<Combination> boundary;

  /// Width of a layer inside a chain.
  int64_t width(std::initializer_list<int64_t> any);
  Quantization quantization();
  Quantization drawQuantization();
  QuantAttr drawDynamic(mlir::Type storage);

  Random &random;
  mlir::OpBuilder builder;
  /// Whether the scheduled path has kernels for the chains, whether schedules
  /// are random, and whether other ops surround the chains.
  bool scheduled, drawn, mixed;
  /// Whether there are function ops, whether operands are strided views, and
  /// whether the function will run.
  bool functions, strided, runs;
  mlir::func::FuncOp function;
  /// Probabilities in percent. They differ between functions, so that some
  /// functions are clean.
  unsigned decoration, sharing, damage, oddTypes;
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<mlir::Location> locs;
  /// Leading dimensions and number of features of the residual stream.
  llvm::SmallVector<int64_t> leading;
  int64_t features;
  mlir::Type element;
};

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_FUNCTIONGENERATOR_H
