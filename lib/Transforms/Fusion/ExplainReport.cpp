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

/// The columns of a site, the same in all formats.
static SmallVector<std::string> getColumns(const SiteReport &site) {
  // The predicted gain of a refused site is in parentheses.
  auto number = [&](std::optional<int64_t> value) {
    if (!value)
      return std::string("-");
    std::string text = llvm::itostr(*value);
    return site.refusal ? "(" + text + ")" : text;
  };
  std::optional<int64_t> launches, bytes, flops;
  if (site.gain) {
    launches = site.gain->launches;
    bytes = site.gain->bytes;
    flops = site.gain->flops;
  }
  std::string verdict = site.kernel;
  if (site.refusal) {
    const RefusalText &text = getText(*site.refusal);
    verdict = (text.id + " " + text.name).str();
  }
  return {site.id,      site.level,       site.refusal ? "refused" : "fused",
          verdict,      number(launches), number(bytes),
          number(flops)};
}

static constexpr llvm::StringLiteral kHeads[] = {
    "site", "level", "state", "kernel or reason", "launches", "bytes", "flop"};

static std::string summarize(const Explanation &explanation) {
  SiteGain sum;
  unsigned fused = 0;
  for (const SiteReport &site : explanation.sites) {
    fused += !site.refusal;
    if (site.refusal || site.level != "ops" || !site.gain)
      continue;
    sum += *site.gain;
  }
  return std::to_string(fused) + (fused == 1 ? " site" : " sites") +
         " fused, " + std::to_string(explanation.sites.size() - fused) +
         " refused; kernels save " + std::to_string(sum.launches) +
         " launches and " + std::to_string(sum.bytes) + " bytes";
}

void fuse::printText(const Explanation &explanation, raw_ostream &os) {
  SmallVector<SmallVector<std::string>> rows;
  rows.push_back(llvm::to_vector(
      llvm::map_range(kHeads, [](StringRef head) { return head.str(); })));
  for (const SiteReport &site : explanation.sites)
    rows.push_back(getColumns(site));
  SmallVector<size_t> widths(std::size(kHeads));
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
    if (!site.refusal)
      continue;
    os << "  at " << site.at << ", " << site.location << "\n  " << site.detail
       << "\n  do: " << getText(*site.refusal).suggestion << "\n";
  }
  os << summarize(explanation) << "\n";
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
    if (site.gain) {
      llvm::json::Object gain{{"launches", site.gain->launches},
                              {"bytes", site.gain->bytes}};
      if (site.gain->flops)
        gain["flops"] = *site.gain->flops;
      row[site.refusal ? "predicted_gain" : "gain"] = std::move(gain);
    }
    sites.push_back(std::move(row));
  }
  return llvm::json::Object{{"summary", summarize(explanation)},
                            {"sites", std::move(sites)}};
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
  for (StringRef head : kHeads)
    os << "<th>" << head << "</th>";
  os << "<th>details</th></tr>\n";
  for (const SiteReport &site : explanation.sites) {
    os << "<tr class=\"" << (site.refusal ? "refused" : "fused") << "\">";
    for (const std::string &cell : getColumns(site)) {
      os << "<td>";
      llvm::printHTMLEscaped(cell, os);
      os << "</td>";
    }
    std::string details = llvm::join(site.members, ", ");
    for (const std::string &recipe : site.weights)
      details += "; stores " + recipe;
    for (const std::string &tie : site.tied)
      details += "; tied: " + tie;
    if (site.refusal)
      details = site.detail + " (at " + site.at + ", " + site.location + "); " +
                getText(*site.refusal).suggestion.str();
    os << "<td>";
    llvm::printHTMLEscaped(details, os);
    os << "</td></tr>\n";
  }
  os << "</table>\n";
  auto printCode = [&](StringRef title, StringRef code) {
    os << "<details><summary>" << title << "</summary><pre>";
    llvm::printHTMLEscaped(code, os);
    os << "</pre></details>\n";
  };
  printCode("Before fusion", explanation.before);
  printCode("After fusion", explanation.after);
  os << "</body></html>\n";
}
