//===- InlineModules.cpp - Bring the bodies of members together -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Members keep their forwards; the function gets copies. Undoing is therefore
// to drop the function. Each copied op is located by the path of the module it
// came from, which is how a kernel learns its origins.
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"

namespace fuse {
#define GEN_PASS_DEF_INLINEMODULESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {

/// Copies forwards, and the forwards that they call, into one function.
class Inliner {
public:
  Inliner(SymbolTableCollection &tables, func::FuncOp function)
      : tables(tables), function(function),
        builder(OpBuilder::atBlockEnd(&function.getBody().front())) {}

  /// Appends the body of a module's forward. Returns its results.
  FailureOr<SmallVector<Value>> inlineCall(NetModuleOp module,
                                           ArrayRef<Value> args);
  /// Ends the function.
  void finish(ValueRange results);

private:
  FailureOr<SmallVector<Value>> inlineBody(FunctionOpInterface forward,
                                           StringRef path, IRMapping &mapping);
  LogicalResult copy(Operation &op, StringRef path, IRMapping &mapping);
  Value getParameter(GetParameterOp get);

  SymbolTableCollection &tables;
  func::FuncOp function;
  OpBuilder builder;
  /// Arguments that stand for parameters, by parameter.
  DenseMap<Operation *, Value> parameters;
};

} // namespace

FailureOr<SmallVector<Value>> Inliner::inlineCall(NetModuleOp module,
                                                  ArrayRef<Value> args) {
  FunctionOpInterface forward = getForward(tables, module);
  std::string path = getModulePath(module);
  if (!forward || forward.isExternal())
    return module.emitError()
           << "module '" << path << "' is declared only; nothing to inline";
  if (!forward.getFunctionBody().hasOneBlock())
    return forward.emitError()
           << "forward of '" << path << "' has several blocks; expected one";
  IRMapping mapping;
  for (auto [arg, value] : llvm::zip(forward.getArguments(), args))
    mapping.map(arg, value);
  for (unsigned i = args.size(); i < forward.getNumArguments(); ++i) {
    auto value = cast<TypedAttr>(forward.getArgAttr(i, kDefaultAttrName));
    if (!arith::ConstantOp::isBuildableWith(value, value.getType()))
      return forward.emitError() << "default of argument " << i << " of '"
                                 << path << "' is no constant of arith";
    mapping.map(forward.getArgument(i),
                arith::ConstantOp::create(
                    builder,
                    NameLoc::get(builder.getStringAttr(path), forward.getLoc()),
                    value)
                    .getResult());
  }
  return inlineBody(forward, path, mapping);
}

FailureOr<SmallVector<Value>> Inliner::inlineBody(FunctionOpInterface forward,
                                                  StringRef path,
                                                  IRMapping &mapping) {
  Block &block = forward.getFunctionBody().front();
  for (Operation &op : block.without_terminator())
    if (failed(copy(op, path, mapping)))
      return failure();
  SmallVector<Value> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(mapping.lookup(value));
  return results;
}

LogicalResult Inliner::copy(Operation &op, StringRef path, IRMapping &mapping) {
  if (auto get = dyn_cast<GetParameterOp>(op)) {
    mapping.map(get.getValue(), getParameter(get));
    return success();
  }
  if (auto call = dyn_cast<CallModuleOp>(op)) {
    SmallVector<Value> args;
    for (Value arg : call.getArgs())
      args.push_back(mapping.lookup(arg));
    FailureOr<SmallVector<Value>> results =
        inlineCall(lookupModule(tables, call, call.getCallee()), args);
    if (failed(results))
      return failure();
    mapping.map(call.getOutputs(), *results);
    return success();
  }
  Operation *clone = builder.clone(op, mapping);
  StringAttr name = builder.getStringAttr(path);
  WalkResult walk = clone->walk([&](Operation *inner) {
    // A name in a nested region would be relative to the wrong module.
    if (isa<GetParameterOp, CallModuleOp, FusedCallOp, IdentityCallOp>(inner))
      return WalkResult::interrupt();
    inner->setLoc(NameLoc::get(name, inner->getLoc()));
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return op.emitError() << "a call or a parameter within '" << op.getName()
                          << "' can not be inlined";
  return success();
}

Value Inliner::getParameter(GetParameterOp get) {
  Operation *scope = getEnclosingModule(get);
  auto parameter =
      cast<ParameterOp>(tables.lookupSymbolIn(scope, get.getParameter()));
  Value &value = parameters[parameter];
  if (value)
    return value;
  std::string path = getModulePath(parameter->getParentOp());
  std::string name = path.empty() ? parameter.getSymName().str()
                                  : path + "." + parameter.getSymName().str();
  unsigned index = function.getNumArguments();
  NamedAttribute attr =
      builder.getNamedAttr(kParameterAttrName, builder.getStringAttr(name));
  (void)function.insertArgument(index, get.getType(),
                                builder.getDictionaryAttr(attr),
                                parameter.getLoc());
  return value = function.getArgument(index);
}

void Inliner::finish(ValueRange results) {
  func::ReturnOp::create(builder, function.getLoc(), results);
}

/// The function for one fused call, or null when a member can not be inlined.
static func::FuncOp inlineSite(FusedCallOp fused, OpBuilder &builder,
                               SymbolTableCollection &tables) {
  auto function = func::FuncOp::create(
      builder, fused.getLoc(), fused.getSite(),
      builder.getFunctionType(fused.getOperandTypes(), fused.getResultTypes()));
  function.addEntryBlock();
  Inliner inliner(tables, function);
  auto takeArgs = [&, next = 0u](unsigned count) mutable {
    SmallVector<Value> args(function.getArguments().slice(next, count));
    next += count;
    return args;
  };
  SmallVector<Value> intermediates, outputs;
  SmallVector<IdentityCallOp> identities = getIdentities(fused);
  for (auto [i, member] :
       llvm::enumerate(fused.getMembers().getAsRange<SymbolRefAttr>())) {
    SmallVector<Value> args;
    if (i == 0) {
      args = takeArgs(fused.getArgs().size());
    } else {
      IdentityCallOp identity = identities[i - 1];
      SmallVector<Value> sides = takeArgs(identity.getIgnored().size());
      for (int64_t source : identity.getInterface())
        args.push_back(source >= 0 ? sides[source]
                                   : intermediates[-1 - source]);
    }
    FailureOr<SmallVector<Value>> results =
        inliner.inlineCall(lookupModule(tables, fused, member), args);
    if (failed(results)) {
      function->erase();
      return {};
    }
    outputs = *results;
    llvm::append_range(intermediates, outputs);
  }
  for (int64_t position : fused.getAlso().value_or(ArrayRef<int64_t>()))
    outputs.push_back(intermediates[position]);
  inliner.finish(outputs);
  return function;
}

FailureOr<unsigned> fuse::inlineFusedCalls(ModelOp model) {
  SmallVector<FusedCallOp> calls;
  SymbolTableCollection tables;
  model->walk([&](FusedCallOp call) {
    // A declared kernel brings its own code.
    bool declared = isa_and_nonnull<KernelOp>(
        tables.lookupSymbolIn(model, call.getKernelAttr()));
    if (!call.getBodyAttr() && !declared)
      calls.push_back(call);
  });
  if (calls.empty())
    return 0u;
  Operation *home = model->getParentOp();
  if (!home || !home->hasTrait<OpTrait::SymbolTable>())
    return model.emitError("must stand in a module to inline its members "
                           "beside it"),
           failure();
  SymbolTable &symbols = tables.getSymbolTable(home);
  OpBuilder builder(model.getContext());
  builder.setInsertionPointAfter(model);
  for (FusedCallOp call : calls) {
    if (Operation *other = symbols.lookup(call.getSite())) {
      InFlightDiagnostic diag = call.emitError();
      diag << "there is a symbol '" << call.getSite()
           << "' beside the model, where the body of this site would go";
      diag.attachNote(other->getLoc()) << "symbol defined here";
      return failure();
    }
    func::FuncOp function = inlineSite(call, builder, tables);
    if (!function)
      return failure();
    builder.setInsertionPointAfter(function);
    symbols.insert(function);
    call.setBodyAttr(FlatSymbolRefAttr::get(function));
  }
  return calls.size();
}

namespace {

struct InlineModules : fuse::impl::InlineModulesPassBase<InlineModules> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<ModelOp> models;
    getOperation()->walk([&](ModelOp model) { models.push_back(model); });
    for (ModelOp model : models) {
      FailureOr<unsigned> count = inlineFusedCalls(model);
      if (failed(count))
        return signalPassFailure();
      numInlined += *count;
    }
  }
};

} // namespace
