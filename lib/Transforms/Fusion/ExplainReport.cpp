//===- ExplainReport.cpp - An explanation as text, JSON and HTML ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Explain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fuse;

static SmallVector<StringRef> getHeads(const Explanation &explanation) {
  SmallVector<StringRef> heads = {
      "site",   "level",         "state", "kernel or reason",
      "layers", "bytes between", "flop"};
  if (!explanation.target.empty())
    llvm::append_values(heads, "launches saved", "bytes saved");
  return heads;
}

/// The columns of a site, the same in all formats.
static SmallVector<std::string> getColumns(const Explanation &explanation,
                                           const SiteReport &site) {
  // What a kernel would have at a refused site is in parentheses.
  auto number = [&](std::optional<int64_t> value) {
    if (!value)
      return std::string("-");
    std::string text = llvm::itostr(*value);
    return site.refusal ? "(" + text + ")" : text;
  };
  std::optional<int64_t> layers, between, flops, launches, bytes;
  if (site.chain) {
    layers = site.chain->layers;
    between = site.chain->bytes;
    flops = site.chain->flops;
  }
  if (site.saved) {
    launches = site.saved->launches;
    bytes = site.saved->bytes;
  }
  std::string verdict = site.kernel;
  if (site.refusal) {
    const RefusalText &text = getText(*site.refusal);
    verdict = (text.id + " " + text.name).str();
  }
  SmallVector<std::string> columns = {
      site.id,      site.level,     site.refusal ? "refused" : "fused",
      verdict,      number(layers), number(between),
      number(flops)};
  if (!explanation.target.empty())
    llvm::append_values(columns, number(launches), number(bytes));
  return columns;
}

static std::string summarize(const Explanation &explanation) {
  int64_t fused = 0, kernels = 0, layers = 0;
  for (const SiteReport &site : explanation.sites) {
    fused += !site.refusal;
    if (site.refusal || site.level != "ops")
      continue;
    ++kernels;
    layers += site.chain ? site.chain->layers : 0;
  }
  std::string text =
      std::to_string(fused) + (fused == 1 ? " site" : " sites") + " fused, " +
      std::to_string(explanation.sites.size() - fused) + " refused";
  if (kernels)
    text += "; kernels: " + std::to_string(kernels) +
            ", of layers: " + std::to_string(layers);
  if (!explanation.problem.empty())
    return text + "; savings on " + explanation.target +
           " are unknown: " + explanation.problem;
  if (explanation.target.empty())
    return text;
  PlanCost unfused, saved;
  for (const FunctionReport &function : explanation.functions) {
    unfused += function.unfused;
    saved += function.unfused - function.fused;
  }
  if (saved.launches == 0 && saved.bytes == 0)
    return text + "; nothing is saved on " + explanation.target;
  return text + "; on " + explanation.target + " they save " +
         std::to_string(saved.launches) + " of " +
         std::to_string(unfused.launches) + " launches and " +
         std::to_string(saved.bytes) + " of " + std::to_string(unfused.bytes) +
         " bytes";
}

/// What a call of a function costs on the target.
static std::string describe(const FunctionReport &function,
                            const Explanation &explanation) {
  return "@" + function.name + " on " + explanation.target +
         ": launches unfused " + std::to_string(function.unfused.launches) +
         ", fused " + std::to_string(function.fused.launches) +
         "; bytes unfused " + std::to_string(function.unfused.bytes) +
         ", fused " + std::to_string(function.fused.bytes);
}

void fuse::printText(const Explanation &explanation, raw_ostream &os) {
  SmallVector<SmallVector<std::string>> rows;
  SmallVector<StringRef> heads = getHeads(explanation);
  rows.push_back(llvm::to_vector(
      llvm::map_range(heads, [](StringRef head) { return head.str(); })));
  for (const SiteReport &site : explanation.sites)
    rows.push_back(getColumns(explanation, site));
  SmallVector<size_t> widths(heads.size());
  for (ArrayRef<std::string> row : rows)
    for (auto [width, text] : llvm::zip_equal(widths, row))
      width = std::max(width, text.size());
  for (auto [index, row] : llvm::enumerate(rows)) {
    std::string line;
    llvm::raw_string_ostream text(line);
    for (auto [width, cell] : llvm::zip_equal(widths, row))
      text << llvm::left_justify(cell, width + 2);
    os << StringRef(line).rtrim() << "\n";
    if (index == 0)
      continue;
    const SiteReport &site = explanation.sites[index - 1];
    for (const std::string &recipe : site.weights)
      os << "  stores " << recipe << "\n";
    for (const std::string &tie : site.tied)
      os << "  tied: " << tie << "\n";
    if (site.share)
      os << "  " << site.share->toText() << "\n";
    if (!site.refusal)
      continue;
    os << "  at " << site.at << ", " << site.location << "\n  " << site.detail
       << "\n  do: " << getText(*site.refusal).suggestion << "\n";
  }
  for (const FunctionReport &function : explanation.functions)
    os << describe(function, explanation) << "\n";
  os << summarize(explanation) << "\n";
}

static llvm::json::Object describe(const PlanCost &cost) {
  return llvm::json::Object{{"launches", cost.launches}, {"bytes", cost.bytes}};
}

llvm::json::Value fuse::toJSON(const Explanation &explanation) {
  llvm::json::Array sites;
  for (const SiteReport &site : explanation.sites) {
    llvm::json::Object row{{"site", site.id},
                           {"level", site.level},
                           {"fused", !site.refusal},
                           {"members", llvm::json::Array(site.members)},
                           {"location", site.location}};
    if (site.refusal) {
      const RefusalText &text = getText(*site.refusal);
      row["id"] = text.id;
      row["name"] = text.name;
      row["reason"] = text.reason;
      row["detail"] = site.detail;
      row["suggestion"] = text.suggestion;
      row["at"] = site.at;
    } else {
      row["kernel"] = site.kernel;
    }
    if (!site.tied.empty())
      row["tied"] = llvm::json::Array(site.tied);
    if (!site.weights.empty())
      row["weights"] = llvm::json::Array(site.weights);
    if (site.chain) {
      llvm::json::Object chain{{"layers", site.chain->layers},
                               {"bytes", site.chain->bytes}};
      if (site.chain->flops)
        chain["flops"] = *site.chain->flops;
      row[site.refusal ? "predicted_chain" : "chain"] = std::move(chain);
    }
    if (site.saved)
      row["saved"] = describe(*site.saved);
    if (site.share)
      row["share"] =
          llvm::json::Object{{"axis", site.share->axis},
                             {"ranks", site.share->count},
                             {"local_bytes", site.share->localBytes},
                             {"whole_bytes", site.share->wholeBytes},
                             {"reduced_bytes", site.share->reducedBytes}};
    sites.push_back(std::move(row));
  }
  llvm::json::Object report{{"summary", summarize(explanation)},
                            {"sites", std::move(sites)}};
  if (explanation.target.empty())
    return report;
  report["target"] = explanation.target;
  llvm::json::Array functions;
  for (const FunctionReport &function : explanation.functions)
    functions.push_back(
        llvm::json::Object{{"name", function.name},
                           {"unfused", describe(function.unfused)},
                           {"fused", describe(function.fused)}});
  report["functions"] = std::move(functions);
  if (!explanation.problem.empty())
    report["problem"] = explanation.problem;
  return report;
}

void fuse::printHTML(const Explanation &explanation, raw_ostream &os) {
  os << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<title>Fusion report</title><style>\n"
        "body{font-family:sans-serif;margin:2em}\n"
        "table{border-collapse:collapse}\n"
        "td,th{border:1px solid #bbb;padding:.3em .6em;text-align:left;"
        "vertical-align:top}\n"
        ".fused{background:#e6f5e6}.refused{background:#fbeaea}\n"
        "pre{background:#f5f5f5;padding:1em;overflow:auto}\n"
        "</style></head><body>\n<h1>Fusion report</h1>\n<p>";
  llvm::printHTMLEscaped(summarize(explanation), os);
  os << "</p>\n<table><tr>";
  for (StringRef head : getHeads(explanation))
    os << "<th>" << head << "</th>";
  os << "<th>details</th></tr>\n";
  for (const SiteReport &site : explanation.sites) {
    os << "<tr class=\"" << (site.refusal ? "refused" : "fused") << "\">";
    for (const std::string &cell : getColumns(explanation, site)) {
      os << "<td>";
      llvm::printHTMLEscaped(cell, os);
      os << "</td>";
    }
    std::string details = llvm::join(site.members, ", ");
    for (const std::string &recipe : site.weights)
      details += "; stores " + recipe;
    for (const std::string &tie : site.tied)
      details += "; tied: " + tie;
    if (site.share)
      details += "; " + site.share->toText();
    if (site.refusal)
      details = site.detail + " (at " + site.at + ", " + site.location + "); " +
                getText(*site.refusal).suggestion.str();
    os << "<td>";
    llvm::printHTMLEscaped(details, os);
    os << "</td></tr>\n";
  }
  os << "</table>\n";
  for (const FunctionReport &function : explanation.functions) {
    os << "<p>";
    llvm::printHTMLEscaped(describe(function, explanation), os);
    os << "</p>\n";
  }
  auto printCode = [&](StringRef title, StringRef code) {
    os << "<details><summary>" << title << "</summary><pre>";
    llvm::printHTMLEscaped(code, os);
    os << "</pre></details>\n";
  };
  printCode("Before fusion", explanation.before);
  printCode("After fusion", explanation.after);
  os << "</body></html>\n";
}
