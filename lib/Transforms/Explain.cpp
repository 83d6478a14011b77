//===- Explain.cpp - Which sites are fused, which not, and why ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Explain.h"
#include "ModuleInliner.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Gain
//===----------------------------------------------------------------------===//

static int64_t countElements(ArrayRef<int64_t> shape, int64_t tokens) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= ShapedType::isDynamic(size) ? tokens : size;
  return count;
}

static int64_t countBytes(Value value, int64_t tokens) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.getElementType().isIntOrFloat())
    return 0;
  return countElements(type.getShape(), tokens) *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8u);
}

static SiteGain computeGain(FusedOpInterface kernel, int64_t tokens) {
  OpBuilder builder(kernel);
  Decomposition chain = kernel.decompose(builder);
  SiteGain gain;
  gain.launches = chain.members.size() - 1;
  gain.flops = 0;
  for (Operation *member : chain.members) {
    for (Value value : member->getOperands())
      gain.bytes += countBytes(value, tokens);
    for (Value value : member->getResults())
      gain.bytes += countBytes(value, tokens);
    auto linear = dyn_cast<LinearOp>(member);
    if (!linear)
      continue;
    auto weight = cast<RankedTensorType>(linear.getWeight().getType());
    int64_t rows =
        countElements(linear.getY().getType().getShape().drop_back(), tokens);
    *gain.flops += 2 * rows * countElements(weight.getShape(), tokens);
  }
  llvm::SmallPtrSet<Value, 16> inputs(kernel->operand_begin(),
                                      kernel->operand_end());
  for (Value value : inputs)
    gain.bytes -= countBytes(value, tokens);
  for (Value value : kernel->getResults())
    gain.bytes -= countBytes(value, tokens);
  for (Operation *member : llvm::reverse(chain.members)) {
    member->dropAllUses();
    member->erase();
  }
  return gain;
}

static SiteGain &operator+=(SiteGain &sum, const SiteGain &gain) {
  sum.launches += gain.launches;
  sum.bytes += gain.bytes;
  if (gain.flops)
    sum.flops = sum.flops.value_or(0) + *gain.flops;
  return sum;
}

/// What the kernels of a function gain together, if there are any.
static std::optional<SiteGain> sumKernels(Operation *function, int64_t tokens) {
  SmallVector<FusedOpInterface> kernels;
  function->walk([&](FusedOpInterface kernel) { kernels.push_back(kernel); });
  if (kernels.empty())
    return std::nullopt;
  SiteGain sum;
  for (FusedOpInterface kernel : kernels)
    sum += computeGain(kernel, tokens);
  return sum;
}

/// What a refused chain of modules would gain. Its bodies are fused on the
/// side; without bodies, what the members hand to each other need not be
/// written and read.
static std::optional<SiteGain> predictGain(const ModuleSite &site,
                                           SymbolTableCollection &tables,
                                           int64_t tokens) {
  if (site.calls.empty() || site.calls.size() != site.members.size())
    return std::nullopt;
  OwningOpRef<func::FuncOp> function =
      inlineCalls(tables, site.calls, "predicted");
  if (function && isGeneratedKernel(site.kernel)) {
    if (site.kernel == "group")
      (*function)->setAttr(kGroupAttrName,
                           UnitAttr::get(function->getContext()));
    KernelFormation formation;
    formation.onRefusal = [](StringRef, const Refusal &, Location,
                             Operation *) {};
    // What is fused on the side is no news.
    ScopedDiagnosticHandler silence(function->getContext(),
                                    [](Diagnostic &) {});
    if (succeeded(formKernels(*function, formation)))
      if (std::optional<SiteGain> gain = sumKernels(*function, tokens))
        return gain;
  }
  SiteGain gain;
  gain.launches = site.calls.size() - 1;
  for (CallModuleOp call : ArrayRef(site.calls).drop_back())
    for (Value value : call.getOutputs())
      gain.bytes += 2 * countBytes(value, tokens);
  return gain;
}

/// What the op of a refused site would gain if it were one kernel with the
/// layer ops that it reads from and those that read from it.
static std::optional<SiteGain> predictGain(Operation *op, int64_t tokens) {
  SiteGain gain;
  auto addEdge = [&](Value value) {
    ++gain.launches;
    gain.bytes += 2 * countBytes(value, tokens);
  };
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp(); def && isLayerOp(def))
      addEdge(operand);
  for (Value result : op->getResults())
    for (Operation *user : result.getUsers())
      if (isLayerOp(user)) {
        addEdge(result);
        break;
      }
  if (!gain.launches)
    return std::nullopt;
  return gain;
}

//===----------------------------------------------------------------------===//
// Sites
//===----------------------------------------------------------------------===//

static std::string toText(Location loc) {
  std::string text;
  llvm::raw_string_ostream os(text);
  loc.print(os);
  StringRef trimmed = text;
  if (trimmed.consume_front("loc(") && trimmed.consume_back(")"))
    return trimmed.str();
  return text;
}

/// A recipe without the name of the attribute.
static std::string toText(RecipeAttr recipe) {
  std::string text;
  llvm::raw_string_ostream(text) << recipe;
  return StringRef(text).split('<').second.drop_back().str();
}

static SiteReport reportRefusal(StringRef id, StringRef level,
                                const Refusal &refusal, Location loc,
                                StringRef detail) {
  SiteReport report;
  report.id = id;
  report.level = level;
  report.refusal = refusal.kind;
  report.detail = detail;
  report.at = refusal.at.getStringRef();
  report.location = toText(loc);
  return report;
}

static SiteReport reportKernel(FusedOpInterface kernel, int64_t tokens) {
  SiteReport report;
  if (StringAttr site = kernel.getSiteAttr())
    report.id = site.getValue();
  report.level = "ops";
  report.kernel = kernel->getName().stripDialect();
  if (ArrayAttr origins = kernel.getOriginsAttr())
    for (StringRef path : origins.getAsValueRange<StringAttr>())
      report.members.push_back(path.str());
  report.location = toText(kernel->getLoc());
  report.gain = computeGain(kernel, tokens);
  return report;
}

static std::string print(Operation *root) {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  flags.elideLargeElementsAttrs();
  root->print(os, flags);
  return text;
}

/// What kernels in the body of a fused call gain together, if there are any.
static std::optional<SiteGain> sumBody(FusedCallOp call, int64_t tokens,
                                       SymbolTableCollection &tables) {
  FlatSymbolRefAttr body = call.getBodyAttr();
  Operation *function =
      body
          ? tables.lookupSymbolIn(
                call->getParentOfType<ModelOp>()->getParentOp(), body.getAttr())
          : nullptr;
  return function ? sumKernels(function, tokens) : std::nullopt;
}

/// The tied parameters of a member and of the modules in it.
static void collectTies(Operation *member, std::vector<std::string> &tied) {
  member->walk([&](ParameterOp parameter) {
    if (std::optional<StringRef> owner = parameter.getTiedTo())
      tied.push_back(getParameterName(parameter) + " = " + owner->str());
  });
}

llvm::FailureOr<Explanation> fuse::explain(Operation *root,
                                           const ExplainOptions &options) {
  Explanation explanation;
  explanation.before = print(root);
  OwningOpRef<Operation *> copy = root->clone();

  std::vector<SiteReport> refused;
  SmallVector<ModelOp> models;
  copy->walk([&](ModelOp model) { models.push_back(model); });
  ModuleMatching matching;
  auto libraries = loadLibraries(root->getContext(), options.libraries);
  if (failed(libraries))
    return failure();
  llvm::append_range(matching.libraries, getModels(*libraries));
  matching.target = options.target;
  SymbolTableCollection before;
  matching.onRefusal = [&](const ModuleSite &site) {
    refused.push_back(reportRefusal(site.id, "modules", *site.refusal,
                                    *site.location, site.detail));
    SiteReport &report = refused.back();
    report.gain = predictGain(site, before, options.tokens);
    for (ModuleNode *member : site.members)
      if (member) {
        report.members.push_back(member->path);
        collectTies(member->op, report.tied);
      }
  };
  if (!options.patterns.empty()) {
    if (failed(fuseAllModules(*copy, options.patterns, matching)))
      return failure();
    for (ModelOp model : models)
      if (failed(inlineFusedCalls(model)))
        return failure();
  }

  KernelFormation formation;
  formation.onRefusal = [&](StringRef site, const Refusal &refusal,
                            Location loc, Operation *op) {
    refused.push_back(
        reportRefusal(site, "ops", refusal, loc, getText(refusal.kind).reason));
    refused.back().gain = predictGain(op, options.tokens);
  };
  // Forwards stay as they are; what is fused of them is in functions.
  SmallVector<FunctionOpInterface> functions;
  copy->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<ModelOp>(op))
      return WalkResult::skip();
    if (auto function = dyn_cast<FunctionOpInterface>(op))
      functions.push_back(function);
    return WalkResult::advance();
  });
  for (FunctionOpInterface function : functions)
    if (failed(formKernels(function, formation)))
      return failure();
  explanation.after = print(copy.get());

  SmallVector<FusedOpInterface> kernels;
  copy->walk([&](FusedOpInterface kernel) { kernels.push_back(kernel); });
  std::vector<SiteReport> formed;
  for (FusedOpInterface kernel : kernels)
    formed.push_back(reportKernel(kernel, options.tokens));
  SymbolTableCollection tables;
  copy->walk([&](FusedCallOp call) {
    SiteReport report;
    report.id = call.getSite();
    report.level = "modules";
    report.kernel = call.getKernel();
    std::string scope = getModulePath(getEnclosingModule(call));
    for (auto member : call.getMembers().getAsRange<SymbolRefAttr>()) {
      NetModuleOp module = lookupModule(tables, call, member);
      report.members.push_back(getModulePath(module));
      collectTies(module, report.tied);
    }
    if (ArrayAttr weights = call.getWeightsAttr())
      for (auto recipe : weights.getAsRange<RecipeAttr>())
        report.weights.push_back(toText(recipe));
    report.location = toText(call.getLoc());
    report.gain = sumBody(call, options.tokens, tables);
    explanation.sites.push_back(std::move(report));
  });
  llvm::append_range(explanation.sites, formed);
  llvm::append_range(explanation.sites, refused);
  return explanation;
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

/// The columns of a site, as every format shows them.
static SmallVector<std::string> getColumns(const SiteReport &site) {
  // In brackets, what a refused site would gain.
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
  return std::to_string(fused) + " sites fused, " +
         std::to_string(explanation.sites.size() - fused) +
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
