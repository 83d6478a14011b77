//===- WeightRecipes.cpp - Layouts of stored weights ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/WeightRecipes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fuse;

/// The parameter with the dotted `name` below `module`, or null.
static ParameterOp lookupIn(SymbolTableCollection &tables, Operation *module,
                            StringRef name) {
  SmallVector<StringRef> names;
  name.split(names, '.');
  for (StringRef symbol : names) {
    if (!isa_and_nonnull<NetModuleOp>(module))
      return {};
    module = lookupSymbol(tables, module,
                          StringAttr::get(module->getContext(), symbol));
  }
  return dyn_cast_or_null<ParameterOp>(module);
}

RecipeOrProblem fuse::instantiate(RecipeAttr wanted, StringRef prefix,
                                  Operation *scope,
                                  ArrayRef<NetModuleOp> members,
                                  SymbolTableCollection &tables) {
  MLIRContext *context = wanted.getContext();
  std::string about = "recipe '" + wanted.getName().str() + "' ";
  SmallVector<Attribute> sources;
  SmallVector<RankedTensorType> types;
  SmallVector<ShardAttr> shards;
  for (Attribute source : wanted.getSources()) {
    auto wantedParameter = cast<MemberParameterAttr>(source);
    unsigned number = wantedParameter.getPosition();
    StringRef name = wantedParameter.getPath();
    if (number >= members.size())
      return about + "reads a parameter of member " + std::to_string(number) +
             ", there are " + std::to_string(members.size());
    ParameterOp parameter = lookupIn(tables, members[number], name);
    if (!parameter)
      return about + "reads '" + name.str() + "', which '" +
             getModulePath(members[number]) + "' does not have";
    sources.push_back(getReference(scope, parameter));
    types.push_back(cast<RankedTensorType>(parameter.getType()));
    shards.push_back(parameter.getShardAttr());
  }
  RecipeAttr recipe = wanted.withNames(
      StringAttr::get(context, prefix + "." + wanted.getName().getValue()),
      sources);
  std::string problem;
  ScopedDiagnosticHandler handler(
      context, [&](Diagnostic &diag) { problem = diag.str(); });
  auto fail = [&] { return emitError(UnknownLoc::get(context)); };
  if (failed(recipe.inferType(types, fail)) ||
      failed(recipe.inferShard(types, shards, fail)))
    return problem;
  return recipe;
}

//===----------------------------------------------------------------------===//
// Conflicts
//===----------------------------------------------------------------------===//

namespace {

/// A recipe that stores a parameter in another layout.
struct Claim {
  RecipeAttr recipe;
  FusedCallOp call;
};

/// Follows the calls of a model and finds the reads of original parameters.
class Readers {
public:
  Readers(ModelOp model,
          const DenseMap<Operation *, SmallVector<Claim, 1>> &claims)
      : model(model), claims(claims) {}

  LogicalResult check(SymbolTableCollection &tables);

private:
  /// The fused call to whose members the reading code belongs, or null.
  using Context = FusedCallOp;

  void add(Operation *module, Context context);
  LogicalResult checkForward(Operation *module, Context context,
                             SymbolTableCollection &tables);
  LogicalResult checkRead(ParameterOp parameter, Operation *reader,
                          Context context, SymbolTableCollection &tables);

  ModelOp model;
  const DenseMap<Operation *, SmallVector<Claim, 1>> &claims;
  llvm::SetVector<std::pair<Operation *, Operation *>> pending;
};

} // namespace

void Readers::add(Operation *module, Context context) {
  if (module)
    pending.insert({module, context.getOperation()});
}

LogicalResult Readers::checkRead(ParameterOp parameter, Operation *reader,
                                 Context context,
                                 SymbolTableCollection &tables) {
  auto it = claims.find(getOwner(tables, parameter));
  if (it == claims.end())
    return success();
  for (Claim claim : it->second) {
    // A member of the site reads the stored weight instead.
    bool fromRecipe =
        context && context.getWeightsAttr() &&
        llvm::is_contained(context.getWeightsAttr(), claim.recipe);
    if (claim.recipe.getKeep() || fromRecipe)
      continue;
    InFlightDiagnostic diag = emitError(claim.call.getLoc());
    diag << "site '" << claim.call.getSite() << "' stores '"
         << getParameterName(it->first == parameter.getOperation()
                                 ? parameter
                                 : cast<ParameterOp>(it->first))
         << "' as '" << claim.recipe.getName().getValue() << "', and '"
         << getModulePath(reader) << "' reads the original";
    if (parameter.getTiedTo())
      diag << ", by the tied name '" << getParameterName(parameter) << "'";
    diag << "; write 'keep' to store it as well";
    return diag;
  }
  return success();
}

LogicalResult Readers::checkForward(Operation *module, Context context,
                                    SymbolTableCollection &tables) {
  FunctionOpInterface forward = getForward(tables, module);
  if (!forward)
    return success();
  if (forward.isExternal()) {
    // A forward that is only declared may read every parameter of its module.
    WalkResult walk = module->walk([&](ParameterOp parameter) {
      return WalkResult(checkRead(parameter, module, context, tables));
    });
    return failure(walk.wasInterrupted());
  }
  WalkResult walk = forward->walk([&](Operation *op) {
    if (auto get = dyn_cast<GetParameterOp>(op)) {
      auto parameter = cast<ParameterOp>(
          lookupSymbol(tables, module, get.getParameterAttr()));
      return WalkResult(checkRead(parameter, module, context, tables));
    }
    if (auto call = dyn_cast<CallModuleOp>(op))
      add(lookupModule(tables, call, call.getCallee()), context);
    if (auto call = dyn_cast<FusedCallOp>(op))
      for (auto member : call.getMembers().getAsRange<SymbolRefAttr>())
        add(lookupModule(tables, call, member), call);
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult Readers::check(SymbolTableCollection &tables) {
  add(model, {});
  // A module that the model does not call may be called from outside.
  llvm::DenseSet<Operation *> called;
  model->walk([&](Operation *op) {
    if (auto call = dyn_cast<CallModuleOp>(op))
      called.insert(lookupModule(tables, call, call.getCallee()));
    if (auto call = dyn_cast<FusedCallOp>(op))
      for (auto member : call.getMembers().getAsRange<SymbolRefAttr>())
        called.insert(lookupModule(tables, call, member));
  });
  model->walk<WalkOrder::PreOrder>([&](NetModuleOp module) {
    FunctionOpInterface forward = getForward(tables, module);
    if (forward && !called.contains(module))
      add(module, {});
    // A declared forward may call every module below.
    return forward && forward.isExternal() ? WalkResult::skip()
                                           : WalkResult::advance();
  });
  for (size_t i = 0; i < pending.size(); ++i) {
    auto [module, context] = pending[i];
    if (failed(
            checkForward(module, cast_or_null<FusedCallOp>(context), tables)))
      return failure();
  }
  return success();
}

FailureOr<SmallVector<StoredWeight>> fuse::collectRecipes(ModelOp model) {
  SymbolTableCollection tables;
  SmallVector<StoredWeight> weights;
  llvm::DenseSet<RecipeAttr> recipes;
  DenseMap<StringAttr, RecipeAttr> byName;
  DenseMap<Operation *, SmallVector<Claim, 1>> claims;
  WalkResult walk = model->walk([&](FusedCallOp call) {
    if (!call.getWeightsAttr())
      return WalkResult::advance();
    for (auto recipe : call.getWeightsAttr().getAsRange<RecipeAttr>()) {
      RecipeAttr other =
          byName.try_emplace(recipe.getName(), recipe).first->second;
      if (other != recipe) {
        call.emitError() << "site '" << call.getSite() << "' stores '"
                         << recipe.getName().getValue() << "' as " << recipe
                         << ", another site stores it as " << other;
        return WalkResult::interrupt();
      }
      if (lookupParameter(tables, model, recipe.getName().getValue())) {
        call.emitError() << "site '" << call.getSite() << "' stores '"
                         << recipe.getName().getValue()
                         << "', which is the name of a parameter";
        return WalkResult::interrupt();
      }
      if (!recipes.insert(recipe).second)
        continue;
      StoredWeight &weight = weights.emplace_back();
      weight.recipe = recipe;
      for (Attribute source : recipe.getSources()) {
        // The verifier has checked that the sources exist.
        ParameterOp parameter = lookupParameter(
            tables, getEnclosingModule(call), cast<SymbolRefAttr>(source));
        weight.sources.push_back(getParameterName(parameter));
        auto &claimed = claims[getOwner(tables, parameter)];
        for (Claim claim : claimed) {
          // One recipe may contain both names of a tied parameter.
          if (claim.recipe == recipe ||
              (claim.recipe.getKeep() && recipe.getKeep()))
            continue;
          InFlightDiagnostic diag = call.emitError();
          diag << "parameter '" << weight.sources.back()
               << "' is needed in two layouts: as " << recipe << " by site '"
               << call.getSite() << "' and as " << claim.recipe << " by site '"
               << claim.call.getSite() << "'";
          return WalkResult::interrupt();
        }
        claimed.push_back({recipe, call});
      }
    }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  if (!claims.empty() && failed(Readers(model, claims).check(tables)))
    return failure();
  return weights;
}
