//===- FunctionGenerator.h - One random function of layer ops ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function is a list of chains, each a family's decomposition with random
// parts left out and random types, scales and weights. Defects are mixed in:
// second users, shared weights, scales that disagree, members in a region of
// their own. At the end, neighbors that do not depend on each other change
// places at random, which interleaves the chains with each other and with ops
// that belong to none.
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

/// How the linears of one chain are quantized.
struct Quantization {
  enum Kind { None, Scaled, QDQ, WeightOnly, Dynamic } kind = None;
  mlir::Type storage;
  QuantOrder order = QuantOrder::Reciprocal;
  BiasPlace biasPlace = BiasPlace::BeforeRounding;
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
  /// What a combination of `Stratum::Boundary` says.
  struct Combination {
    unsigned family;
    Quantization how;
    int64_t width;
  };
  std::optional<Combination> boundary;

  /// Widths of a layer inside of a chain.
  int64_t width(std::initializer_list<int64_t> any);
  Quantization quantization();

  Random &random;
  mlir::OpBuilder builder;
  /// Whether chains are such that the scheduled path has kernels for them,
  /// whether these are drawn, and whether others are around them.
  bool scheduled, drawn, mixed;
  /// Whether there are ops that are functions of their own, whether operands
  /// are views with strides, and whether the function is to run.
  bool functions, strided, runs;
  mlir::func::FuncOp function;
  /// Chances differ from function to function, so that some are clean.
  unsigned decoration, sharing, damage, oddTypes;
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<mlir::Location> locs;
  /// Leading dimensions and features of the residual stream.
  llvm::SmallVector<int64_t> leading;
  int64_t features;
  mlir::Type element;
};

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_FUNCTIONGENERATOR_H
