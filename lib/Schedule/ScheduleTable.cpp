//===- ScheduleTable.cpp - Tables of measured schedules -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/ScheduleTable.h"

#include "fuse/Schedule/MmaSchedule.h"
#include "fuse/Schedule/PrefillSchedule.h"
#include "fuse/Schedule/RowProblem.h"
#include "fuse/Support/TextLimits.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "tile/IR/TileDialect.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

bool ScheduleKey::operator==(const ScheduleKey &other) const {
  return family == other.family && element == other.element &&
         widths == other.widths && tokens == other.tokens &&
         relaxed == other.relaxed;
}

/// Rounds up to a multiple of 8, because kernels compute whole tiles of tokens.
static int64_t getTile(const MlpProblem &problem, int64_t tokens) {
  return llvm::alignTo(problem.tokens.value_or(tokens), 8);
}

std::optional<MlpProblem> fuse::describeProducts(Operation *op,
                                                 const GpuModel &gpu,
                                                 std::string &reason) {
  return gpu.isHopper ? describeDecode(op, reason) : describeMma(op, reason);
}

std::optional<ScheduleKey> fuse::getScheduleKey(Operation *op, int64_t tokens,
                                                std::string &reason,
                                                const GpuModel &gpu) {
  ScheduleKey key;
  key.family = op->getName().stripDialect().str();
  if (isRowOp(op)) {
    std::optional<RowProblem> problem = describeRows(op, reason);
    if (!problem)
      return std::nullopt;
    llvm::raw_string_ostream(key.element) << problem->scales.getStorageType();
    key.widths.push_back(problem->width);
    return key;
  }
  std::optional<MlpProblem> problem = describeProducts(op, gpu, reason);
  if (!problem)
    return std::nullopt;
  llvm::raw_string_ostream element(key.element);
  element << cast<RankedTensorType>(
                 problem->outputs.front().weight.getType())
                 .getElementType();
  if (problem->quant)
    element << (problem->hasBlockScales() ? " block" : " token");
  key.widths.push_back(problem->width);
  if (problem->hasGemm1())
    key.widths.push_back(problem->hidden);
  for (const DecodeOutput &output : problem->outputs)
    key.widths.push_back(output.rows);
  key.tokens = getTile(*problem, tokens);
  key.relaxed = problem->rounding.getMode() == RoundingMode::Relaxed;
  return key;
}

static std::string print(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

static std::string getMmaProblem(const MlpProblem &problem, Attribute schedule,
                                 int64_t tokens, const GpuModel &gpu) {
  auto mma = dyn_cast<tile::MmaScheduleAttr>(schedule);
  if (!mma)
    return print(schedule) + " is not a #tile.mma_schedule";
  if (mma.getTokens() < tokens)
    return ("it is for " + Twine(mma.getTokens()) + " tokens, not " +
            Twine(tokens))
        .str();
  // Blocks wait for each other, so all of them must be resident.
  if (mma.getBlocks() > gpu.multiprocessors)
    return ("it has " + Twine(mma.getBlocks()) + " blocks for " +
            Twine(gpu.multiprocessors) + " multiprocessors")
        .str();
  if (mma.getSharedBytes() > gpu.sharedBytes)
    return ("it has " + Twine(mma.getSharedBytes()) +
            " bytes of shared memory, more than " + Twine(gpu.sharedBytes))
        .str();
  return getScheduleProblem(problem, mma);
}

std::string fuse::getScheduleProblem(Operation *op, Attribute schedule,
                                     int64_t tokens, const GpuModel &gpu) {
  if (isRowOp(op))
    return isa<tile::RowScheduleAttr>(schedule)
               ? ""
               : print(schedule) + " is not a #tile.row_schedule";
  std::string reason;
  std::optional<MlpProblem> problem = describeProducts(op, gpu, reason);
  if (!problem)
    return reason;
  int64_t count = problem->tokens.value_or(tokens);
  if (!gpu.isHopper)
    return getMmaProblem(*problem, schedule, count, gpu);
  auto prefill = dyn_cast<tile::PrefillScheduleAttr>(schedule);
  if (count > kMaxDecodeTokens && !prefill)
    return print(schedule) + " is not a #tile.prefill_schedule";
  if (count > kMaxWholeTokens && prefill) {
    if (prefill.getTokens() < count)
      return ("it is for " + Twine(prefill.getTokens()) + " tokens, not " +
              Twine(count))
          .str();
    return getScheduleProblem(*problem, prefill, gpu.multiprocessors);
  }
  auto decode = dyn_cast<tile::ScheduleAttr>(schedule);
  if (!decode)
    return print(schedule) + " is not a #tile.schedule";
  int64_t tile =
      getTokenTile(getTile(*problem, tokens), decode.getGemm1TileM());
  if (decode.getTokens() != tile)
    return ("it is for " + Twine(decode.getTokens()) + " tokens, not " +
            Twine(tile))
        .str();
  // Blocks wait for each other, so all of them must be resident.
  if (decode.getBlocks() > gpu.multiprocessors)
    return ("it has " + Twine(decode.getBlocks()) + " blocks for " +
            Twine(gpu.multiprocessors) + " multiprocessors")
        .str();
  return getScheduleProblem(*problem, decode);
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

StringRef ScheduleTable::getCompiler() { return "fuse " FUSE_VERSION; }

/// Reads a row, or returns the reason why it is invalid.
static std::string readRow(const llvm::json::Value &value, MLIRContext *context,
                           ScheduleTable::Row &row) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object)
    return "is not an object";
  auto family = object->getString("family");
  auto element = object->getString("element");
  auto tokens = object->getInteger("tokens");
  auto relaxed = object->getBoolean("relaxed");
  auto text = object->getString("schedule");
  const llvm::json::Array *widths = object->getArray("widths");
  if (!family || !element || !tokens || !relaxed || !text || !widths)
    return "lacks one of family, element, widths, tokens, relaxed, schedule";
  row.key.family = family->str();
  row.key.element = element->str();
  row.key.tokens = *tokens;
  row.key.relaxed = *relaxed;
  for (const llvm::json::Value &width : *widths) {
    std::optional<int64_t> number = width.getAsInteger();
    if (!number)
      return "has a width that is not a number";
    row.key.widths.push_back(*number);
  }
  std::string problem;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    problem = ": " + diagnostic.str();
  });
  if (llvm::Error error = checkTextLimits(*text))
    return "has a schedule whose " + toString(std::move(error));
  row.schedule = parseAttribute(*text, context);
  if (!isa_and_nonnull<tile::ScheduleAttr, tile::PrefillScheduleAttr,
                       tile::MmaScheduleAttr, tile::RowScheduleAttr>(
          row.schedule))
    return ("has schedule '" + *text +
            "': expected #tile.schedule, #tile.prefill_schedule, "
            "#tile.mma_schedule or #tile.row_schedule" +
            problem)
        .str();
  return "";
}

std::optional<ScheduleTable> ScheduleTable::read(StringRef path, StringRef chip,
                                                 int64_t multiprocessors,
                                                 MLIRContext *context,
                                                 std::string &error) {
  auto fail = [&](const Twine &reason) {
    error = ("'" + path + "' " + reason).str();
    return std::nullopt;
  };
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    error =
        ("cannot read '" + path + "': " + buffer.getError().message()).str();
    return std::nullopt;
  }
  if (llvm::Error limits = checkTextLimits((*buffer)->getBuffer()))
    return fail("is not a table: " + toString(std::move(limits)));
  llvm::Expected<llvm::json::Value> json =
      llvm::json::parse((*buffer)->getBuffer());
  if (!json)
    return fail("is not JSON: " + toString(json.takeError()));
  const llvm::json::Object *object = json->getAsObject();
  if (!object || object->getString("format") != StringRef("fuse-schedules"))
    return fail("is not a table of schedules, which fuse-tune makes");
  int64_t version = object->getInteger("version").value_or(0);
  if (version != kVersion)
    return fail("has version " + Twine(version) + " of the format, expected " +
                Twine(kVersion));
  // Measurements with other kernels or on another GPU do not apply.
  StringRef compiler = object->getString("compiler").value_or("");
  if (compiler != getCompiler())
    return fail("was measured with kernels of '" + compiler + "', this is '" +
                getCompiler() + "'");
  StringRef measuredChip = object->getString("chip").value_or("");
  if (measuredChip != chip)
    return fail("is for chip '" + measuredChip + "', not '" + chip + "'");
  int64_t measured = object->getInteger("multiprocessors").value_or(0);
  if (measured != multiprocessors)
    return fail("is for " + Twine(measured) + " multiprocessors, not " +
                Twine(multiprocessors));
  const llvm::json::Array *array = object->getArray("rows");
  if (!array)
    return fail("has no array 'rows'");
  context->getOrLoadDialect<tile::TileDialect>();
  ScheduleTable table;
  for (auto [index, value] : llvm::enumerate(*array)) {
    Row row;
    if (std::string reason = readRow(value, context, row); !reason.empty()) {
      error = ("row " + Twine(index) + " of '" + path + "' " + reason).str();
      return std::nullopt;
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Attribute ScheduleTable::find(const ScheduleKey &key) const {
  for (const Row &row : rows)
    if (row.key == key)
      return row.schedule;
  return {};
}
