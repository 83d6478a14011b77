//===- LaunchPlanWriter.cpp - Scheduled kernels in launch plans -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchPlanWriter.h"

using namespace mlir;
using namespace fuse;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Workspaces of ranges
//===----------------------------------------------------------------------===//

/// The number `name` of a plan from a conversion, or 0.
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
  // The matrices are at the end of the workspace.
  if (!matrices.empty())
    fixed = matrices.front().offset - zeroed;
}

json::Array WorkspaceParts::getSizes(const json::Value &tokens) const {
  json::Array sizes;
  sizes.push_back(fixed);
  for (const Matrix &matrix : matrices) {
    int64_t tileBytes = matrix.multiple * matrix.rowBytes;
    if (std::optional<int64_t> number = tokens.getAsInteger())
      sizes.push_back(llvm::divideCeil(*number, matrix.multiple) * tileBytes);
    else
      sizes.push_back(json::Array{
          "mul", json::Array{"ceildiv", tokens, matrix.multiple}, tileBytes});
  }
  return sizes;
}

json::Object WorkspaceParts::getPlace(int64_t offset,
                                      ArrayRef<int64_t> buffers) const {
  if (offset < zeroed)
    return json::Object{{"workspace", buffers[0]},
                        {"offset", zeroedAt + offset}};
  for (auto [index, matrix] : llvm::enumerate(matrices))
    if (offset == matrix.offset)
      return json::Object{{"workspace", buffers[2 + index]}, {"offset", 0}};
  return json::Object{{"workspace", buffers[1]}, {"offset", offset - zeroed}};
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
    return places->parts->getPlace(offset, places->buffers);
  return json::Object{{"workspace", 0}, {"offset", offset}};
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
  json::Object launch{{"kernel", kernel.str()},
                      {"grid", json::Array{getInt(plan, "blocks"), 1, 1}},
                      {"block", json::Array{getInt(plan, "threads"), 1, 1}},
                      {"shared_bytes", getInt(plan, "shared_bytes")},
                      {"cooperative", !cooperative || cooperative.getValue()},
                      {"dependent", dependent && dependent.getValue()},
                      {"args", std::move(arguments)}};
  // The kernel itself requests its clusters, but the runtime has to know them.
  if (plan.contains("cluster"))
    launch["cluster"] = json::Array{getInt(plan, "cluster"), 1, 1};
  if (plan.contains("carveout"))
    launch["carveout"] = getInt(plan, "carveout");
  return launch;
}

bool fuse::sharesWorkspace(tile::LaunchOp launch) {
  auto shares = launch.getPlanAttr().getAs<BoolAttr>("shares_workspace");
  return shares && shares.getValue();
}
