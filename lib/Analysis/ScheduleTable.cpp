//===- ScheduleTable.cpp - Measured schedules -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ScheduleTable.h"

#include "mlir/AsmParser/AsmParser.h"
#include "tile/IR/TileDialect.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace fuse;

std::optional<ScheduleTable>
ScheduleTable::read(StringRef path, MLIRContext *context, std::string &error) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    error =
        ("can not read '" + path + "': " + buffer.getError().message()).str();
    return std::nullopt;
  }
  llvm::Expected<llvm::json::Value> json =
      llvm::json::parse((*buffer)->getBuffer());
  if (!json) {
    error = ("'" + path + "' is not JSON: " + toString(json.takeError())).str();
    return std::nullopt;
  }
  const llvm::json::Array *array = json->getAsArray();
  if (!array) {
    error = ("'" + path + "' is not an array of rows").str();
    return std::nullopt;
  }
  context->getOrLoadDialect<tile::TileDialect>();
  ScheduleTable table;
  for (auto [index, value] : llvm::enumerate(*array)) {
    auto fail = [&, number = index](const Twine &reason) {
      error = ("row " + Twine(number) + " of '" + path + "' " + reason).str();
      return std::nullopt;
    };
    const llvm::json::Object *object = value.getAsObject();
    if (!object)
      return fail("is not an object");
    auto family = object->getString("family");
    auto element = object->getString("element");
    auto text = object->getString("schedule");
    const llvm::json::Array *widths = object->getArray("widths");
    if (!family || !element || !text || !widths)
      return fail("lacks one of family, widths, element, schedule");
    Row row;
    row.family = family->str();
    row.element = element->str();
    for (const llvm::json::Value &width : *widths) {
      std::optional<int64_t> number = width.getAsInteger();
      if (!number)
        return fail("has a width that is not a number");
      row.widths.push_back(*number);
    }
    row.schedule =
        dyn_cast_or_null<tile::ScheduleAttr>(parseAttribute(*text, context));
    if (!row.schedule)
      return fail("has schedule '" + *text + "': expected #tile.schedule");
    table.rows.push_back(std::move(row));
  }
  return table;
}

tile::ScheduleAttr ScheduleTable::find(const DecodeProblem &problem,
                                       int64_t tokens) const {
  SmallVector<int64_t> widths = {problem.width};
  if (problem.hasFirst())
    widths.push_back(problem.hidden);
  for (const DecodeOutput &output : problem.outputs)
    widths.push_back(output.rows);
  StringRef family = problem.op->getName().stripDialect();
  StringRef element = problem.isF8() ? "f8E4M3FN" : "bf16";
  bool relaxed = problem.rounding.getMode() == RoundingMode::Relaxed;
  for (const Row &row : rows)
    if (row.family == family && row.element == element &&
        row.widths == widths &&
        row.schedule.getTokens() ==
            static_cast<int64_t>(llvm::alignTo(tokens, 8)) &&
        (relaxed || row.schedule.getPartials().isF32()))
      return row.schedule;
  return {};
}
