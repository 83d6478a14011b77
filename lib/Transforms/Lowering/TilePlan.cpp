//===- TilePlan.cpp - Scheduled kernels in launch plans -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of a plan for scheduled ops: their buffers, packed weights, ranges
// of tokens and launches.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace fuse;

/// Determines the numbers of tokens and the places of zeroed bytes.
LogicalResult PlanBuilder::layOut() {
  // Launches of the same kernels with the same plan share semaphores, since
  // each launch leaves them in the state that the next one expects.
  std::map<std::vector<const void *>, int64_t> zeroedAt;
  for (HostStep &step : steps) {
    if (!step.tile) {
      FailureOr<Attribute> launch = getLaunch(step.launch);
      if (failed(launch))
        return failure();
      portable[step.launch] = *launch;
      continue;
    }
    auto type = cast<MemRefType>(step.tile->rows.getType());
    FailureOr<AffineExpr> tokens =
        sizes.multiplySizes(step.tile->rows, 0, type.getRank() - 1);
    if (failed(tokens))
      return failure();
    step.tile->tokens = *tokens;
    for (TileRange &range : step.tile->ranges) {
      // The plan of every launch has the common fields.
      tile::PlanAttr last = *range.launches.back().getPlan();
      std::vector<const void *> key = {last.getAsOpaquePointer()};
      for (tile::LaunchOp launch : range.launches)
        key.push_back(launch.getKernel().getAsOpaquePointer());
      auto [it, isNew] = zeroedAt.try_emplace(std::move(key), zeroed);
      range.parts.emplace(last, it->second);
      if (isNew)
        zeroed += llvm::alignTo(last.getZeroedBytes(), 256);
    }
  }
  isWhole = steps.size() == 1 && steps[0].tile;
  // An op without ranges has the workspace as it is.
  if (isWhole && !steps[0].tile->isDispatch)
    zeroed =
        steps[0].tile->ranges[0].launches.back().getPlan()->getZeroedBytes();
  return success();
}

/// Determines the ends of the ranges, which one number of tokens selects. An op
/// with another number of tokens always uses its last range; few functions have
/// one.
void PlanBuilder::findBounds() {
  int64_t most = INT64_MAX;
  for (const HostStep &step : steps) {
    if (!step.tile)
      continue;
    const TileOp &op = *step.tile;
    most = std::min(most, op.ranges.back().upTo);
    if (op.ranges.size() == 1)
      continue;
    if (!dispatched) {
      dispatched = op.tokens;
      limited.insert(dispatched);
    }
    if (op.tokens == dispatched) {
      for (const TileRange &range : op.ranges)
        bounds.insert(range.upTo);
      continue;
    }
    remark::missed(op.loc,
                   remark::RemarkOpts::name("ranges").category("codegen"))
        << remark::reason(
               "a plan has kernels for ranges of one number of tokens, and "
               "this op has another one: the kernels for up to {0} serve all "
               "of it",
               op.ranges.back().upTo);
  }
  bounds.erase(bounds.lower_bound(most), bounds.end());
  bounds.insert(most);
  for (const HostStep &step : steps)
    if (step.tile)
      limited.insert(step.tile->tokens);
}

const TileRange &PlanBuilder::getRange(const TileOp &op, int64_t tokens) const {
  if (op.tokens != dispatched)
    return op.ranges.back();
  return *llvm::find_if(
      op.ranges, [&](const TileRange &range) { return tokens <= range.upTo; });
}

/// The buffers with the workspace of an op, of which missing ones are added to
/// `buffers`. Ops run one after the other and keep no data there, so ops share
/// buffers of equal size.
SmallVector<unsigned>
PlanBuilder::addBuffers(const TileOp &op, const TileRange &range,
                        SmallVectorImpl<AffineExpr> &buffers) const {
  size_t begin = this->buffers.size();
  SmallVector<unsigned> numbers = {0};
  for (AffineExpr size : range.parts->getSizes(op.tokens)) {
    size_t index = begin;
    while (index < buffers.size() &&
           (buffers[index] != size || llvm::is_contained(numbers, index)))
      ++index;
    if (index == buffers.size())
      buffers.push_back(size);
    numbers.push_back(index);
  }
  return numbers;
}

/// The number of a packed weight. Weights that several launches read are packed
/// once.
FailureOr<Attribute> PlanBuilder::getPacked(tile::PackedAttr weight,
                                            tile::LaunchOp launch) {
  SmallVector<int64_t> operands;
  for (int64_t index : weight.getOperands()) {
    Value value = launch.getInputs()[index];
    while (auto cast = value.getDefiningOp<memref::CastOp>())
      value = cast.getSource();
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != &function.front())
      return launch.emitOpError()
             << "packs input " << index
             << ", which is computed: weights are packed before the first "
                "launch and must be arguments of the function";
    operands.push_back(argument.getArgNumber());
  }
  Attribute entries = builder.getDictionaryAttr(
      {entry("bytes", weight.getBytes()),
       entry("operands", builder.getDenseI64ArrayAttr(operands)),
       entry("recipe", builder.getStringAttr(weight.getRecipe())),
       entry("steps", weight.getSteps()), entry("tiles", weight.getTiles())});
  packed.insert(entries);
  int64_t number = llvm::find(packed, entries) - packed.begin();
  return Attribute(builder.getDictionaryAttr(entry("packed", number)));
}

FailureOr<Attribute> PlanBuilder::getTileArgument(Attribute argument,
                                                  tile::LaunchOp launch,
                                                  const TileOp &op,
                                                  const TileRange &range,
                                                  ArrayRef<unsigned> buffers) {
  auto getPlace = [&](int64_t offset) -> NamedAttrList {
    auto [part, place] = std::pair<size_t, int64_t>(0, offset);
    if (!buffers.empty())
      std::tie(part, place) = range.parts->getPlace(offset);
    unsigned buffer = buffers.empty() ? 0 : buffers[part];
    return NamedAttrList(ArrayRef<NamedAttribute>{
        entry("buffer", builder.getStringAttr("ws" + Twine(buffer))),
        entry("offset", place)});
  };
  using Result = FailureOr<Attribute>;
  return llvm::TypeSwitch<Attribute, Result>(argument)
      .Case([&](tile::OperandAttr attr) -> Result {
        return getArgument(launch.getInputs()[attr.getIndex()]);
      })
      .Case([&](tile::ResultAttr attr) -> Result {
        return getArgument(launch.getInits()[attr.getIndex()]);
      })
      .Case([&](tile::PackedAttr attr) { return getPacked(attr, launch); })
      .Case([&](tile::PlaceAttr attr) -> Result {
        return Attribute(
            getPlace(attr.getOffset()).getDictionary(builder.getContext()));
      })
      .Case([&](tile::TokenMapAttr attr) -> Result {
        NamedAttrList place = getPlace(attr.getOffset());
        place.push_back(entry(
            "map", builder.getDictionaryAttr(
                       {entry("box_columns", attr.getBoxColumns()),
                        entry("box_rows", attr.getBoxRows()),
                        entry("columns", attr.getColumns()),
                        entry("element", TypeAttr::get(attr.getElement())),
                        entry("rows", attr.getRows()),
                        entry("swizzle", attr.getSwizzle())})));
        return Attribute(place.getDictionary(builder.getContext()));
      })
      .Case([&](tile::TokensAttr) -> Result {
        return Attribute(builder.getDictionaryAttr(
            {entry("bytes", 4),
             entry("size", AffineMapAttr::get(getMap(op.tokens)))}));
      })
      .Case([&](tile::ScalarAttr attr) -> Result {
        if (!attr.getFactors() && !attr.getDivisor())
          return Attribute(attr.getValue());
        NamedAttrList scalar = entry("value", attr.getValue());
        if (ArrayAttr factors = attr.getFactors())
          scalar.push_back(entry("of", factors));
        if (FloatAttr divisor = attr.getDivisor())
          scalar.push_back(entry("over", divisor));
        return Attribute(scalar.getDictionary(builder.getContext()));
      });
}

FailureOr<Attribute> PlanBuilder::getTileLaunch(tile::LaunchOp launch,
                                                const TileOp &op,
                                                const TileRange &range,
                                                ArrayRef<unsigned> buffers) {
  tile::PlanAttr plan = *launch.getPlan();
  SmallVector<Attribute> arguments;
  for (Attribute part : plan.getArguments()) {
    FailureOr<Attribute> argument =
        getTileArgument(part, launch, op, range, buffers);
    if (failed(argument))
      return failure();
    arguments.push_back(*argument);
  }
  AffineExpr one = builder.getAffineConstantExpr(1);
  // A kernel may overlap only with kernels of the same op.
  bool isFirst = !isWhole && launch == range.launches.front();
  NamedAttrList entries(ArrayRef<NamedAttribute>{
      entry("args", builder.getArrayAttr(arguments)),
      entry("block", builder.getDenseI64ArrayAttr({plan.getThreads(), 1, 1})),
      entry("cooperative", builder.getBoolAttr(plan.getCooperative())),
      entry("dependent", builder.getBoolAttr(plan.getDependent() && !isFirst)),
      entry("grid",
            AffineMapAttr::get(getMap(
                {builder.getAffineConstantExpr(plan.getBlocks()), one, one}))),
      entry("kernel", launch.getKernelAttr()),
      entry("shared", plan.getSharedBytes())});
  if (plan.getCluster() > 1)
    entries.push_back(entry("cluster", plan.getCluster()));
  if (plan.getCarveout())
    entries.push_back(entry("carveout", *plan.getCarveout()));
  return Attribute(entries.getDictionary(builder.getContext()));
}

/// Adds the launches and buffers for numbers of tokens up to `upTo` to `plan`.
LogicalResult PlanBuilder::addRange(int64_t upTo, NamedAttrList &plan) {
  SmallVector<AffineExpr> all = buffers;
  SmallVector<Attribute> launches, workspaces;
  for (const HostStep &step : steps) {
    if (!step.tile) {
      launches.push_back(portable.lookup(step.launch));
      continue;
    }
    const TileOp &op = *step.tile;
    const TileRange &range = getRange(op, upTo);
    SmallVector<unsigned> numbers;
    tile::LaunchOp last = range.launches.back();
    if (isWhole && !op.isDispatch)
      all[0] =
          builder.getAffineConstantExpr(last.getPlan()->getWorkspaceBytes());
    else
      numbers = addBuffers(op, range, all);
    for (tile::LaunchOp launch : range.launches) {
      FailureOr<Attribute> entry = getTileLaunch(launch, op, range, numbers);
      if (failed(entry))
        return failure();
      launches.push_back(*entry);
    }
  }
  for (AffineExpr bytes : all)
    workspaces.push_back(AffineMapAttr::get(getMap(bytes)));
  plan.push_back(entry("launches", builder.getArrayAttr(launches)));
  plan.push_back(entry("workspace", builder.getArrayAttr(workspaces)));
  return success();
}
