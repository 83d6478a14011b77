//===- UnfuseModules.cpp - Replace fused calls by their calls -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The calls of a site never moved. The fused call is in the place of the first
// one, and identities are in the places of the others. Each has the location
// and the discardable attributes of the call that it replaced. Unfusing
// connects arguments and results according to `interface` and `also`.
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/ModuleFusion.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fuse;

/// Recreates the call of `callee` that `op` replaced.
static CallModuleOp createCall(OpBuilder &builder, Operation *op,
                               SymbolRefAttr callee, ArrayRef<Value> args,
                               SymbolTableCollection &tables) {
  builder.setInsertionPoint(op);
  NetModuleOp module = lookupModule(tables, op, callee);
  auto call = CallModuleOp::create(builder, op->getLoc(),
                                   getForward(tables, module).getResultTypes(),
                                   callee, args);
  call->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return call;
}

static void unfuseCall(FusedCallOp fused, SymbolTableCollection &tables) {
  OpBuilder builder(fused);
  SmallVector<IdentityCallOp> identities = getIdentities(fused);
  ArrayRef<Attribute> members = fused.getMembers().getValue();
  CallModuleOp call =
      createCall(builder, fused, cast<SymbolRefAttr>(members.front()),
                 llvm::to_vector(fused.getArgs()), tables);
  SmallVector<Value> intermediates;
  for (IdentityCallOp identity : identities) {
    llvm::append_range(intermediates, call.getOutputs());
    SmallVector<Value> args;
    for (int64_t source : identity.getInterface())
      args.push_back(source >= 0 ? identity.getIgnored()[source]
                                 : intermediates[-1 - source]);
    call = createCall(builder, identity, identity.getCallee(), args, tables);
  }
  for (auto [i, position] :
       llvm::enumerate(fused.getAlso().value_or(ArrayRef<int64_t>())))
    fused.getOutputs()[fused.getFinalOutputs().size() + i].replaceAllUsesWith(
        intermediates[position]);
  Operation *last =
      identities.empty() ? fused : identities.back().getOperation();
  last->replaceAllUsesWith(ValueRange(call.getOutputs()));
  for (IdentityCallOp identity : llvm::reverse(identities))
    identity->erase();
  fused->erase();
}

void fuse::unfuseCalls(ArrayRef<FusedCallOp> calls,
                       SymbolTableCollection &tables,
                       llvm::SetVector<Operation *> &bodies) {
  for (FusedCallOp call : calls) {
    if (FlatSymbolRefAttr body = call.getBodyAttr()) {
      Operation *home = call->getParentOfType<ModelOp>()->getParentOp();
      if (home && home->hasTrait<OpTrait::SymbolTable>())
        if (Operation *function = tables.lookupSymbolIn(home, body.getAttr()))
          bodies.insert(function);
    }
    unfuseCall(call, tables);
  }
}
