//===- RecordChecks.cpp - Asserts on sizes as checks of the host ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An assert that fails in compiled code would end the process, and a kernel
// cannot report it at all. Asserts on the sizes of arguments are checked before
// the call instead, where an error can be returned.
//
//===----------------------------------------------------------------------===//

#include "LaunchSizes.h"
#include "fuse/Analysis/ArgumentSizes.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_RECORDCHECKSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-record-checks"

namespace {

/// The checks that one assert stands for.
class AssertReader {
public:
  explicit AssertReader(cf::AssertOp op) : op(op), builder(op.getContext()) {}

  /// Appends the checks, or emits an error.
  LogicalResult read(SmallVectorImpl<Attribute> &checks);

private:
  /// Argument number and dimension.
  using Symbol = std::pair<int64_t, int64_t>;

  LogicalResult readCondition(Value condition,
                              SmallVectorImpl<Attribute> &checks);
  std::optional<AffineExpr> evaluate(Value value);
  std::optional<AffineExpr> evaluateDim(tensor::DimOp dim);
  AffineExpr getSymbol(Symbol symbol) {
    symbols.insert(symbol);
    const auto *it = llvm::find(symbols, symbol);
    return builder.getAffineSymbolExpr(it - symbols.begin());
  }
  LogicalResult refuse(Value value);

  cf::AssertOp op;
  Builder builder;
  llvm::SetVector<Symbol> symbols;
};

class RecordChecksPass
    : public fuse::impl::RecordChecksPassBase<RecordChecksPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    SmallVector<Attribute> checks;
    if (auto known = function->getAttrOfType<ArrayAttr>(kChecksAttrName))
      llvm::append_range(checks, known);
    WalkResult result = function.walk([&](cf::AssertOp op) {
      size_t before = checks.size();
      if (failed(AssertReader(op).read(checks)))
        return WalkResult::interrupt();
      numRecorded += checks.size() - before;
      op.erase();
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    if (!checks.empty())
      function->setAttr(kChecksAttrName, ArrayAttr::get(&getContext(), checks));
  }
};

} // namespace

static bool isUnsigned(arith::CmpIPredicate predicate) {
  using Predicate = arith::CmpIPredicate;
  return llvm::is_contained(
      {Predicate::ult, Predicate::ule, Predicate::ugt, Predicate::uge},
      predicate);
}

LogicalResult AssertReader::refuse(Value value) {
  InFlightDiagnostic error =
      op.emitOpError("cannot be checked before the call: its condition is not "
                     "a comparison of sizes of arguments");
  if (Operation *producer = value.getDefiningOp())
    error.attachNote(producer->getLoc())
        << "'" << producer->getName() << "' is not an expression of sizes";
  return error;
}

LogicalResult AssertReader::read(SmallVectorImpl<Attribute> &checks) {
  auto function = dyn_cast<func::FuncOp>(op->getParentOp());
  if (!function || !op->getBlock()->isEntryBlock())
    return op.emitOpError("cannot be checked before the call: it is under "
                          "control flow");
  if (!function.isPublic())
    return op.emitOpError("cannot be checked before the call: '")
           << function.getSymName()
           << "' is private; inline it into its callers";
  return readCondition(op.getArg(), checks);
}

/// Reads a conjunction of comparisons.
LogicalResult AssertReader::readCondition(Value condition,
                                          SmallVectorImpl<Attribute> &checks) {
  if (matchPattern(condition, m_One()))
    return success();
  if (auto both = condition.getDefiningOp<arith::AndIOp>())
    return success(succeeded(readCondition(both.getLhs(), checks)) &&
                   succeeded(readCondition(both.getRhs(), checks)));
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  if (!compare)
    return refuse(condition);
  std::optional<AffineExpr> lhs = evaluate(compare.getLhs());
  if (!lhs)
    return refuse(compare.getLhs());
  std::optional<AffineExpr> rhs = evaluate(compare.getRhs());
  if (!rhs)
    return refuse(compare.getRhs());
  if (isUnsigned(compare.getPredicate()) &&
      !(isNonNegative(*lhs) && isNonNegative(*rhs)))
    return refuse(condition);
  StringRef predicate;
  using Predicate = arith::CmpIPredicate;
  switch (compare.getPredicate()) {
  case Predicate::eq:
    predicate = "eq";
    break;
  case Predicate::ne:
    predicate = "ne";
    break;
  case Predicate::sgt:
  case Predicate::ugt:
    std::swap(lhs, rhs);
    [[fallthrough]];
  case Predicate::slt:
  case Predicate::ult:
    predicate = "lt";
    break;
  case Predicate::sge:
  case Predicate::uge:
    std::swap(lhs, rhs);
    [[fallthrough]];
  case Predicate::sle:
  case Predicate::ule:
    predicate = "le";
    break;
  }
  SmallVector<Attribute> places;
  for (auto [argument, dim] : symbols)
    places.push_back(builder.getDenseI64ArrayAttr({argument, dim}));
  auto sizes =
      AffineMap::get(0, symbols.size(), {*lhs, *rhs}, builder.getContext());
  checks.push_back(builder.getDictionaryAttr(
      {builder.getNamedAttr("message", op.getMsgAttr()),
       builder.getNamedAttr("predicate", builder.getStringAttr(predicate)),
       builder.getNamedAttr("sizes", AffineMapAttr::get(sizes)),
       builder.getNamedAttr("symbols", builder.getArrayAttr(places))}));
  return success();
}

/// The dimension of a tensor over those of arguments.
std::optional<AffineExpr> AssertReader::evaluateDim(tensor::DimOp dim) {
  std::optional<int64_t> index = dim.getConstantIndex();
  auto type = dyn_cast<RankedTensorType>(dim.getSource().getType());
  if (!index || !type || *index < 0 || *index >= type.getRank())
    return std::nullopt;
  return computeSizeFromArguments(
      dim.getSource(), *index, [&](BlockArgument argument, int64_t place) {
        return getSymbol({argument.getArgNumber(), place});
      });
}

std::optional<AffineExpr> AssertReader::evaluate(Value value) {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return builder.getAffineConstantExpr(*constant);
  Operation *producer = value.getDefiningOp();
  if (!producer)
    return std::nullopt;
  if (auto dim = dyn_cast<tensor::DimOp>(producer))
    return evaluateDim(dim);
  // A size fits into any type that a program computes it in.
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
          arith::ExtUIOp>(producer))
    return evaluate(producer->getOperand(0));
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivUIOp,
           arith::DivSIOp, arith::FloorDivSIOp, arith::CeilDivUIOp,
           arith::CeilDivSIOp, arith::RemUIOp, arith::RemSIOp,
           affine::AffineApplyOp>(producer))
    return std::nullopt;
  SmallVector<AffineExpr> operands;
  for (Value operand : producer->getOperands()) {
    std::optional<AffineExpr> expr = evaluate(operand);
    if (!expr)
      return std::nullopt;
    operands.push_back(*expr);
  }
  if (auto apply = dyn_cast<affine::AffineApplyOp>(producer)) {
    AffineMap map = apply.getAffineMap();
    ArrayRef<AffineExpr> all = operands;
    return map.getResult(0).replaceDimsAndSymbols(
        all.take_front(map.getNumDims()), all.drop_front(map.getNumDims()));
  }
  if (isa<arith::AddIOp>(producer))
    return operands[0] + operands[1];
  if (isa<arith::SubIOp>(producer))
    return operands[0] - operands[1];
  if (isa<arith::MulIOp>(producer))
    return operands[0] * operands[1];
  // The host refuses to divide by a size that is not positive.
  if (!isa<arith::FloorDivSIOp, arith::CeilDivSIOp>(producer) &&
      !(isNonNegative(operands[0]) && isNonNegative(operands[1])))
    return std::nullopt;
  if (isa<arith::RemUIOp, arith::RemSIOp>(producer))
    return operands[0] % operands[1];
  if (isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(producer))
    return operands[0].ceilDiv(operands[1]);
  return operands[0].floorDiv(operands[1]);
}
