//===- Steps.cpp - A function as steps on tokens --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Consecutive fused ops, norms, linears and elementwise ops become the phases
// of one kernel. The only requirement is that they work on the same tokens:
// each row of a value belongs to a row of the first input.
//
//===----------------------------------------------------------------------===//

#include "fuse/Codegen/CPU/Steps.h"
#include "fuse/Schedule/WeightViews.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fuse;

static bool keepsLastDimension(ArrayRef<ReassociationIndices> groups) {
  return !groups.empty() && groups.back().size() == 1;
}

Value fuse::getFlatSource(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto reshape = dyn_cast<tensor::CollapseShapeOp>(op);
        reshape && keepsLastDimension(reshape.getReassociationIndices()))
      value = reshape.getSrc();
    else if (auto reshape = dyn_cast<tensor::ExpandShapeOp>(op);
             reshape && keepsLastDimension(reshape.getReassociationIndices()))
      value = reshape.getSrc();
    else
      break;
  }
  return value;
}

BlockArgument fuse::getStoredWeight(Value weight) {
  if (auto transpose = weight.getDefiningOp<linalg::TransposeOp>())
    weight = transpose.getInput();
  return dyn_cast<BlockArgument>(weight);
}

bool fuse::isMadeOfArguments(Value weight) {
  return llvm::all_of(getWeightView(weight).boxes, [](const ViewBox &box) {
    return isa<BlockArgument>(box.source);
  });
}

/// Whether an op computes no values for tokens: sizes, buffers, reshapes, and
/// parts of weights, which packing handles.
static bool isAuxiliary(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>() ||
      isa<tensor::EmptyOp, tensor::DimOp>(op))
    return true;
  if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op) &&
      getFlatSource(op->getResult(0)) != op->getResult(0))
    return true;
  return op->getNumResults() == 1 &&
         isa<RankedTensorType>(op->getResult(0).getType()) &&
         isMadeOfArguments(op->getResult(0));
}

/// Whether an op can be computed on vectors of f32 and of types that widen to
/// f32.
static bool hasVectorForm(Operation *op) {
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return true;
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
             arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, math::ExpOp,
             math::TanhOp, math::ErfOp, math::RsqrtOp, math::SqrtOp,
             math::AbsFOp>(op) &&
         op->getResult(0).getType().isF32();
}

/// Whether a `linalg.generic` computes each element of its only result from the
/// elements of its inputs at the same position.
static bool isMap(linalg::GenericOp op) {
  if (op.getNumResults() != 1 || op.getNumDpsInputs() == 0 ||
      op.getNumParallelLoops() != op.getNumLoops() ||
      !llvm::all_of(op.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isIdentity(); }) ||
      !op.getBody()
           ->getArguments()
           .drop_front(op.getNumDpsInputs())
           .front()
           .use_empty())
    return false;
  auto isKnown = [&](Value value) {
    return value.getParentBlock() == op.getBody() ||
           value.getDefiningOp<arith::ConstantOp>();
  };
  return llvm::all_of(op.getBody()->without_terminator(),
                      [&](Operation &inner) {
                        return hasVectorForm(&inner) &&
                               llvm::all_of(inner.getOperands(), isKnown);
                      }) &&
         llvm::all_of(op.getBody()->getTerminator()->getOperands(), isKnown);
}

static bool isMap(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return isMap(generic);
  return isa<ResidualAddOp, ActivationOp>(op);
}

/// Operands that a map reads for every token.
static OperandRange getInputs(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return op->getOperands().take_front(generic.getNumDpsInputs());
  return op->getOperands();
}

static int64_t getWidth(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().back();
}

static MlpProblem describeNorm(Operation *op) {
  MLIRContext *context = op->getContext();
  MlpProblem problem;
  problem.op = op;
  problem.rounding = RoundingAttr::getExact(context);
  problem.normedResult = 0;
  problem.width = getWidth(op->getResult(0));
  if (auto norm = dyn_cast<RMSNormOp>(op)) {
    problem.x = norm.getX();
    problem.normWeight = norm.getWeight();
    problem.norm = NormAttr::get(context, NormKind::RMS, norm.getEpsAttr(),
                                 norm.getOffset(), norm.getCast());
    return problem;
  }
  auto norm = cast<LayerNormOp>(op);
  problem.x = norm.getX();
  problem.normWeight = norm.getWeight();
  problem.normBias = norm.getBias();
  problem.norm = NormAttr::get(context, NormKind::Layer, norm.getEpsAttr(), 0,
                               NormCast::BeforeWeight);
  return problem;
}

static MlpProblem describeLinear(LinearOp op) {
  MlpProblem problem;
  problem.op = op;
  problem.x = op.getX();
  problem.rounding = RoundingAttr::get(
      op.getContext(), RoundingMode::Exact, {}, {},
      op.getBias() ? op.getBiasPlace() : BiasPlace::BeforeRounding);
  problem.width = getWidth(op.getX());
  problem.outputs.push_back({op.getWeight(), op.getBias(), getWidth(op.getY()),
                             ScaleName::weight(0)});
  return problem;
}

static std::optional<MlpProblem> describeOp(Operation *op,
                                            std::string &reason) {
  if (isa<RMSNormOp, LayerNormOp>(op))
    return describeNorm(op);
  if (auto linear = dyn_cast<LinearOp>(op)) {
    if (!linear.getInputScale() && !linear.getWeightScale() &&
        !linear.getChannelScale() && !linear.getDynamicScale())
      return describeLinear(linear);
    reason = "a linear is quantized";
    return std::nullopt;
  }
  return describeFamily(op, reason);
}

namespace {

/// Reads the ops of a function in order.
struct StepReader {
  func::FuncOp function;
  std::string &reason;
  std::vector<CPUStep> steps = {};
  /// Values with one row per token.
  DenseSet<Value> rows = {};
  bool hasFused = false;

  void read() {
    for (Operation &op : function.front().without_terminator()) {
      hasFused |= isa<FusedOpInterface>(op);
      if (reason.empty() && !isAuxiliary(&op))
        add(&op);
    }
    DenseSet<Value> returned;
    for (Value value : function.front().getTerminator()->getOperands()) {
      Value source = getFlatSource(value);
      if (!rows.contains(source) || isa<BlockArgument>(source) ||
          !returned.insert(source).second)
        fail("a result is an argument, or is returned twice");
    }
  }

  void fail(const Twine &why) {
    if (reason.empty())
      reason = why.str();
  }

  /// Whether an operand has one row per token. The verifier of the op ensures
  /// that other arguments have as many rows as the first input.
  bool isRows(Value value) {
    return !value || isa<BlockArgument>(value) ||
           rows.contains(getFlatSource(value));
  }

  void add(Operation *op) {
    CPUStep step;
    if (isMap(op)) {
      if (!llvm::all_of(getInputs(op), [&](Value input) {
            return rows.contains(getFlatSource(input));
          }))
        return fail(
            "an elementwise op reads a value that no earlier step makes");
      Value result = op->getResult(0);
      bool joins =
          !steps.empty() && !steps.back().maps.empty() &&
          getWidth(steps.back().maps.front()->getResult(0)) == getWidth(result);
      if (!joins)
        steps.emplace_back();
      steps.back().maps.push_back(op);
      rows.insert(result);
      return;
    }
    std::optional<MlpProblem> problem = describeOp(op, reason);
    if (!problem)
      return;
    Value x = getFlatSource(problem->x);
    if (steps.empty() && isa<BlockArgument>(x))
      rows.insert(x);
    if (!rows.contains(x))
      return fail("the input of an op is made by no earlier step");
    if (!isRows(problem->residual) || !isRows(problem->outputResidual))
      return fail(
          "a residual is neither an argument nor made by an earlier step");
    for (Value result : op->getResults())
      rows.insert(result);
    step.problem = *problem;
    steps.push_back(std::move(step));
  }
};

} // namespace

std::vector<CPUStep> fuse::describeSteps(func::FuncOp function,
                                         std::string &reason) {
  if (!function.isPublic() || !function.getBody().hasOneBlock())
    return {};
  StepReader reader{function, reason};
  reader.read();
  if (!reader.hasFused)
    reason.clear();
  if (!reader.hasFused || !reason.empty())
    return {};
  return std::move(reader.steps);
}
