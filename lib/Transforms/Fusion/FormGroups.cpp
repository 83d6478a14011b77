//===- FormGroups.cpp - Form a group of all ops of a function -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormGroups.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fuse;

/// The first op that cannot be in a group, and the reason.
static std::optional<std::pair<RefusalKind, Operation *>>
findObstacle(Block &block, bool disabled) {
  for (Operation &op : block.without_terminator()) {
    if (disabled)
      return std::pair(RefusalKind::Disabled, &op);
    if (op.walk([](FusedOpInterface) {
            return WalkResult::interrupt();
          }).wasInterrupted())
      return std::pair(RefusalKind::OverlapsKernel, &op);
    if (!isMemoryEffectFree(&op))
      return std::pair(RefusalKind::MemberHasEffects, &op);
  }
  return std::nullopt;
}

/// Moves all ops of `block` except its terminator into a group.
static GroupOp moveIntoGroup(Block &block, StringAttr id,
                             RoundingAttr rounding) {
  Operation *terminator = block.getTerminator();
  SmallVector<Operation *> members;
  SmallVector<Location> locs;
  SmallVector<Attribute> origins;
  llvm::SetVector<Value> inputs;
  SmallVector<Value> outputs;
  DenseSet<Operation *> isMember;
  for (Operation &op : block.without_terminator()) {
    members.push_back(&op);
    isMember.insert(&op);
    locs.push_back(op.getLoc());
    op.getLoc()->walk([&](Location loc) {
      if (auto name = dyn_cast<NameLoc>(loc))
        if (!llvm::is_contained(origins, Attribute(name.getName())))
          origins.push_back(name.getName());
      return WalkResult::advance();
    });
    // Values that nested regions read are operands of the group, too.
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == &block &&
            !isMember.contains(operand.getDefiningOp()))
          inputs.insert(operand);
    });
  }
  for (Operation *member : members)
    for (Value result : member->getResults())
      if (llvm::is_contained(terminator->getOperands(), result))
        outputs.push_back(result);
  OpBuilder builder(terminator);
  auto group = GroupOp::create(
      builder, getFusedLocation(builder.getContext(), locs),
      TypeRange(ArrayRef(outputs)), inputs.getArrayRef(), rounding,
      origins.empty() ? ArrayAttr() : builder.getArrayAttr(origins), id,
      ProvenanceAttr());
  Block *body = builder.createBlock(&group.getBody());
  for (Value input : inputs)
    body->addArgument(input.getType(), input.getLoc());
  for (Operation *member : members)
    member->moveBefore(body, body->end());
  for (unsigned i = 0; i < inputs.size(); ++i)
    Value(inputs[i]).replaceUsesWithIf(
        body->getArgument(i), [&](OpOperand &use) {
          return group->isProperAncestor(use.getOwner());
        });
  for (unsigned i = 0; i < outputs.size(); ++i)
    outputs[i].replaceUsesWithIf(group.getOutputs()[i], [&](OpOperand &use) {
      return use.getOwner() == terminator;
    });
  builder.setInsertionPointToEnd(body);
  YieldOp::create(builder, group.getLoc(), outputs);
  return group;
}

StringAttr fuse::getGroupSite(FunctionOpInterface function) {
  return StringAttr::get(function->getContext(), function.getName() + "#0");
}

KernelFormationCounts fuse::formGroup(FunctionOpInterface function,
                                      const KernelFormation &formation,
                                      RoundingAttr rounding) {
  KernelFormationCounts counts;
  Region &region = function.getFunctionBody();
  if (!region.hasOneBlock() || region.front().without_terminator().empty())
    return counts;
  Block &block = region.front();
  // The function was already grouped by an earlier run.
  if (isa<GroupOp>(block.front()) &&
      llvm::hasSingleElement(block.without_terminator()))
    return counts;
  StringAttr id = getGroupSite(function);
  bool disabled = llvm::is_contained(formation.disable, id.getValue());
  auto remarks = remark::RemarkOpts::name(id.getValue())
                     .category("fuse")
                     .subCategory("fuse-form-kernels");
  if (auto obstacle = findObstacle(block, disabled)) {
    auto [kind, op] = *obstacle;
    Refusal refusal(kind, op);
    ++counts.refused;
    if (formation.onRefusal) {
      formation.onRefusal(id.getValue(), refusal, op->getLoc(), op);
      return counts;
    }
    const RefusalText &text = getText(kind);
    remark::missed(op->getLoc(), remarks)
        << remark::reason("{0} {1}: {2}", text.id.str(), text.name.str(),
                          text.reason.str())
        << remark::metric("At", refusal.at.getStringRef())
        << remark::suggest("{0}", text.suggestion.str());
    return counts;
  }
  GroupOp group = moveIntoGroup(block, id, rounding);
  ++counts.fused;
  if (formation.onFused) {
    formation.onFused(id.getValue(), group);
    return counts;
  }
  remark::passed(group.getLoc(), remarks) << remark::metric("Family", "group");
  return counts;
}
