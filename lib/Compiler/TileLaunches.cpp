//===- TileLaunches.cpp - Scheduled kernels in launch plans ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileLaunches.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace fuse;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Workspaces of ranges
//===----------------------------------------------------------------------===//

/// The number `name` of a plan that a conversion wrote, or 0.
static int64_t getNumber(DictionaryAttr plan, StringRef name) {
  auto value = plan.getAs<IntegerAttr>(name);
  return value ? value.getInt() : 0;
}

WorkspaceParts::WorkspaceParts(DictionaryAttr plan, int64_t zeroedAt)
    : zeroedAt(zeroedAt), zeroed(getNumber(plan, "zeroed_bytes")),
      fixed(getNumber(plan, "workspace_bytes") - zeroed) {
  auto list = plan.getAs<ArrayAttr>("token_buffers");
  if (!list)
    return;
  for (auto entry : list.getAsRange<DictionaryAttr>())
    matrices.push_back({getNumber(entry, "offset"),
                        getNumber(entry, "row_bytes"),
                        getNumber(entry, "multiple")});
  // They are the end of the workspace.
  fixed = matrices.front().offset - zeroed;
}

json::Array WorkspaceParts::getSizes() const {
  json::Array sizes;
  sizes.push_back(fixed);
  for (const Matrix &matrix : matrices)
    sizes.push_back(json::Array{"mul",
                                json::Array{"ceildiv", "s0", matrix.multiple},
                                matrix.multiple * matrix.rowBytes});
  return sizes;
}

json::Object WorkspaceParts::getPlace(int64_t offset) const {
  if (offset < zeroed)
    return json::Object{{"workspace", 0}, {"offset", zeroedAt + offset}};
  for (auto [index, matrix] : llvm::enumerate(matrices))
    if (offset == matrix.offset)
      return json::Object{{"workspace", 2 + int64_t(index)}, {"offset", 0}};
  return json::Object{{"workspace", 1}, {"offset", offset - zeroed}};
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

int64_t TilePlanWriter::getInt(DictionaryAttr entry, StringRef name) {
  if (auto value = entry.getAs<IntegerAttr>(name))
    return value.getValue().getSExtValue();
  problem = ("the plan of a kernel has no number '" + name + "'").str();
  return 0;
}

json::Object TilePlanWriter::getTensor(int64_t index, bool isResult) {
  int64_t first = isResult ? places->numOperands : 0;
  int64_t last = isResult ? places->tensors.size() : places->numOperands;
  if (index >= 0 && first + index < last)
    return places->tensors[first + index];
  problem = "the plan of a kernel names an operand or a result that does not "
            "exist";
  return {};
}

json::Object TilePlanWriter::getWorkspace(DictionaryAttr entry) {
  int64_t offset = getInt(entry, "offset");
  if (places->parts)
    return places->parts->getPlace(offset);
  return json::Object{{"workspace", places->workspace}, {"offset", offset}};
}

json::Object TilePlanWriter::writeMap(DictionaryAttr entry) {
  json::Object map;
  for (StringRef key :
       {"rows", "columns", "box_rows", "box_columns", "swizzle"})
    map[key] = getInt(entry, key);
  std::string element;
  if (auto type = entry.getAs<TypeAttr>("element"))
    llvm::raw_string_ostream(element) << type.getValue();
  map["element"] = element;
  json::Object argument;
  if (entry.contains("operand"))
    argument = getTensor(getInt(entry, "operand"), /*isResult=*/false);
  else
    argument = getWorkspace(entry);
  if (argument.get("workspace") && !argument.get("offset"))
    argument["offset"] = 0;
  argument["map"] = std::move(map);
  return argument;
}

json::Object TilePlanWriter::writePacked(DictionaryAttr entry) {
  json::Array operands;
  if (auto list = entry.getAs<ArrayAttr>("operands"))
    for (auto index : list.getAsRange<IntegerAttr>()) {
      json::Object tensor = getTensor(index.getInt(), /*isResult=*/false);
      if (!tensor.getInteger("tensor")) {
        problem = "the plan of a kernel packs a weight that is computed";
        return {};
      }
      operands.push_back(*tensor.getInteger("tensor"));
    }
  auto recipe = entry.getAs<StringAttr>("recipe");
  json::Value weight = json::Object{{"recipe", recipe ? recipe.getValue() : ""},
                                    {"operands", std::move(operands)},
                                    {"tiles", getInt(entry, "tiles")},
                                    {"steps", getInt(entry, "steps")},
                                    {"bytes", getInt(entry, "bytes")}};
  // Weights that several launches read are packed once.
  auto it = llvm::find(packed, weight);
  int64_t index = it - packed.begin();
  if (it == packed.end())
    packed.push_back(std::move(weight));
  return json::Object{{"packed", index}};
}

json::Object TilePlanWriter::writeArgument(DictionaryAttr entry) {
  auto kindAttr = entry.getAs<StringAttr>("kind");
  StringRef kind = kindAttr ? kindAttr.getValue() : "";
  if (kind == "operand" || kind == "result")
    return getTensor(getInt(entry, "index"), kind == "result");
  if (kind == "packed")
    return writePacked(entry);
  if (kind == "workspace")
    return getWorkspace(entry);
  if (kind == "tensor_map")
    return writeMap(entry);
  if (kind == "tokens")
    return json::Object{{"size", places->tokens}, {"bytes", 4}};
  if (kind == "i32")
    return json::Object{{"value", getInt(entry, "value")}, {"type", "i32"}};
  if (kind == "scalar" || kind == "f32") {
    if (auto value = entry.getAs<FloatAttr>("value"))
      return json::Object{{"value", value.getValueAsDouble()}, {"type", "f32"}};
  }
  problem =
      ("the plan of a kernel has an argument of unknown kind '" + kind + "'")
          .str();
  return {};
}

json::Object TilePlanWriter::write(StringRef kernel, DictionaryAttr plan,
                                   const TilePlaces &where) {
  places = &where;
  json::Array arguments;
  if (auto list = plan.getAs<ArrayAttr>("arguments"))
    for (auto entry : list.getAsRange<DictionaryAttr>())
      arguments.push_back(writeArgument(entry));
  auto cooperative = plan.getAs<BoolAttr>("cooperative");
  auto dependent = plan.getAs<BoolAttr>("dependent");
  return json::Object{{"kernel", kernel},
                      {"grid", json::Array{getInt(plan, "blocks"), 1, 1}},
                      {"block", json::Array{getInt(plan, "threads"), 1, 1}},
                      {"shared_bytes", getInt(plan, "shared_bytes")},
                      {"cooperative", !cooperative || cooperative.getValue()},
                      {"dependent", dependent && dependent.getValue()},
                      {"args", std::move(arguments)}};
}

//===----------------------------------------------------------------------===//
// Launches among others
//===----------------------------------------------------------------------===//

bool fuse::sharesWorkspace(tile::LaunchOp launch) {
  auto shares = launch.getPlanAttr().getAs<BoolAttr>("shares_workspace");
  return shares && shares.getValue();
}

void fuse::takeLargestRanges(func::FuncOp function) {
  function.walk([](tile::DispatchOp dispatch) {
    Block &last = dispatch.getRanges().back().front();
    Operation *yield = &last.back();
    dispatch->replaceAllUsesWith(yield->getOperands());
    yield->erase();
    dispatch->getBlock()->getOperations().splice(dispatch->getIterator(),
                                                 last.getOperations());
    dispatch->erase();
  });
}

bool fuse::canMixLaunches(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return false;
  WalkResult result = function.walk([&](tile::LaunchOp launch) {
    if (!launch.getPlan() || launch->getParentOp() != function ||
        launch.getInputs().empty())
      return WalkResult::interrupt();
    for (Type type : launch->getOperandTypes())
      if (!isa<RankedTensorType>(type))
        return WalkResult::interrupt();
    auto list = launch.getPlanAttr().getAs<ArrayAttr>("arguments");
    for (Attribute attr : list ? list.getValue() : ArrayRef<Attribute>()) {
      auto entry = cast<DictionaryAttr>(attr);
      auto kind = entry.getAs<StringAttr>("kind");
      auto operands = entry.getAs<ArrayAttr>("operands");
      if (!kind || kind.getValue() != "packed" || !operands)
        continue;
      for (auto index : operands.getAsRange<IntegerAttr>())
        if (index.getInt() >= int64_t(launch.getInputs().size()) ||
            !isa<BlockArgument>(launch.getInputs()[index.getInt()]))
          return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return !result.wasInterrupted();
}

static MemRefType getBufferType(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return MemRefType::get(type.getShape(), type.getElementType());
}

/// The buffer for a result of a launch. Its rows are those of the first
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

/// The last launch of the op that a launch is of.
static tile::LaunchOp getLastLaunch(tile::LaunchOp launch) {
  while (true) {
    auto next = dyn_cast<tile::LaunchOp>(launch->getNextNode());
    if (!next || !sharesWorkspace(next))
      return launch;
    launch = next;
  }
}

void fuse::lowerTileLaunches(func::FuncOp function,
                             SmallVectorImpl<TileLaunch> &launches) {
  Value workspace;
  SmallVector<Value> results;
  for (auto launch :
       llvm::make_early_inc_range(function.front().getOps<tile::LaunchOp>())) {
    DictionaryAttr plan = launch.getPlanAttr();
    Location loc = launch.getLoc();
    if (!workspace || !sharesWorkspace(launch)) {
      // In front of all other buffers: words in it have to stay where they
      // are when sizes change.
      OpBuilder atBegin = OpBuilder::atBlockBegin(&function.front());
      if (workspace)
        atBegin.setInsertionPointAfter(workspace.getDefiningOp());
      auto bytes = plan.getAs<IntegerAttr>("workspace_bytes");
      workspace = memref::AllocOp::create(
          atBegin, loc,
          MemRefType::get({bytes ? bytes.getInt() : 0}, atBegin.getI8Type()));
      results.clear();
    }
    OpBuilder builder(launch);
    SmallVector<Value> operands;
    for (Value input : launch.getInputs()) {
      auto buffer = bufferization::ToBufferOp::create(
          builder, loc, getBufferType(input), input, /*read_only=*/true);
      // Bufferization takes this for the place of the read. The same value of
      // an earlier launch must not stand for it: the buffer could be written
      // in between.
      buffer->setAttr("fuse.launch",
                      builder.getI64IntegerAttr(launches.size()));
      operands.push_back(buffer);
    }
    Value rows = operands[0];
    // All launches of an op may write what the last one gives.
    if (results.empty())
      for (OpResult result : getLastLaunch(launch)->getResults())
        results.push_back(createResult(builder, result, rows));
    llvm::append_range(operands, results);
    operands.push_back(workspace);
    operands.push_back(memref::DimOp::create(builder, loc, rows, 0));
    auto constant = [&](StringRef name) -> Value {
      auto value = plan.getAs<IntegerAttr>(name);
      return arith::ConstantIndexOp::create(builder, loc,
                                            value ? value.getInt() : 1);
    };
    Value one = arith::ConstantIndexOp::create(builder, loc, 1);
    auto lowered = gpu::LaunchFuncOp::create(
        builder, loc, launch.getKernel(),
        gpu::KernelDim3{constant("blocks"), one, one},
        gpu::KernelDim3{constant("threads"), one, one}, Value(), operands);
    lowered->setAttr("fuse.tile_plan",
                     builder.getI64IntegerAttr(launches.size()));
    launches.push_back({plan, launch.getInputs().size()});
    // Not writable: a launch that reads this is given the buffer itself, which
    // nobody sees as a read.
    for (auto [result, buffer] : llvm::zip(launch->getResults(), results))
      result.replaceAllUsesWith(bufferization::ToTensorOp::create(
          builder, loc, result.getType(), buffer, /*restrict=*/true,
          /*writable=*/false));
    launch.erase();
  }
}
