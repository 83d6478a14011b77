//===- LaunchConditions.cpp - Conditions of launches ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conditions are normalized to a disjunction of conjunctions, so that hosts
// need no more than comparisons. Negations move into the comparisons.
//
//===----------------------------------------------------------------------===//

#include "LaunchConditions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace fuse;

/// Largest number of clauses. A host evaluates all of them for each launch.
static constexpr size_t kMaxClauses = 16;

/// Both conditions: every pair of their clauses.
static LaunchCondition conjoin(const LaunchCondition &lhs,
                               const LaunchCondition &rhs) {
  LaunchCondition result;
  for (const auto &left : lhs)
    for (const auto &right : rhs) {
      result.push_back(left);
      llvm::append_range(result.back(), right);
    }
  return result;
}

namespace {

/// Evaluates conditions, or their negations.
class ConditionReader {
public:
  explicit ConditionReader(LaunchSizes &sizes) : sizes(sizes) {}

  FailureOr<LaunchCondition> read(Value condition, bool value);

private:
  FailureOr<LaunchCondition> readBoth(Operation *op, bool value,
                                      bool isConjunction);
  FailureOr<LaunchCondition> readComparison(arith::CmpIOp op, bool value);

  LaunchSizes &sizes;
};

} // namespace

FailureOr<LaunchCondition> ConditionReader::readBoth(Operation *op, bool value,
                                                     bool isConjunction) {
  FailureOr<LaunchCondition> lhs = read(op->getOperand(0), value);
  FailureOr<LaunchCondition> rhs = failure();
  if (succeeded(lhs))
    rhs = read(op->getOperand(1), value);
  if (failed(rhs))
    return failure();
  if (isConjunction && lhs->size() * rhs->size() <= kMaxClauses)
    return conjoin(*lhs, *rhs);
  if (!isConjunction && lhs->size() + rhs->size() <= kMaxClauses) {
    llvm::append_range(*lhs, *rhs);
    return lhs;
  }
  return op->emitOpError("is the condition of a launch and has more than ")
         << kMaxClauses << " clauses";
}

FailureOr<LaunchCondition> ConditionReader::readComparison(arith::CmpIOp op,
                                                           bool value) {
  using Predicate = arith::CmpIPredicate;
  Predicate predicate =
      value ? op.getPredicate() : arith::invertPredicate(op.getPredicate());
  FailureOr<AffineExpr> lhs = sizes.evaluate(op.getLhs());
  FailureOr<AffineExpr> rhs = failure();
  if (succeeded(lhs))
    rhs = sizes.evaluate(op.getRhs());
  if (failed(rhs))
    return failure();
  bool isUnsigned = llvm::is_contained(
      {Predicate::ult, Predicate::ule, Predicate::ugt, Predicate::uge},
      predicate);
  if (isUnsigned && !(isNonNegative(*lhs) && isNonNegative(*rhs)))
    return op.emitOpError("is the condition of a launch and compares numbers "
                          "without sign that may be negative");
  auto make = [](StringRef name, AffineExpr left,
                 AffineExpr right) -> LaunchCondition {
    return {{SizeComparison{name, left, right}}};
  };
  switch (predicate) {
  case Predicate::eq:
    return make("eq", *lhs, *rhs);
  case Predicate::ne:
    return make("ne", *lhs, *rhs);
  case Predicate::slt:
  case Predicate::ult:
    return make("lt", *lhs, *rhs);
  case Predicate::sle:
  case Predicate::ule:
    return make("le", *lhs, *rhs);
  case Predicate::sgt:
  case Predicate::ugt:
    return make("lt", *rhs, *lhs);
  case Predicate::sge:
  case Predicate::uge:
    return make("le", *rhs, *lhs);
  }
  llvm_unreachable("all predicates are converted");
}

FailureOr<LaunchCondition> ConditionReader::read(Value condition, bool value) {
  // No clause never holds, and a clause without comparisons always does.
  APInt constant;
  if (matchPattern(condition, m_ConstantInt(&constant)))
    return constant.isZero() == value ? LaunchCondition() : LaunchCondition(1);
  Operation *op = condition.getDefiningOp();
  if (auto compare = dyn_cast_or_null<arith::CmpIOp>(op))
    return readComparison(compare, value);
  if (isa_and_present<arith::AndIOp>(op))
    return readBoth(op, value, /*isConjunction=*/value);
  if (isa_and_present<arith::OrIOp>(op))
    return readBoth(op, value, /*isConjunction=*/!value);
  if (isa_and_present<arith::XOrIOp>(op) &&
      matchPattern(op->getOperand(1), m_ConstantInt(&constant)))
    return read(op->getOperand(0), value == constant.isZero());
  return emitError(condition.getLoc())
         << "the condition of a launch is not a comparison of sizes";
}

FailureOr<LaunchCondition>
fuse::evaluateCondition(ArrayRef<HostBranch> branches, LaunchSizes &sizes) {
  LaunchCondition all(1);
  for (const HostBranch &branch : branches) {
    FailureOr<LaunchCondition> own =
        ConditionReader(sizes).read(branch.condition, branch.value);
    if (failed(own))
      return failure();
    all = conjoin(all, *own);
    if (all.size() > kMaxClauses)
      return emitError(branch.condition.getLoc())
             << "the condition of a launch has more than " << kMaxClauses
             << " clauses";
  }
  return all;
}
