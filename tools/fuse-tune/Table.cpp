//===- Table.cpp - From measurements to a table of schedules --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"
#include "fuse/Measure/TuneFormat.h"
#include "fuse/Runtime/Core/Container.h"
#include "fuse/Runtime/Core/Manifest.h"
#include "fuse/Schedule/ScheduleTable.h"
#include "nlohmann/json.hpp"

#include <map>

using namespace fuse;
using llvm::createStringError;
using llvm::Expected;
using nlohmann::json;

/// Fields that all rows of a table share.
static constexpr const char *kContext[] = {"compiler", "chip",
                                           "multiprocessors"};
/// Key of a row.
static constexpr const char *kKey[] = {"family", "element", "widths", "tokens",
                                       "relaxed"};

static double getTime(const json &candidate) {
  return candidate.at("median_us").get<double>();
}

/// Adds "over_choice" to an op of version 1, which lacks it. There only the
/// number of rounds tells which candidates were measured again, all in the same
/// rounds.
static void addRatios(json &op) {
  std::vector<json *> again;
  for (json &candidate : op.at("candidates")) {
    if (candidate.at("status") != measure::kStatusOk)
      continue;
    uint64_t rounds = candidate.at("rounds").get<uint64_t>();
    uint64_t most = again.empty() ? 0 : again[0]->at("rounds").get<uint64_t>();
    if (rounds > most)
      again.clear();
    if (rounds >= most)
      again.push_back(&candidate);
  }
  // The first one is the model's choice, which is measured again unless it is
  // wrong.
  for (json *candidate : again)
    (*candidate)["over_choice"] = getTime(*candidate) / getTime(*again[0]);
}

/// The row of an op of `report`, or null if none of its candidates was
/// measured.
static json makeRow(const json &op, const json &report, double margin) {
  const json &candidates = op.at("candidates");
  const json *best = measure::findFastest(candidates);
  if (!best)
    return nullptr;
  const json *choice = &candidates.front();
  if (choice->at("status") != measure::kStatusOk)
    choice = nullptr;
  else if (best->at("over_choice").get<double>() > 1 - margin)
    best = choice;
  json row;
  for (const char *name : kKey)
    row[name] = op.at(name);
  row["schedule"] = best->at("schedule");
  row["median_us"] = getTime(*best);
  if (choice)
    row["model_choice_us"] = getTime(*choice);
  row["device"] = report.at("device").at("name");
  row["protocol"] = report.at("protocol").at("name");
  return row;
}

/// Prints one row per line, so that tables are easy to compare.
static std::string print(const json &context, const std::vector<json> &rows) {
  std::string text = "{\"format\": \"fuse-schedules\",\n \"version\": " +
                     std::to_string(ScheduleTable::kVersion);
  for (const char *name : kContext)
    text += ",\n \"" + std::string(name) + "\": " + context.at(name).dump();
  text += ",\n \"rows\": [";
  for (size_t i = 0; i < rows.size(); ++i)
    text += (i > 0 ? ",\n  " : "\n  ") + rows[i].dump();
  return text + "\n ]}\n";
}

namespace {

/// The contents of all files.
struct Measurements {
  json context;
  /// Rows by their keys.
  std::map<std::string, json> rows;
};

} // namespace

/// Adds the measurements in `text`, the content of `file`. Throws JSON
/// exceptions if it is malformed.
static llvm::Error addMeasurements(const std::string &file,
                                   const std::string &text,
                                   const std::string &firstFile, double margin,
                                   Measurements &all) {
  json report = runtime::parseJSON(text);
  if (!report.is_object() ||
      report.value("format", "") != measure::kMeasurementsFormat)
    return createStringError(
        file + ": not measurements, which fuse-device-run tune makes");
  int version = report.value("version", 0);
  if (version < 1 || version > measure::kTuneVersion)
    return createStringError(file + ": has version " + std::to_string(version) +
                             ", expected 1 to " +
                             std::to_string(measure::kTuneVersion));
  json &context = all.context;
  for (const char *name : kContext) {
    const json &value = report.at(name);
    if (context.contains(name) && context[name] != value)
      return createStringError(file + ": is for " + name + " " + value.dump() +
                               ", '" + firstFile + "' for " +
                               context[name].dump());
    context[name] = value;
  }
  if (context["compiler"] != ScheduleTable::getCompiler().str())
    return createStringError(file + ": was measured with kernels of " +
                             context["compiler"].dump() + ", this is '" +
                             ScheduleTable::getCompiler().str() + "'");
  for (json &op : report.at("ops")) {
    if (version == 1)
      addRatios(op);
    json row = makeRow(op, report, margin);
    if (row.is_null()) {
      llvm::errs() << file << ": warning: no candidate of '"
                   << op.at("text").get<std::string>() << "' was measured\n";
      continue;
    }
    std::string key;
    for (const char *name : kKey)
      key += row.at(name).dump() + " ";
    all.rows[key] = std::move(row);
  }
  return llvm::Error::success();
}

Expected<std::string> fuse::makeTable(const std::vector<std::string> &files,
                                      double margin) {
  Measurements all;
  for (const std::string &file : files) {
    std::string text = runtime::readFile(file);
    try {
      if (llvm::Error error =
              addMeasurements(file, text, files.front(), margin, all))
        return std::move(error);
    } catch (const std::exception &error) {
      return createStringError(file + ": " + error.what());
    }
  }
  if (all.rows.empty())
    return createStringError("nothing was measured");
  std::vector<json> list;
  for (auto &[key, row] : all.rows)
    list.push_back(std::move(row));
  return print(all.context, list);
}
