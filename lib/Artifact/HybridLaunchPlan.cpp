//===- HybridLaunchPlan.cpp - Plans with both kinds of kernels ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridLaunchPlan.h"
#include "LaunchPlanWriter.h"
#include "fuse/IR/FuseAttrNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

#include <map>
#include <set>

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

namespace {

/// A scheduled op in the IR: consecutive launches, or a dispatch.
struct TileOp {
  /// Each range has the largest number of tokens and the launches.
  SmallVector<std::pair<int64_t, SmallVector<tile::LaunchOp>>> ranges;
  /// Union of the launches' operands. The first one has one row per token.
  SetVector<Value> operands;
  /// The replaced ops: a dispatch, or the launches.
  SmallVector<Operation *> replaced;
};

} // namespace

/// Whether the packed weights of a launch are arguments of its function. This
/// is required because they are packed before the first launch.
static bool packsArguments(tile::LaunchOp launch) {
  auto list = launch.getPlanAttr().getAs<ArrayAttr>("arguments");
  for (Attribute attr : list ? list.getValue() : ArrayRef<Attribute>()) {
    auto entry = cast<DictionaryAttr>(attr);
    auto kind = entry.getAs<StringAttr>("kind");
    auto operands = entry.getAs<ArrayAttr>("operands");
    if (!kind || kind.getValue() != "packed" || !operands)
      continue;
    for (auto index : operands.getAsRange<IntegerAttr>())
      if (index.getInt() < 0 ||
          index.getInt() >= int64_t(launch.getInputs().size()) ||
          !isa<BlockArgument>(launch.getInputs()[index.getInt()]))
        return false;
  }
  return true;
}

/// Adds a launch to the last range of `op`, or fails if it is not supported
/// there.
static LogicalResult addLaunch(tile::LaunchOp launch, TileOp &op,
                               Block &entry) {
  auto &launches = op.ranges.back().second;
  if (!launch.getPlan() || launch.getInputs().empty() ||
      sharesWorkspace(launch) == launches.empty() || !packsArguments(launch))
    return failure();
  // Only the last launch may have results; the others may write them as well.
  if (!launches.empty() && launches.back()->getNumResults() > 0)
    return failure();
  for (Value input : launch.getInputs()) {
    if (input.getParentBlock() != &entry ||
        !isa<RankedTensorType>(input.getType()))
      return failure();
    op.operands.insert(input);
  }
  launches.push_back(launch);
  return success();
}

static LogicalResult addDispatch(tile::DispatchOp dispatch, TileOp &op,
                                 Block &entry) {
  op.operands.insert(dispatch.getTokens());
  for (auto [bound, region] :
       llvm::zip_equal(dispatch.getBounds(), dispatch.getRanges())) {
    op.ranges.push_back({bound, {}});
    for (Operation &nested : region.front().without_terminator()) {
      auto launch = dyn_cast<tile::LaunchOp>(nested);
      if (!launch || failed(addLaunch(launch, op, entry)))
        return failure();
    }
    if (op.ranges.back().second.empty() ||
        op.ranges.back().second.back().getResults() !=
            region.front().getTerminator()->getOperands())
      return failure();
  }
  return success();
}

/// The scheduled ops of a function. Returns nothing if one of them cannot be
/// placed among portable launches.
static std::optional<std::vector<TileOp>> getTileOps(func::FuncOp function) {
  std::vector<TileOp> ops;
  if (!function.getBody().hasOneBlock())
    return std::nullopt;
  Block &entry = function.front();
  size_t numLaunches = 0;
  for (Operation &op : entry) {
    if (auto dispatch = dyn_cast<tile::DispatchOp>(op)) {
      ops.emplace_back();
      if (failed(addDispatch(dispatch, ops.back(), entry)))
        return std::nullopt;
      ops.back().replaced.push_back(&op);
    } else if (auto launch = dyn_cast<tile::LaunchOp>(op)) {
      if (!launch.getPlan())
        return std::nullopt;
      if (!sharesWorkspace(launch)) {
        auto most = launch.getPlanAttr().getAs<IntegerAttr>("max_tokens");
        if (!most || most.getInt() <= 0)
          return std::nullopt;
        ops.emplace_back();
        ops.back().ranges.push_back({most.getInt(), {}});
      } else if (ops.empty() ||
                 op.getPrevNode() != ops.back().replaced.back()) {
        return std::nullopt;
      }
      if (failed(addLaunch(launch, ops.back(), entry)))
        return std::nullopt;
      ops.back().replaced.push_back(&op);
    }
  }
  for (const TileOp &op : ops)
    for (const auto &[bound, launches] : op.ranges)
      numLaunches += launches.size();
  size_t all = 0;
  function.walk([&](tile::LaunchOp) { ++all; });
  return numLaunches == all ? std::optional(std::move(ops)) : std::nullopt;
}

static HybridOp describe(const TileOp &op) {
  HybridOp described{op.replaced[0]->getLoc(), op.operands.size(), {}};
  for (const auto &[bound, launches] : op.ranges) {
    HybridRange range{bound, {}};
    for (tile::LaunchOp launch : launches) {
      SmallVector<unsigned> operands;
      for (Value input : launch.getInputs())
        operands.push_back(llvm::find(op.operands, input) -
                           op.operands.begin());
      range.launches.push_back(
          {launch.getKernel().getLeafReference().getValue().str(),
           launch.getPlanAttr(), std::move(operands)});
    }
    described.ranges.push_back(std::move(range));
  }
  return described;
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

static MemRefType getBufferType(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return MemRefType::get(type.getShape(), type.getElementType());
}

/// Creates the buffer for a result, which has as many rows as the first
/// operand.
static Value createResult(OpBuilder &builder, OpResult result, Value rows) {
  MemRefType type = getBufferType(result);
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      sizes.push_back(
          memref::DimOp::create(builder, result.getLoc(), rows, dim));
  return memref::AllocOp::create(builder, result.getLoc(), type, sizes);
}

/// The number of tokens, with one token per row.
static Value countTokens(OpBuilder &builder, Location loc, Value rows) {
  Value tokens;
  int64_t rank = cast<MemRefType>(rows.getType()).getRank();
  for (int64_t dim = 0; dim + 1 < rank; ++dim) {
    Value size = memref::DimOp::create(builder, loc, rows, dim);
    tokens = tokens ? arith::MulIOp::create(builder, loc, tokens, size) : size;
  }
  if (!tokens)
    tokens = arith::ConstantIndexOp::create(builder, loc, 1);
  return tokens;
}

/// Replaces an op by one launch. `made` maps results of replaced ops to their
/// new values.
static void lower(const TileOp &op, int64_t index, IRMapping &made) {
  Operation *last = op.replaced.back();
  Location loc = last->getLoc();
  OpBuilder builder(last);
  Attribute number = builder.getI64IntegerAttr(index);
  SmallVector<Value> operands, results;
  for (Value operand : op.operands) {
    Value input = made.lookupOrDefault(operand);
    auto buffer = bufferization::ToBufferOp::create(
        builder, loc, getBufferType(input), input, /*read_only=*/true);
    // Bufferization considers this the location of the read. The attribute
    // prevents CSE with the same value of an earlier launch, since the buffer
    // could be written in between.
    buffer->setAttr("fuse.launch", number);
    operands.push_back(buffer);
  }
  Value rows = operands[0];
  for (OpResult result : last->getResults())
    results.push_back(createResult(builder, result, rows));
  llvm::append_range(operands, results);
  operands.push_back(countTokens(builder, loc, rows));
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  // The placeholder may name any kernel of the op.
  tile::LaunchOp any = op.ranges.back().second.back();
  auto lowered = gpu::LaunchFuncOp::create(
      builder, loc, any.getKernel(), gpu::KernelDim3{one, one, one},
      gpu::KernelDim3{one, one, one}, Value(), operands);
  lowered->setAttr(kTilePlanAttrName, number);
  // Not writable, since a launch that reads this tensor accesses the buffer
  // itself, and no analysis sees that read.
  for (auto [result, buffer] : llvm::zip(last->getResults(), results)) {
    Value tensor = bufferization::ToTensorOp::create(
        builder, loc, result.getType(), buffer, /*restrict=*/true,
        /*writable=*/false);
    made.map(result, tensor);
    result.replaceAllUsesWith(tensor);
  }
  for (Operation *replaced : llvm::reverse(op.replaced))
    replaced->erase();
}

bool fuse::lowerHybridOps(func::FuncOp function,
                          SmallVectorImpl<HybridOp> &ops) {
  std::optional<std::vector<TileOp>> found = getTileOps(function);
  if (!found || found->empty())
    return false;
  // Describe all ops before any is replaced: they read each other's results.
  int64_t index = ops.size();
  for (const TileOp &op : *found)
    ops.push_back(describe(op));
  IRMapping made;
  for (const TileOp &op : *found)
    lower(op, index++, made);
  return true;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

namespace {

class HybridPlanWriter {
public:
  HybridPlanWriter(const json::Object &plan, ArrayRef<HybridOp> ops,
                   llvm::function_ref<size_t(StringRef)> getModule)
      : plan(plan), ops(ops), getModule(getModule), writer(packed) {}

  Expected<json::Object> write();

private:
  /// A launch of the portable path, or the placeholder of the scheduled op
  /// `op`.
  struct Entry {
    json::Object launch;
    const HybridOp *op = nullptr;
    /// Operands and results of the op, and its number of tokens.
    SmallVector<json::Object> tensors;
    json::Value tokens = nullptr;
    /// One workspace layout per range of the op.
    SmallVector<WorkspaceParts> parts;
  };

  WorkspaceParts getParts(const HybridRange &range);
  void readLaunches();
  void findBounds();
  size_t getRange(const Entry &entry, int64_t tokens) const;
  SmallVector<int64_t> addBuffers(const Entry &entry, size_t range,
                                  json::Array &workspace) const;
  json::Object writeAlternative(int64_t upTo);

  const json::Object &plan;
  ArrayRef<HybridOp> ops;
  llvm::function_ref<size_t(StringRef)> getModule;
  json::Array packed;
  TilePlanWriter writer;
  std::vector<Entry> entries;
  /// The number of tokens that selects an alternative, or null if there is one.
  json::Value dispatched = nullptr;
  /// Numbers of tokens that have a limit. The dispatched one comes first.
  json::Array limited;
  std::set<int64_t> bounds;
  /// Offset of the semaphores for each pair of kernels and plan, and the end of
  /// all.
  std::map<std::pair<std::string, const void *>, int64_t> zeroedAt;
  int64_t zeroed = 0;
};

} // namespace

/// Renumbers a buffer of the portable path: the buffer with the semaphores
/// comes first.
static void moveBuffer(json::Object &argument) {
  if (std::optional<int64_t> buffer = argument.getInteger("workspace"))
    argument["workspace"] = *buffer + 1;
}

/// Launches of the same kernels with the same plan share semaphores, since each
/// launch leaves them in the state that the next one expects.
WorkspaceParts HybridPlanWriter::getParts(const HybridRange &range) {
  std::string kernels;
  for (const MixedLaunch &launch : range.launches)
    kernels += launch.kernel + " ";
  // The plan of every launch has the common fields.
  DictionaryAttr last = range.launches.back().plan;
  auto [it, isNew] =
      zeroedAt.try_emplace({kernels, last.getAsOpaquePointer()}, zeroed);
  WorkspaceParts parts(last, it->second);
  if (isNew)
    zeroed = parts.getZeroedEnd();
  return parts;
}

void HybridPlanWriter::readLaunches() {
  for (const json::Value &value : *plan.getArray("launches")) {
    Entry entry;
    entry.launch = *value.getAsObject();
    for (json::Value &argument : *entry.launch.getArray("args"))
      moveBuffer(*argument.getAsObject());
    if (std::optional<int64_t> tile = entry.launch.getInteger("tile")) {
      entry.op = &ops[*tile];
      for (json::Value &argument : *entry.launch.getArray("args"))
        entry.tensors.push_back(std::move(*argument.getAsObject()));
      json::Object tokens = entry.tensors.pop_back_val();
      // A known number of tokens is a value, an unknown one a size.
      const json::Value *size = tokens.get("size");
      entry.tokens = size ? *size : *tokens.get("value");
      for (const HybridRange &range : entry.op->ranges)
        entry.parts.push_back(getParts(range));
    }
    entries.push_back(std::move(entry));
  }
}

/// Determines the bounds of the alternatives, which one number of tokens
/// selects. An op with another number of tokens always uses its last range; few
/// functions have one.
void HybridPlanWriter::findBounds() {
  int64_t most = INT64_MAX;
  for (const Entry &entry : entries) {
    if (!entry.op)
      continue;
    most = std::min(most, entry.op->ranges.back().upTo);
    if (entry.op->ranges.size() == 1)
      continue;
    if (dispatched == nullptr) {
      dispatched = entry.tokens;
      limited.push_back(dispatched);
    }
    if (entry.tokens == dispatched) {
      for (const HybridRange &range : entry.op->ranges)
        bounds.insert(range.upTo);
      continue;
    }
    remark::missed(entry.op->loc,
                   remark::RemarkOpts::name("ranges").category("codegen"))
        << remark::reason(
               "a plan has kernels for ranges of one number of tokens, and "
               "this "
               "op has another one: the kernels for up to {0} serve all of it",
               entry.op->ranges.back().upTo);
  }
  bounds.erase(bounds.lower_bound(most), bounds.end());
  bounds.insert(most);
  for (const Entry &entry : entries)
    if (entry.op && !llvm::is_contained(limited, entry.tokens))
      limited.push_back(entry.tokens);
}

size_t HybridPlanWriter::getRange(const Entry &entry, int64_t tokens) const {
  ArrayRef<HybridRange> ranges = entry.op->ranges;
  if (entry.tokens != dispatched)
    return ranges.size() - 1;
  return llvm::find_if(
             ranges,
             [&](const HybridRange &range) { return tokens <= range.upTo; }) -
         ranges.begin();
}

/// The buffers that hold the workspace of an op. Ops run one after the other
/// and keep no data there, so ops share buffers of equal size.
SmallVector<int64_t>
HybridPlanWriter::addBuffers(const Entry &entry, size_t range,
                             json::Array &workspace) const {
  size_t begin = 1 + plan.getArray("workspace")->size();
  SmallVector<int64_t> buffers = {0};
  for (json::Value &size : entry.parts[range].getSizes(entry.tokens)) {
    size_t index = begin;
    while (index < workspace.size() &&
           (workspace[index] != size ||
            llvm::is_contained(buffers, int64_t(index))))
      ++index;
    if (index == workspace.size())
      workspace.push_back(std::move(size));
    buffers.push_back(index);
  }
  return buffers;
}

json::Object HybridPlanWriter::writeAlternative(int64_t upTo) {
  json::Array workspace = *plan.getArray("workspace"), launches;
  workspace.insert(workspace.begin(), zeroed);
  for (const Entry &entry : entries) {
    if (!entry.op) {
      launches.push_back(json::Object(entry.launch));
      continue;
    }
    size_t range = getRange(entry, upTo);
    TilePlaces places;
    places.parts = &entry.parts[range];
    places.buffers = addBuffers(entry, range, workspace);
    places.tokens = entry.tokens;
    bool isFirst = true;
    for (const MixedLaunch &launch : entry.op->ranges[range].launches) {
      places.tensors.clear();
      for (unsigned operand : launch.operands)
        places.tensors.push_back(entry.tensors[operand]);
      places.numOperands = places.tensors.size();
      for (const json::Object &result :
           ArrayRef(entry.tensors).drop_front(entry.op->numOperands))
        places.tensors.push_back(result);
      json::Object written = writer.write(launch.kernel, launch.plan, places);
      written["module"] = getModule(launch.kernel);
      // A kernel may overlap only with kernels of the same op.
      if (isFirst)
        written["dependent"] = false;
      isFirst = false;
      launches.push_back(std::move(written));
    }
  }
  return json::Object{{"workspace", std::move(workspace)},
                      {"launches", std::move(launches)}};
}

Expected<json::Object> HybridPlanWriter::write() {
  readLaunches();
  findBounds();
  json::Array alternatives;
  for (int64_t upTo : bounds) {
    alternatives.push_back(writeAlternative(upTo));
    (*alternatives.back().getAsObject())["upto"] = upTo;
  }
  if (!writer.getProblem().empty())
    return createStringError(writer.getProblem());
  json::Object cuda{{"max_tokens", *bounds.rbegin()},
                    {"tokens", std::move(limited)},
                    {"zeroed_bytes", zeroed},
                    {"packed", std::move(packed)}};
  if (bounds.size() > 1)
    cuda["alternatives"] = std::move(alternatives);
  else
    for (StringRef key : {"workspace", "launches"})
      cuda[key] = std::move(*alternatives[0].getAsObject()->get(key));
  return std::move(cuda);
}

Expected<json::Object>
fuse::writeHybridPlan(const json::Object &plan, ArrayRef<HybridOp> ops,
                      llvm::function_ref<size_t(StringRef)> getModule) {
  return HybridPlanWriter(plan, ops, getModule).write();
}
