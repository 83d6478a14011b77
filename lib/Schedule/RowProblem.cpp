//===- RowProblem.cpp - Fused ops with row kernels ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/RowProblem.h"

using namespace mlir;
using namespace fuse;

/// Maximum width in elements. A thread keeps its part of a row in registers.
static constexpr int64_t kMaxWidth = 16384;
/// Number of elements per access: 16 bytes of bf16.
static constexpr int64_t kVector = 8;

bool fuse::isRowOp(Operation *op) {
  return isa<NormQuantizeOp, ActQuantizeOp>(op);
}

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Result number of a value that `also` of an op names, or -1.
template <typename OpT>
static int64_t findExtra(OpT op, RoundingPoint point) {
  for (auto [index, extra] : llvm::enumerate(getPoints(op.getExtrasAttr())))
    if (extra == point)
      return index + 1;
  return -1;
}

/// The first reason why there is no kernel, or an empty string.
static std::string getProblem(const RowProblem &problem) {
  auto print = [](Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  };
  for (Value operand : problem.op->getOperands())
    if (!getType(operand).getElementType().isBF16())
      return "an operand is " + print(getType(operand).getElementType()) +
             ", not bf16";
  Type storage = problem.scales.getStorageType();
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(storage))
    return "values are quantized to " + print(storage) +
           ", not f8E4M3FN or f8E5M2";
  for (Value result : problem.op->getResults().drop_front())
    if (!getType(result).getElementType().isBF16())
      return "a result is " + print(getType(result).getElementType()) +
             ", not bf16";
  if (problem.width % 16 != 0)
    return ("the width " + Twine(problem.width) + " is not a multiple of 16")
        .str();
  if (problem.isNorm() && problem.width > kMaxWidth)
    return ("a width of " + Twine(problem.width) + " is more than " +
            Twine(kMaxWidth))
        .str();
  return "";
}

std::optional<RowProblem> fuse::describeRows(Operation *op,
                                             std::string &reason) {
  RowProblem problem;
  problem.op = op;
  if (auto norm = dyn_cast<NormQuantizeOp>(op)) {
    problem.x = norm.getX();
    problem.residual = norm.getResidual();
    problem.normWeight = norm.getNormWeight();
    problem.normBias = norm.getNormBias();
    problem.norm = norm.getNormAttr();
    problem.scales = norm.getScalesAttr();
    problem.rounding = norm.getRounding();
    problem.streamResult = findExtra(norm, RoundingPoint::Stream);
    problem.normedResult = findExtra(norm, RoundingPoint::Normed);
  } else if (auto act = dyn_cast<ActQuantizeOp>(op)) {
    problem.x = act.getX();
    problem.factor = act.getFactor();
    problem.activation = act.getActivation();
    problem.scales = act.getScalesAttr();
    problem.rounding = act.getRounding();
    problem.actResult = findExtra(act, RoundingPoint::Act);
    problem.productResult = findExtra(act, RoundingPoint::Product);
  } else {
    reason =
        ("there is no row kernel for " + op->getName().getStringRef()).str();
    return std::nullopt;
  }
  problem.width = getType(problem.x).getShape().back();
  reason = getProblem(problem);
  if (!reason.empty())
    return std::nullopt;
  return problem;
}

tile::RowScheduleAttr fuse::selectRows(const RowProblem &problem,
                                       const GpuModel &gpu) {
  // Each thread has two vectors of a row, so that one is in flight while the
  // other is processed. The blocks of a multiprocessor use all of its threads.
  constexpr int64_t kThreadsPerMultiprocessor = 2048;
  int64_t threads = 256;
  if (problem.isNorm())
    threads = std::clamp<int64_t>(
        llvm::alignTo(problem.width / kVector / 2, 32), 64, 512);
  return tile::RowScheduleAttr::get(
      problem.op->getContext(),
      gpu.multiprocessors * (kThreadsPerMultiprocessor / threads), threads);
}
