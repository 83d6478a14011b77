//===- ExpandMath.cpp - Expand math ops without a library -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_EXPANDMATHPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-expand-math"

/// Expanded to other math ops.
static constexpr StringLiteral kExpanded[] = {
    "acosh", "asinh", "atanh", "cosh", "exp2",
    "fpowi", "powf",  "rsqrt", "sinh", "tan"};

/// Approximated by polynomials or rational functions in f32.
static constexpr StringLiteral kApproximated[] = {
    "acos", "asin",  "atan", "atan2", "cbrt", "cos", "erf", "erfc",
    "exp",  "expm1", "log",  "log1p", "log2", "sin", "tanh"};

/// Kept: every target has one instruction or a short exact sequence for them.
static constexpr StringLiteral kKept[] = {
    "absf",  "absi", "ceil",  "copysign",  "ctlz", "ctpop", "cttz",
    "floor", "fma",  "round", "roundeven", "sqrt", "trunc"};

static bool contains(ArrayRef<StringLiteral> names, StringRef name) {
  name.consume_front("math.");
  return llvm::is_contained(names, name);
}

/// Whether `op` is a math op that must be expanded.
static bool isMeant(Operation *op) {
  return isa_and_present<math::MathDialect>(op->getDialect()) &&
         !contains(kKept, op->getName().getStringRef());
}

namespace {

class ExpandMathPass : public fuse::impl::ExpandMathPassBase<ExpandMathPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    SmallVector<StringRef> expanded(std::begin(kExpanded), std::end(kExpanded));
    math::populateExpansionPatterns(patterns, expanded);
    auto isApproximated = [](StringRef name) {
      return contains(kApproximated, name);
    };
    populateMathF32ExpansionPatterns(patterns, [&](StringRef name) {
      return contains(kExpanded, name) || isApproximated(name);
    });
    populateMathPolynomialApproximationPatterns(patterns, isApproximated);
    getOperation()->walk([&](Operation *op) { numExpanded += isMeant(op); });
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();

    WalkResult result = getOperation()->walk([](Operation *op) {
      if (!isMeant(op))
        return WalkResult::advance();
      op->emitOpError("has no expansion for operands of type ")
          << op->getOperand(0).getType();
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
