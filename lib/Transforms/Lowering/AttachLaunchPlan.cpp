//===- AttachLaunchPlan.cpp - Record launches in an attribute -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host code between launches computes sizes from other sizes. The launch
// plan represents these computations as affine expressions. The ops that
// performed them are then dead. Launches of scheduled kernels and of portable
// ones are in one list, in the order of the function.
//
//===----------------------------------------------------------------------===//

#include "LaunchSizes.h"
#include "TileLaunches.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <set>

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_ATTACHLAUNCHPLANPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-attach-launch-plan"

namespace {

/// Writes the plan of one function. If it has scheduled ops, the workspace
/// begins with the buffer of zeroed bytes.
class PlanBuilder {
public:
  PlanBuilder(func::FuncOp function, std::vector<HostStep> &steps)
      : function(function), builder(function.getContext()), sizes(function),
        steps(steps) {}

  /// The plan, or null after an error.
  DictionaryAttr build();

private:
  NamedAttribute entry(StringRef name, Attribute value) {
    return builder.getNamedAttr(name, value);
  }
  NamedAttribute entry(StringRef name, int64_t value) {
    return entry(name, builder.getI64IntegerAttr(value));
  }
  FailureOr<AffineExpr> getBytes(memref::AllocOp alloc);
  FailureOr<Attribute> getArgument(Value value);
  FailureOr<Attribute> getLaunch(gpu::LaunchFuncOp launch);
  AffineMap getMap(ArrayRef<AffineExpr> results) {
    return AffineMap::get(0, sizes.getSymbols().size(), results,
                          builder.getContext());
  }

  // Scheduled ops.
  LogicalResult layOut();
  void findBounds();
  const TileRange &getRange(const TileOp &op, int64_t tokens) const;
  SmallVector<unsigned> addBuffers(const TileOp &op, const TileRange &range,
                                   SmallVectorImpl<AffineExpr> &buffers) const;
  FailureOr<Attribute> getPacked(tile::PackedAttr packed,
                                 tile::LaunchOp launch);
  FailureOr<Attribute> getTileArgument(Attribute argument,
                                       tile::LaunchOp launch, const TileOp &op,
                                       const TileRange &range,
                                       ArrayRef<unsigned> buffers);
  FailureOr<Attribute> getTileLaunch(tile::LaunchOp launch, const TileOp &op,
                                     const TileRange &range,
                                     ArrayRef<unsigned> buffers);
  LogicalResult addRange(int64_t upTo, NamedAttrList &plan);

  func::FuncOp function;
  Builder builder;
  LaunchSizes sizes;
  std::vector<HostStep> &steps;
  /// Buffers of the function, and their numbers.
  SmallVector<AffineExpr> buffers;
  DenseMap<Value, unsigned> workspace;
  /// Launches of the portable path, which all ranges have.
  DenseMap<Operation *, Attribute> portable;
  /// Packed weights, each once.
  SetVector<Attribute> packed;
  int64_t zeroed = 0;
  /// Whether a single op is all of the function. It may then overlap with what
  /// runs before the function.
  bool isWhole = false;
  /// The number of tokens that selects a range, or null if there is one range.
  AffineExpr dispatched;
  /// Numbers of tokens that have a limit. The dispatched one comes first.
  SetVector<AffineExpr> limited;
  /// The ends of the ranges of the plan.
  std::set<int64_t> bounds;
};

class AttachLaunchPlanPass
    : public fuse::impl::AttachLaunchPlanPassBase<AttachLaunchPlanPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      FailureOr<std::vector<HostStep>> steps = getHostSteps(function);
      if (failed(steps))
        return signalPassFailure();
      if (steps->empty())
        continue;
      DictionaryAttr plan = PlanBuilder(function, *steps).build();
      if (!plan)
        return signalPassFailure();
      function->setAttr(kLaunchPlanAttrName, plan);
      numLaunches += steps->size();
    }
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// The portable path
//===----------------------------------------------------------------------===//

FailureOr<AffineExpr> PlanBuilder::getBytes(memref::AllocOp alloc) {
  MemRefType type = alloc.getType();
  if (!type.getElementType().isIntOrFloat() || !type.getLayout().isIdentity())
    return alloc.emitOpError("cannot be a workspace buffer");
  AffineExpr bytes = builder.getAffineConstantExpr(
      llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  for (unsigned dim = 0, e = type.getRank(); dim < e; ++dim) {
    FailureOr<AffineExpr> size = sizes.evaluateDim(alloc, dim);
    if (failed(size))
      return failure();
    bytes = bytes * *size;
  }
  return bytes;
}

FailureOr<Attribute> PlanBuilder::getArgument(Value value) {
  Attribute constant;
  if (isa<MemRefType>(value.getType())) {
    // The offset of a view is a separate kernel argument.
    while (auto view = value.getDefiningOp<ViewLikeOpInterface>())
      value = view.getViewSource();
    if (auto it = workspace.find(value); it != workspace.end())
      return Attribute(builder.getStringAttr("ws" + Twine(it->second)));
  } else if (matchPattern(value, m_Constant(&constant))) {
    return constant;
  } else if (value.getType().isIndex()) {
    FailureOr<AffineExpr> expr = sizes.evaluate(value);
    if (failed(expr))
      return failure();
    return Attribute(AffineMapAttr::get(getMap(*expr)));
  }
  if (auto argument = dyn_cast<BlockArgument>(value))
    return Attribute(
        builder.getStringAttr("arg" + Twine(argument.getArgNumber())));
  return value.getDefiningOp()->emitOpError(
      "makes an argument of a kernel that a host cannot know");
}

FailureOr<Attribute> PlanBuilder::getLaunch(gpu::LaunchFuncOp launch) {
  SmallVector<AffineExpr> grid;
  gpu::KernelDim3 blocks = launch.getGridSizeOperandValues();
  for (Value size : {blocks.x, blocks.y, blocks.z}) {
    FailureOr<AffineExpr> expr = sizes.evaluate(size);
    if (failed(expr))
      return failure();
    grid.push_back(*expr);
  }
  SmallVector<int64_t> block;
  gpu::KernelDim3 threads = launch.getBlockSizeOperandValues();
  for (Value size : {threads.x, threads.y, threads.z}) {
    std::optional<int64_t> constant = getConstantIntValue(size);
    if (!constant)
      return launch.emitOpError("expected constant numbers of threads");
    block.push_back(*constant);
  }
  SmallVector<Attribute> arguments;
  for (Value operand : launch.getKernelOperands()) {
    FailureOr<Attribute> argument = getArgument(operand);
    if (failed(argument))
      return failure();
    arguments.push_back(*argument);
  }
  // Later launches may add symbols. `build` updates all maps at the end.
  NamedAttrList entries(ArrayRef<NamedAttribute>{
      entry("args", builder.getArrayAttr(arguments)),
      entry("block", builder.getDenseI64ArrayAttr(block)),
      entry("grid", AffineMapAttr::get(getMap(grid))),
      entry("kernel", launch.getKernelAttr())});
  if (Value bytes = launch.getDynamicSharedMemorySize()) {
    std::optional<int64_t> constant = getConstantIntValue(bytes);
    if (!constant)
      return launch.emitOpError("expected a constant amount of shared memory");
    entries.push_back(entry("shared", *constant));
  }
  return Attribute(entries.getDictionary(builder.getContext()));
}

//===----------------------------------------------------------------------===//
// The scheduled path
//===----------------------------------------------------------------------===//

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
        return Attribute(attr.getValue());
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

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

DictionaryAttr PlanBuilder::build() {
  bool hasTile = llvm::any_of(
      steps, [](const HostStep &step) { return step.tile.has_value(); });
  if (hasTile)
    buffers.push_back(builder.getAffineConstantExpr(0));
  for (auto alloc : function.getOps<memref::AllocOp>()) {
    workspace[alloc] = buffers.size();
    FailureOr<AffineExpr> bytes = getBytes(alloc);
    if (failed(bytes))
      return {};
    buffers.push_back(*bytes);
  }
  if (failed(layOut()))
    return {};
  NamedAttrList plan;
  if (hasTile) {
    findBounds();
    buffers[0] = builder.getAffineConstantExpr(zeroed);
    SmallVector<Attribute> ranges, tokens;
    bool hasRanges =
        bounds.size() > 1 || (isWhole && steps[0].tile->isDispatch);
    for (int64_t upTo : bounds) {
      NamedAttrList range;
      if (failed(addRange(upTo, hasRanges ? range : plan)))
        return {};
      range.push_back(entry("upto", upTo));
      ranges.push_back(range.getDictionary(builder.getContext()));
    }
    if (hasRanges)
      plan.push_back(entry("ranges", builder.getArrayAttr(ranges)));
    for (AffineExpr number : limited)
      tokens.push_back(AffineMapAttr::get(getMap(number)));
    plan.push_back(entry("max_tokens", *bounds.rbegin()));
    plan.push_back(entry("packed", builder.getArrayAttr(packed.getArrayRef())));
    plan.push_back(entry("tokens", builder.getArrayAttr(tokens)));
    plan.push_back(entry("zeroed", zeroed));
  } else if (failed(addRange(/*upTo=*/0, plan))) {
    return {};
  }
  SmallVector<Attribute> symbolAttrs;
  for (LaunchSizes::Symbol symbol : sizes.getSymbols())
    symbolAttrs.push_back(
        builder.getDenseI64ArrayAttr({symbol.first, symbol.second}));
  plan.push_back(entry("symbols", builder.getArrayAttr(symbolAttrs)));
  // Extend every map to the final list of symbols.
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](AffineMapAttr attr) -> Attribute {
    return AffineMapAttr::get(getMap(attr.getValue().getResults()));
  });
  return cast<DictionaryAttr>(
      replacer.replace(plan.getDictionary(builder.getContext())));
}
