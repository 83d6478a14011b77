//===- PackWeights.cpp - Store weights of kernels in another layout -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layouts only permute elements. A generated kernel computes exactly what its
// members compute, so packing must not round a weight again.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/WeightRecipes.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"

namespace fuse {
#define GEN_PASS_DEF_PACKWEIGHTSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

/// Parses `name=concat(1:a,1:b)`, `name=interleave(1:a,1:b,block=8)` or
/// `name=transpose(1:a)`. In all forms, the last item may be `keep`.
static FailureOr<RecipeAttr> parseLayout(Operation *root, StringRef text) {
  auto fail = [&](const Twine &why) {
    return root->emitError() << "layout '" << text << "': " << why;
  };
  constexpr llvm::StringLiteral forms =
      "expected name=concat(1:a,1:b), name=interleave(1:a,1:b,block=8) or "
      "name=transpose(1:a)";
  auto [name, recipe] = text.trim().split('=');
  name = name.trim();
  recipe = recipe.trim();
  auto [kindName, list] = recipe.split('(');
  if (name.empty() || !list.consume_back(")"))
    return fail(forms);
  std::optional<RecipeKind> kind = symbolizeRecipeKind(kindName.trim());
  if (kind != RecipeKind::Concat && kind != RecipeKind::Interleave &&
      kind != RecipeKind::Transpose)
    return fail("unknown permutation '" + kindName.trim() + "'; " + forms);
  MLIRContext *context = root->getContext();
  SmallVector<StringRef> items;
  list.split(items, ',');
  SmallVector<Attribute> sources;
  int64_t block = 0;
  bool keep = false;
  for (StringRef item : items) {
    item = item.trim();
    if (item == "keep") {
      keep = true;
      continue;
    }
    if (item.consume_front("block=")) {
      if (item.getAsInteger(10, block) || block < 1)
        return fail("block of '" + item + "' rows");
      continue;
    }
    auto source = MemberParameterAttr::fromText(context, item);
    if (!source)
      return fail("recipe '" + name + "' reads '" + item +
                  "'; expected position:name");
    sources.push_back(source);
  }
  RecipeAttr attr = RecipeAttr::getChecked(
      [&] { return root->emitError() << "layout '" << text << "': "; }, context,
      StringAttr::get(context, name), *kind, ArrayRef(sources), keep, block,
      /*offset=*/int64_t(0), Type(), FloatAttr());
  if (!attr)
    return failure();
  return attr;
}

/// Extracts rows `first`, `first + step`, ... of a matrix or a vector.
static Value takeRows(OpBuilder &builder, Value stored, int64_t first,
                      int64_t step, RankedTensorType type) {
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(type.getRank(), builder.getIndexAttr(1));
  SmallVector<OpFoldResult> sizes;
  for (int64_t size : type.getShape())
    sizes.push_back(builder.getIndexAttr(size));
  offsets[0] = builder.getIndexAttr(first);
  strides[0] = builder.getIndexAttr(step);
  return tensor::ExtractSliceOp::create(builder, stored.getLoc(), type, stored,
                                        offsets, sizes, strides);
}

/// The matrix of which `stored` is the transpose.
static Value transposeBack(OpBuilder &builder, Value stored,
                           RankedTensorType type) {
  Value empty = tensor::EmptyOp::create(builder, stored.getLoc(),
                                        type.getShape(), type.getElementType());
  return linalg::TransposeOp::create(builder, stored.getLoc(), stored, empty,
                                     ArrayRef<int64_t>{1, 0})
      ->getResult(0);
}

/// Reorders an interleaved weight so that the rows of each source are adjacent.
static Value sortBlocks(OpBuilder &builder, RecipeAttr recipe, Value stored) {
  auto type = cast<RankedTensorType>(stored.getType());
  Location loc = stored.getLoc();
  int64_t block = recipe.getBlock(), count = recipe.getSources().size();
  SmallVector<int64_t> shape = {type.getDimSize(0) / (block * count), count,
                                block};
  llvm::append_range(shape, type.getShape().drop_front());
  SmallVector<ReassociationIndices> rows = {{0, 1, 2}};
  for (int64_t dim = 1; dim < type.getRank(); ++dim)
    rows.push_back({dim + 2});
  Value blocks = tensor::ExpandShapeOp::create(
      builder, loc, type.clone(ArrayRef(shape)), stored, rows);
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  std::swap(shape[0], shape[1]);
  std::swap(order[0], order[1]);
  Value empty =
      tensor::EmptyOp::create(builder, loc, shape, type.getElementType());
  Value sorted = linalg::TransposeOp::create(builder, loc, blocks, empty, order)
                     ->getResult(0);
  return tensor::CollapseShapeOp::create(builder, loc, type, sorted, rows);
}

/// Replaces the parameters of a site's function by one stored weight.
static LogicalResult packArguments(func::FuncOp function, RecipeAttr recipe,
                                   ArrayRef<ParameterOp> owners) {
  SmallVector<unsigned> positions;
  SmallVector<RankedTensorType> types;
  SmallVector<ShardAttr> shards;
  for (ParameterOp owner : owners) {
    std::string name = getParameterName(owner);
    std::optional<unsigned> position;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (getParameterName(function, i) == name)
        position = i;
    if (!position)
      return function.emitError()
             << "function of the site has no argument for parameter '" << name
             << "'";
    positions.push_back(*position);
    types.push_back(
        cast<RankedTensorType>(function.getArgument(*position).getType()));
    shards.push_back(
        function.getArgAttrOfType<ShardAttr>(*position, kShardAttrName));
  }
  auto fail = [&] { return function.emitError(); };
  FailureOr<RankedTensorType> type = recipe.inferType(types, fail);
  FailureOr<ShardAttr> shard = recipe.inferShard(types, shards, fail);
  if (failed(type) || failed(shard))
    return failure();
  Builder attrs(function.getContext());
  unsigned place = *llvm::min_element(positions);
  SmallVector<NamedAttribute> named = {
      attrs.getNamedAttr(kParameterAttrName, recipe.getName())};
  if (*shard)
    named.push_back(attrs.getNamedAttr(kShardAttrName, *shard));
  if (failed(function.insertArgument(place, *type,
                                     attrs.getDictionaryAttr(named),
                                     function.getArgument(place).getLoc())))
    return failure();
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  Value stored = function.getArgument(place);
  // Interleaved single rows are a strided slice. Larger blocks are reordered
  // first.
  int64_t step = recipe.getBlock() == 1 ? positions.size() : 1;
  if (recipe.getBlock() > 1)
    stored = sortBlocks(builder, recipe, stored);
  llvm::BitVector dead(function.getNumArguments());
  int64_t row = 0;
  for (unsigned i = 0; i < positions.size(); ++i) {
    // The new argument precedes all parameters, so their positions shift by
    // one.
    unsigned position = positions[i] + 1;
    Value value =
        recipe.getKind() == RecipeKind::Transpose
            ? transposeBack(builder, stored, types[i])
            : takeRows(builder, stored, step == 1 ? row : i, step, types[i]);
    function.getArgument(position).replaceAllUsesWith(value);
    dead.set(position);
    row += types[i].getDimSize(0);
  }
  return function.eraseArguments(dead);
}

namespace {

struct PackWeights : fuse::impl::PackWeightsPassBase<PackWeights> {
  using Base::Base;

  void runOnOperation() override {
    for (StringRef text : layouts) {
      FailureOr<RecipeAttr> layout = parseLayout(getOperation(), text);
      if (failed(layout))
        return signalPassFailure();
      FailureOr<unsigned> count = pack(*layout);
      if (failed(count))
        return signalPassFailure();
      if (*count == 0) {
        getOperation()->emitError()
            << "layout '" << text << "' fits no site of a generated kernel"
            << (problem.empty() ? "" : "; ") << problem;
        return signalPassFailure();
      }
      numPacked += *count;
    }
    for (ModelOp model : findModels(getOperation()))
      if (failed(collectRecipes(model)))
        return signalPassFailure();
  }

private:
  /// Records the layout at each site that it fits. Returns the number of sites.
  FailureOr<unsigned> pack(RecipeAttr layout);

  /// The parameters that the last unsuitable site lacks, as a message.
  std::string problem;
};

} // namespace

FailureOr<unsigned> PackWeights::pack(RecipeAttr layout) {
  unsigned count = 0;
  problem.clear();
  SymbolTableCollection tables;
  WalkResult walk = getOperation()->walk([&](FusedCallOp call) {
    if (!call.getFamily())
      return WalkResult::advance();
    SmallVector<NetModuleOp> members;
    for (auto member : call.getMembers().getAsRange<SymbolRefAttr>())
      members.push_back(lookupModule(tables, call, member));
    RecipeOrProblem result =
        instantiate(layout, call.getSite().rsplit('#').first,
                    getEnclosingModule(call), members, tables);
    if (auto *why = std::get_if<std::string>(&result)) {
      problem = *why;
      return WalkResult::advance();
    }
    auto recipe = std::get<RecipeAttr>(result);
    auto lookup = [&](Attribute source) {
      return lookupParameter(tables, getEnclosingModule(call),
                             cast<SymbolRefAttr>(source));
    };
    SmallVector<Attribute> recipes;
    if (ArrayAttr old = call.getWeightsAttr())
      llvm::append_range(recipes, old);
    for (Attribute other : recipes) {
      auto taken = cast<RecipeAttr>(other);
      for (Attribute source : recipe.getSources())
        if (llvm::is_contained(taken.getSources(), source)) {
          call.emitError() << "parameter '" << getParameterName(lookup(source))
                           << "' is needed in two layouts: as " << recipe
                           << " and as " << taken << " by site '"
                           << call.getSite() << "'";
          return WalkResult::interrupt();
        }
    }
    recipes.push_back(recipe);
    call.setWeightsAttr(ArrayAttr::get(call.getContext(), recipes));
    ++count;
    auto model = call->getParentOfType<ModelOp>();
    Operation *home = model->getParentOp();
    if (!call.getBodyAttr() || !home || !home->hasTrait<OpTrait::SymbolTable>())
      return WalkResult::advance();
    auto body = dyn_cast_or_null<func::FuncOp>(
        tables.lookupSymbolIn(home, call.getBodyAttr()));
    if (!body || body.isExternal())
      return WalkResult::advance();
    SmallVector<ParameterOp> owners;
    for (Attribute source : recipe.getSources())
      owners.push_back(getOwner(tables, lookup(source)));
    return WalkResult(packArguments(body, recipe, owners));
  });
  if (walk.wasInterrupted())
    return failure();
  return count;
}
