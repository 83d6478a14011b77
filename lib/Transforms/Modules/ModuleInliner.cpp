//===- ModuleInliner.cpp - Copy forwards into one function ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Forwards are copied op by op, not cloned, because a function cannot contain
// ops that refer to modules. Reads of parameters become arguments. Calls of
// modules become the ops of their forwards, also in nested regions. The
// location of each copy names the path of its module. Kernels read their
// origins from these locations, and contracts the fused modules.
//
//===----------------------------------------------------------------------===//

#include "ModuleInliner.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fuse;

FailureOr<ModuleInliner::Values>
ModuleInliner::inlineForward(Operation *module, ArrayRef<Value> args) {
  FunctionOpInterface forward = getForward(tables, module);
  std::string path = getModulePath(module);
  auto subject = [&] {
    return isa<ModelOp>(module) ? "the model" : "'" + path + "'";
  };
  if (!forward)
    return module->emitError() << subject() << " has no forward to inline";
  if (forward.isExternal())
    return module->emitError()
           << "forward of " << subject() << " is declared only; nothing to "
           << "inline";
  if (!forward.getFunctionBody().hasOneBlock())
    return forward.emitError()
           << "forward of " << subject() << " has several blocks; expected one";
  StringAttr name = builder.getStringAttr(path);
  IRMapping mapping;
  for (auto [arg, value] : llvm::zip(forward.getArguments(), args))
    mapping.map(arg, value);
  // A caller may omit trailing arguments that have a default.
  for (unsigned i = args.size(); i < forward.getNumArguments(); ++i) {
    auto value =
        dyn_cast_or_null<TypedAttr>(forward.getArgAttr(i, kDefaultAttrName));
    if (!value || !arith::ConstantOp::isBuildableWith(value, value.getType()))
      return forward.emitError() << "default of argument " << i << " of "
                                 << subject() << " is not a constant of arith";
    Location loc = path.empty()
                       ? forward.getLoc()
                       : Location(NameLoc::get(name, forward.getLoc()));
    mapping.map(forward.getArgument(i),
                arith::ConstantOp::create(builder, loc, value).getResult());
  }
  Block &block = forward.getFunctionBody().front();
  for (Operation &op : block.without_terminator())
    if (failed(copy(op, name, mapping)))
      return failure();
  Values results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(mapping.lookup(value));
  return results;
}

FailureOr<ModuleInliner::Values>
ModuleInliner::inlineMembers(FusedCallOp call, ArrayRef<Value> operands) {
  size_t numArgs = call.getArgs().size();
  Values intermediates, outputs;
  ArrayRef<Value> sides = operands.drop_front(numArgs);
  SmallVector<IdentityCallOp> identities = getIdentities(call);
  for (auto [i, member] :
       llvm::enumerate(call.getMembers().getAsRange<SymbolRefAttr>())) {
    Values args(operands.take_front(numArgs));
    if (i > 0) {
      // Only the call of the first member is a fused call. The operands of the
      // other calls are in their identities: a side input, or -1 minus the
      // number of an earlier member's result.
      IdentityCallOp identity = identities[i - 1];
      args.clear();
      for (int64_t source : identity.getInterface())
        args.push_back(source >= 0 ? sides[source]
                                   : intermediates[-1 - source]);
      sides = sides.drop_front(identity.getIgnored().size());
    }
    FailureOr<Values> results =
        inlineForward(lookupModule(tables, call, member), args);
    if (failed(results))
      return failure();
    outputs = *results;
    llvm::append_range(intermediates, outputs);
  }
  for (int64_t position : call.getAlso().value_or(ArrayRef<int64_t>()))
    outputs.push_back(intermediates[position]);
  return outputs;
}

FailureOr<ModuleInliner::Values>
ModuleInliner::inlineFusedCall(FusedCallOp call, ArrayRef<Value> operands) {
  Operation *home = call->getParentOfType<ModelOp>()->getParentOp();
  func::FuncOp body;
  if (call.getBodyAttr() && home && home->hasTrait<OpTrait::SymbolTable>())
    body = dyn_cast_or_null<func::FuncOp>(
        tables.lookupSymbolIn(home, call.getBodyAttr()));
  if (!body)
    return inlineMembers(call, operands);
  auto fail = [&](const Twine &what) {
    return body.emitError()
           << "body of site '" << call.getSite() << "' " << what;
  };
  if (!body.getBody().hasOneBlock())
    return fail("has " + Twine(body.getBody().getBlocks().size()) +
                " blocks; expected one");
  if (!returnsResults(body))
    return fail("does not end in a return of its results");
  if (body.getNumArguments() < operands.size())
    return fail("takes " + Twine(body.getNumArguments()) +
                " values, the call "
                "has " +
                Twine(operands.size()));
  IRMapping mapping;
  for (auto [i, arg] : llvm::enumerate(body.getArguments())) {
    if (i < operands.size()) {
      if (arg.getType() != operands[i].getType())
        return fail("takes another type as argument " + Twine(i) +
                    " than the call has");
      mapping.map(arg, operands[i]);
      continue;
    }
    // The arguments after the operands of the call are parameters.
    Attribute name = body.getArgAttr(i, kParameterAttrName);
    if (!name)
      return fail("takes more values than the call has");
    if (auto symbol = dyn_cast<SymbolRefAttr>(name)) {
      auto parameter =
          dyn_cast_or_null<ParameterOp>(tables.lookupSymbolIn(home, symbol));
      if (!parameter || parameter.getType() != arg.getType())
        return body.emitError()
               << "body of site '" << call.getSite() << "' reads " << symbol
               << ", which is not a parameter of type " << arg.getType();
      if (names == ParameterNames::Checkpoint)
        name = builder.getStringAttr(getParameterName(parameter));
    }
    mapping.map(
        arg, getParameter(name, arg.getType(),
                          body.getArgAttrOfType<ShardAttr>(i, kShardAttrName),
                          arg.getLoc()));
  }
  Block &block = body.getBody().front();
  for (Operation &op : block.without_terminator())
    builder.clone(op, mapping);
  Values results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(mapping.lookup(value));
  if (TypeRange(ValueRange(results)) != call.getResultTypes())
    return fail("gives other types than the call");
  return results;
}

/// Qualifies the slot of a call that was copied out of its model.
static void qualify(CallSlotOp call, ModelOp model) {
  SymbolRefAttr callee = call.getCallee();
  if (!model || !model.lookupSymbol(callee))
    return;
  SmallVector<FlatSymbolRefAttr> nested = {
      FlatSymbolRefAttr::get(callee.getRootReference())};
  llvm::append_range(nested, callee.getNestedReferences());
  call.setCalleeAttr(SymbolRefAttr::get(model.getSymNameAttr(), nested));
}

LogicalResult ModuleInliner::copy(Operation &op, StringAttr path,
                                  IRMapping &mapping) {
  auto lookup = [&](OperandRange operands) {
    Values values;
    for (Value operand : operands)
      values.push_back(mapping.lookup(operand));
    return values;
  };
  if (auto get = dyn_cast<GetParameterOp>(op)) {
    Operation *module = getEnclosingModule(get);
    ParameterOp owner =
        getOwner(tables, cast<ParameterOp>(lookupSymbol(
                             tables, module, get.getParameterAttr())));
    Attribute name = nameParameter(owner, module, path);
    mapping.map(get.getValue(),
                getParameter(name, get.getType(), owner.getShardAttr(),
                             owner.getLoc()));
    return success();
  }
  if (auto identity = dyn_cast<IdentityCallOp>(op)) {
    mapping.map(identity.getOutputs(), lookup(identity.getValues()));
    return success();
  }
  if (isa<CallModuleOp, FusedCallOp>(op)) {
    Values operands = lookup(op.getOperands());
    auto call = dyn_cast<CallModuleOp>(op);
    FailureOr<Values> results =
        call ? inlineForward(lookupModule(tables, call, call.getCallee()),
                             operands)
             : inlineFusedCall(cast<FusedCallOp>(op), operands);
    if (failed(results))
      return failure();
    mapping.map(op.getResults(), *results);
    return success();
  }
  auto isOfModules = [](Operation *inner) {
    return isa<GetParameterOp, CallModuleOp, FusedCallOp, IdentityCallOp>(inner)
               ? WalkResult::interrupt()
               : WalkResult::advance();
  };
  auto relocate = [&](Operation *inner) {
    if (!path.empty())
      inner->setLoc(NameLoc::get(path, inner->getLoc()));
    if (auto call = dyn_cast<CallSlotOp>(inner))
      qualify(call, op.getParentOfType<ModelOp>());
  };
  if (!op.getNumRegions()) {
    relocate(builder.clone(op, mapping));
    return success();
  }
  // A region without ops that refer to modules can be cloned.
  if (!op.walk(isOfModules).wasInterrupted()) {
    builder.clone(op, mapping)->walk(relocate);
    return success();
  }
  Operation *clone = builder.cloneWithoutRegions(op, mapping);
  relocate(clone);
  return copyRegions(op, clone, path, mapping);
}

LogicalResult ModuleInliner::copyRegions(Operation &op, Operation *clone,
                                         StringAttr path, IRMapping &mapping) {
  OpBuilder::InsertionGuard guard(builder);
  for (auto [from, to] :
       llvm::zip_equal(op.getRegions(), clone->getRegions())) {
    for (Block &block : from) {
      SmallVector<Location> locs;
      for (BlockArgument arg : block.getArguments())
        locs.push_back(arg.getLoc());
      Block *copied =
          builder.createBlock(&to, to.end(), block.getArgumentTypes(), locs);
      mapping.map(&block, copied);
      mapping.map(block.getArguments(), copied->getArguments());
    }
    // Branches refer to blocks, so all blocks are created before any op is
    // copied.
    for (Block &block : from) {
      builder.setInsertionPointToEnd(mapping.lookup(&block));
      for (Operation &inner : block)
        if (failed(copy(inner, path, mapping)))
          return failure();
    }
  }
  return success();
}

Attribute ModuleInliner::nameParameter(ParameterOp owner, Operation *module,
                                       StringAttr path) {
  if (names == ParameterNames::Symbols) {
    auto model = owner->getParentOfType<ModelOp>();
    return getReference(model->getParentOp(), owner);
  }
  // A tied parameter has the name of its owner, elsewhere in the model.
  // Otherwise, the path of this module is already known.
  if (owner->getParentOp() == module && !path.empty())
    return builder.getStringAttr(Twine(path.getValue()) + "." +
                                 owner.getSymName());
  return builder.getStringAttr(getParameterName(owner));
}

Value ModuleInliner::getParameter(Attribute name, Type type, ShardAttr shard,
                                  Location loc) {
  Value &value = parameters[name];
  // A stored weight and a parameter never have the same name.
  if (value && value.getType() == type)
    return value;
  SmallVector<NamedAttribute> attrs = {NamedAttribute(parameterAttrName, name)};
  if (shard)
    attrs.push_back(builder.getNamedAttr(kShardAttrName, shard));
  parameterAttrs.push_back(builder.getDictionaryAttr(attrs));
  return value = function.getBody().front().addArgument(type, loc);
}

void ModuleInliner::finish(ValueRange results) {
  func::ReturnOp::create(builder, function.getLoc(), results);
  if (parameterAttrs.empty())
    return;
  SmallVector<DictionaryAttr> attrs;
  function.getAllArgAttrs(attrs);
  llvm::append_range(attrs, parameterAttrs);
  function.setType(builder.getFunctionType(
      function.getBody().getArgumentTypes(), function.getResultTypes()));
  function.setAllArgAttrs(attrs);
}

OwningOpRef<func::FuncOp> fuse::inlineCalls(SymbolTableCollection &tables,
                                            ArrayRef<CallModuleOp> calls,
                                            StringRef name) {
  // The inputs are the values that the chain reads from outside. The results
  // are those of the last call, followed by other values that are used outside.
  CallModuleOp head = calls.front(), tail = calls.back();
  llvm::SetVector<Value> inputs;
  SmallVector<Value> outputs(tail.getOutputs());
  auto isMember = [&](Operation *op) {
    return llvm::is_contained(calls, dyn_cast_or_null<CallModuleOp>(op));
  };
  for (CallModuleOp call : calls) {
    for (Value arg : call.getArgs())
      if (!isMember(arg.getDefiningOp()))
        inputs.insert(arg);
    if (call == tail)
      continue;
    for (Value value : call.getOutputs())
      if (!llvm::all_of(value.getUsers(), isMember))
        outputs.push_back(value);
  }
  OpBuilder builder(head.getContext());
  OwningOpRef<func::FuncOp> function = func::FuncOp::create(
      head.getLoc(), name,
      builder.getFunctionType(TypeRange(inputs.getArrayRef()),
                              TypeRange(ArrayRef(outputs))));
  function->addEntryBlock();
  IRMapping mapping;
  mapping.map(inputs.getArrayRef(), function->getArguments());
  // A chain without a body is not an error here.
  ScopedDiagnosticHandler silence(head.getContext(), [](Diagnostic &) {});
  ModuleInliner inliner(tables, *function);
  for (CallModuleOp call : calls) {
    SmallVector<Value> args;
    for (Value arg : call.getArgs())
      args.push_back(mapping.lookup(arg));
    auto results = inliner.inlineForward(
        lookupModule(tables, call, call.getCallee()), args);
    if (failed(results))
      return {};
    mapping.map(call.getOutputs(), *results);
  }
  SmallVector<Value> results;
  for (Value value : outputs)
    results.push_back(mapping.lookup(value));
  inliner.finish(results);
  return function;
}
