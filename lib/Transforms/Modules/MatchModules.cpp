//===- MatchModules.cpp - Fuse chains of modules by path ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// First, all patterns are matched without changing the IR. Then the calls of
// each site are replaced in place. Only calls change: modules keep their order,
// names, parameters and forwards.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/WeightRecipes.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace fuse {
#define GEN_PASS_DEF_MATCHMODULESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

#define DEBUG_TYPE "fuse-match-modules"

static remark::RemarkOpts getRemarkOpts(const ModuleSite &site) {
  return remark::RemarkOpts::name(site.id).category("fuse").subCategory(
      DEBUG_TYPE);
}

static std::string joinPaths(ArrayRef<ModuleNode *> members) {
  return llvm::join(
      llvm::map_range(members,
                      [](ModuleNode *node) { return node->getPath(); }),
      ", ");
}

static void remarkSite(const ModuleSite &site) {
  if (site.refusal) {
    const RefusalText &text = getText(site.refusal->kind);
    remark::missed(*site.location, getRemarkOpts(site))
        << remark::reason("{0} {1}: {2}; {3}", text.id.str(), text.name.str(),
                          text.reason.str(), site.detail)
        << remark::metric("At", site.refusal->at.getStringRef())
        << remark::suggest("{0}", text.suggestion.str());
    return;
  }
  CallModuleOp head = site.calls.front();
  remark::passed(head.getLoc(), getRemarkOpts(site))
      << remark::metric("Kernel", site.kernel)
      << remark::metric("Members", joinPaths(site.members));
}

/// Records the refused sites for `fuse-check-contracts`. If several patterns
/// request a site, the first reason is recorded.
static void recordRefusals(ModelOp model, ArrayRef<ModuleSite> sites) {
  llvm::StringSet<> seen;
  SmallVector<NamedAttribute> refusals;
  Builder builder(model.getContext());
  if (auto old = model->getAttrOfType<DictionaryAttr>(kRefusalsAttrName))
    for (NamedAttribute refusal : old)
      if (seen.insert(refusal.getName()).second)
        refusals.push_back(refusal);
  for (const ModuleSite &site : sites) {
    if (!site.refusal || !seen.insert(site.id).second)
      continue;
    const RefusalText &text = getText(site.refusal->kind);
    refusals.push_back(builder.getNamedAttr(
        site.id,
        builder.getStringAttr(text.id + " " + text.name + ": " + site.detail)));
  }
  if (!refusals.empty())
    model->setAttr(kRefusalsAttrName, builder.getDictionaryAttr(refusals));
}

/// Warns about a pattern that fuses nothing, unless the user disabled its
/// sites. Remarks with the reasons are off by default.
static void warnIfNoneFused(ModelOp model, StringRef pattern,
                            ArrayRef<ModuleSite> sites) {
  auto isAnswered = [](const ModuleSite &site) {
    return !site.refusal || site.refusal->kind == RefusalKind::Disabled ||
           site.refusal->kind == RefusalKind::HeldBack;
  };
  if (sites.empty() || llvm::any_of(sites, isAnswered))
    return;
  const ModuleSite &first = sites.front();
  const RefusalText &text = getText(first.refusal->kind);
  InFlightDiagnostic warning = emitWarning(model.getLoc());
  warning << "pattern '" << pattern << "' fuses nothing; site '" << first.id
          << "' is refused: " << text.id << " " << text.name << ": "
          << first.detail;
  if (sites.size() > 1)
    warning << "; " << sites.size() << " sites are refused";
}

/// Replaces the calls of a site.
static void replaceCalls(const ModuleSite &site) {
  SmallVector<CallModuleOp> calls = site.calls;
  CallModuleOp head = calls.front(), tail = calls.back();
  SmallVector<Value> intermediates;
  SmallVector<Attribute> members;
  for (CallModuleOp call : calls) {
    members.push_back(call.getCalleeAttr());
    if (call != tail)
      llvm::append_range(intermediates, call.getOutputs());
  }
  // The source of each argument of the later members.
  SmallVector<SmallVector<int64_t>> interfaces;
  SmallVector<SmallVector<Value>> ignored;
  SmallVector<Value> sides;
  for (CallModuleOp call : llvm::drop_begin(calls)) {
    SmallVector<int64_t> &interface = interfaces.emplace_back();
    SmallVector<Value> &others = ignored.emplace_back();
    for (Value arg : call.getArgs()) {
      auto *it = llvm::find(intermediates, arg);
      if (it != intermediates.end()) {
        interface.push_back(-1 - (it - intermediates.begin()));
        continue;
      }
      interface.push_back(others.size());
      others.push_back(arg);
    }
    llvm::append_range(sides, others);
  }
  SmallVector<Type> types(tail->getResultTypes());
  for (int64_t position : site.also)
    types.push_back(intermediates[position].getType());

  OpBuilder builder(head);
  std::optional<KernelFamily> family = symbolizeKernelFamily(site.kernel);
  Attribute kernel =
      family ? Attribute(KernelFamilyAttr::get(builder.getContext(), *family))
             : FlatSymbolRefAttr::get(builder.getContext(), site.kernel);
  auto id = builder.getStringAttr(site.id);
  auto fused = FusedCallOp::create(
      builder, head.getLoc(), types, kernel, builder.getArrayAttr(members),
      head.getArgs(), sides,
      site.also.empty() ? DenseI64ArrayAttr()
                        : builder.getDenseI64ArrayAttr(site.also),
      id, /*body=*/FlatSymbolRefAttr(),
      site.weights.empty() ? ArrayAttr()
                           : builder.getArrayAttr(SmallVector<Attribute>(
                                 site.weights.begin(), site.weights.end())));
  fused->setDiscardableAttrs(head->getDiscardableAttrDictionary());
  ResultRange values = fused.getFinalOutputs();
  for (auto [i, call] : llvm::enumerate(llvm::drop_begin(calls))) {
    builder.setInsertionPoint(call);
    auto identity =
        IdentityCallOp::create(builder, call.getLoc(), call.getCalleeAttr(),
                               values, ignored[i], interfaces[i], id);
    identity->setDiscardableAttrs(call->getDiscardableAttrDictionary());
    values = identity.getOutputs();
  }
  if (calls.size() > 1)
    tail->replaceAllUsesWith(values);
  else
    tail->replaceAllUsesWith(fused);
  for (auto [i, position] : llvm::enumerate(site.also))
    intermediates[position].replaceAllUsesWith(
        fused.getOutputs()[values.size() + i]);
  // The remaining users of a call's results are later calls of the chain.
  for (CallModuleOp call : llvm::reverse(calls))
    call->erase();
}

/// Checks that the compiler or a declared kernel knows the target. No kernel
/// matches a misspelled target, and patterns that request only generated
/// kernels would not reveal the mistake.
static LogicalResult checkTarget(const Declarations &declarations,
                                 StringRef target) {
  if (target.empty() || target == "cpu")
    return success();
  llvm::SetVector<StringRef> known;
  known.insert("cpu");
  for (const Chip &chip : getChips())
    known.insert(chip.name);
  for (KernelOp kernel : declarations.getKernels())
    for (StringRef name : kernel.getTargets().getAsValueRange<StringAttr>())
      known.insert(name);
  if (known.contains(target))
    return success();
  return declarations.getModel().emitError()
         << "unknown target '" << target << "'; expected one of "
         << llvm::join(known, ", ");
}

FailureOr<ModuleFusionCounts>
fuse::fuseModules(ModelOp model, ArrayRef<std::string> patterns,
                  const ModuleMatching &matching) {
  FailureOr<Declarations> declarations =
      Declarations::create(model, matching.libraries);
  if (failed(declarations) ||
      failed(checkTarget(*declarations, matching.target)))
    return failure();
  ModuleGraph graph(model);
  ModuleMatcher matcher(graph, *declarations, matching);
  std::vector<ModuleSite> sites;
  for (StringRef text : patterns) {
    FailureOr<std::vector<ModulePattern>> parsed =
        parseModulePatterns(*declarations, text);
    if (failed(parsed))
      return failure();
    for (const ModulePattern &pattern : *parsed) {
      size_t begin = sites.size();
      if (failed(matcher.match(pattern, sites)))
        return failure();
      // Only the attribute keeps the kernel's name after the pattern is gone.
      for (size_t i = begin; i < sites.size(); ++i)
        sites[i].kernel =
            StringAttr::get(model.getContext(), pattern.kernel).getValue();
      if (!matching.onRefusal)
        warnIfNoneFused(model, text, ArrayRef(sites).drop_front(begin));
    }
  }
  ModuleFusionCounts counts;
  bool remarks = model.getContext()->getRemarkEngine();
  for (const ModuleSite &site : sites) {
    counts.sites.insert(site.id);
    if (!matching.onRefusal) {
      if (remarks)
        remarkSite(site);
    } else if (site.refusal) {
      matching.onRefusal(site);
    }
    ++(site.refusal ? counts.refused : counts.fused);
  }
  for (const ModuleSite &site : sites)
    if (!site.refusal)
      replaceCalls(site);
  recordRefusals(model, sites);
  // Few sites store weights in other layouts. Finding the readers needs a walk,
  // so it is done only for these sites.
  auto storesWeights = [](const ModuleSite &site) {
    return !site.refusal && !site.weights.empty();
  };
  if ((graph.hasStoredWeights() || llvm::any_of(sites, storesWeights)) &&
      failed(collectRecipes(model)))
    return failure();
  return counts;
}

FailureOr<ModuleFusionCounts>
fuse::fuseAllModules(Operation *root, ArrayRef<std::string> patterns,
                     const ModuleMatching &matching) {
  ModuleFusionCounts all;
  for (ModelOp model : findModels(root)) {
    FailureOr<ModuleFusionCounts> counts =
        fuseModules(model, patterns, matching);
    if (failed(counts))
      return failure();
    all.fused += counts->fused;
    all.refused += counts->refused;
    for (const auto &site : counts->sites)
      all.sites.insert(site.getKey());
  }
  for (StringRef id : matching.disable) {
    if (all.sites.contains(id))
      continue;
    // Keeps the message short in a model with thousands of sites.
    constexpr size_t maxNames = 32;
    SmallVector<StringRef> known(all.sites.keys());
    llvm::sort(known);
    InFlightDiagnostic diag = root->emitError();
    diag << "no site '" << id << "' to disable; "
         << (known.empty() ? "there are none" : "expected one of ");
    llvm::interleaveComma(ArrayRef(known).take_front(maxNames), diag);
    if (known.size() > maxNames)
      diag << " and " << known.size() - maxNames << " more";
    return diag;
  }
  return all;
}

SmallVector<ModelOp> fuse::getModels(ArrayRef<OwningOpRef<ModuleOp>> files) {
  SmallVector<ModelOp> models;
  for (const OwningOpRef<ModuleOp> &file : files)
    llvm::append_range(models, ModuleOp(*file).getOps<ModelOp>());
  return models;
}

namespace {

struct MatchModules : fuse::impl::MatchModulesPassBase<MatchModules> {
  using Base::Base;

  void runOnOperation() override {
    if (patterns.empty()) {
      getOperation()->emitError("no patterns given; expected patterns="
                                "((Class,path),(Class,path))->kernel");
      return signalPassFailure();
    }
    auto files =
        loadLibraries(&getContext(), std::vector<std::string>(libraries.begin(),
                                                              libraries.end()));
    if (failed(files))
      return signalPassFailure();
    ModuleMatching matching{target, disable};
    llvm::append_range(matching.libraries, getModels(*files));
    std::vector<std::string> texts(patterns.begin(), patterns.end());
    FailureOr<ModuleFusionCounts> counts =
        fuseAllModules(getOperation(), texts, matching);
    if (failed(counts))
      return signalPassFailure();
    numFused += counts->fused;
    numRefused += counts->refused;
  }
};

} // namespace
