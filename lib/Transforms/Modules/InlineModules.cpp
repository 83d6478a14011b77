//===- InlineModules.cpp - Inline the members of fused calls --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Members keep their forwards; the function gets copies. To undo the pass, it
// is enough to erase the function. The location of each copied op names the
// path of its module. Kernels read their origins from these locations.
//
//===----------------------------------------------------------------------===//

#include "ModuleInliner.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace fuse {
#define GEN_PASS_DEF_INLINEMODULESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

/// Builds the function of one fused call. Returns null if a member cannot be
/// inlined.
static func::FuncOp inlineSite(FusedCallOp fused, StringAttr name,
                               OpBuilder &builder,
                               SymbolTableCollection &tables) {
  // FuncOp::create would build an attribute dictionary, which the context
  // keeps.
  OperationState state(fused.getLoc(), func::FuncOp::getOperationName());
  auto &properties = state.getOrAddProperties<func::FuncOp::Properties>();
  properties.sym_name = name;
  properties.function_type = TypeAttr::get(
      builder.getFunctionType(fused.getOperandTypes(), fused.getResultTypes()));
  state.addRegion();
  auto function = cast<func::FuncOp>(builder.create(state));
  function.addEntryBlock();
  if (fused.getFamily() == KernelFamily::Group)
    function->setAttr(kGroupAttrName, builder.getUnitAttr());
  ModuleInliner inliner(tables, function,
                        ModuleInliner::ParameterNames::Symbols);
  FailureOr<ModuleInliner::Values> results = inliner.inlineMembers(
      fused, ModuleInliner::Values(function.getArguments()));
  if (failed(results)) {
    function->erase();
    return {};
  }
  inliner.finish(*results);
  return function;
}

FailureOr<unsigned>
fuse::inlineFusedCalls(ModelOp model,
                       llvm::function_ref<bool(FusedCallOp)> isWanted) {
  SymbolTableCollection tables;
  SymbolTable *symbols = nullptr;
  std::string prefix;
  OpBuilder builder(model.getContext());
  builder.setInsertionPointAfter(model);
  auto prepare = [&]() -> LogicalResult {
    Operation *home = model->getParentOp();
    if (!home || !home->hasTrait<OpTrait::SymbolTable>())
      return model.emitError("must stand in a module to inline its members "
                             "beside it");
    symbols = &tables.getSymbolTable(home);
    // Two models of one file may have the same site ids.
    auto models = home->getRegion(0).getOps<ModelOp>();
    if (std::next(models.begin()) != models.end())
      prefix = model.getSymName().str() + ".";
    return success();
  };
  unsigned count = 0;
  LogicalResult walk = walkFusedCalls(model, [&](FusedCallOp call) {
    // A declared kernel provides its own code.
    if (call.getBodyAttr() || !call.getFamily() ||
        (isWanted && !isWanted(call)))
      return success();
    if (!symbols && failed(prepare()))
      return failure();
    StringAttr name = call.getSiteAttr();
    if (!prefix.empty())
      name = builder.getStringAttr(prefix + name.getValue());
    if (Operation *other = symbols->lookup(name)) {
      InFlightDiagnostic diag = call.emitError();
      diag << "there is a symbol '" << name.getValue()
           << "' in the module of the model, where the body of this site would "
              "go";
      diag.attachNote(other->getLoc()) << "symbol defined here";
      return failure();
    }
    func::FuncOp function = inlineSite(call, name, builder, tables);
    if (!function)
      return failure();
    builder.setInsertionPointAfter(function);
    symbols->insert(function);
    call.setBodyAttr(FlatSymbolRefAttr::get(name));
    ++count;
    return success();
  });
  if (failed(walk))
    return failure();
  return count;
}

namespace {

struct InlineModules : fuse::impl::InlineModulesPassBase<InlineModules> {
  using Base::Base;

  void runOnOperation() override {
    for (ModelOp model : findModels(getOperation())) {
      FailureOr<unsigned> count = inlineFusedCalls(model);
      if (failed(count))
        return signalPassFailure();
      numInlined += *count;
    }
  }
};

} // namespace
