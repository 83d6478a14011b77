//===- Explain.cpp - Explain the fusion of each site ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Explain.h"
#include "../Modules/ModuleInliner.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLExtras.h"
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

SiteGain &SiteGain::operator+=(const SiteGain &other) {
  launches += other.launches;
  bytes += other.bytes;
  if (other.flops)
    flops = flops.value_or(0) + *other.flops;
  return *this;
}

/// The total gain of the kernels of a function, or nothing without kernels.
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

/// The gain that a refused chain of modules would have. Its bodies are fused in
/// a temporary function. Without bodies, the gain is the traffic of the values
/// between members.
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
    // Kernels of the temporary function are not reported.
    formation.onFused = [](StringRef, FusedOpInterface) {};
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

/// The gain that the op of a refused site would have as one kernel with the
/// layer ops that produce its operands and those that use its results.
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
  // The location of a kernel lists all members; the report shows the first.
  while (auto fused = dyn_cast<FusedLoc>(loc)) {
    if (fused.getLocations().empty())
      break;
    loc = fused.getLocations().front();
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  loc.print(os);
  StringRef trimmed = text;
  if (trimmed.consume_front("loc(") && trimmed.consume_back(")"))
    return trimmed.str();
  return text;
}

/// The text of a recipe without the name of the attribute.
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

/// The function with the body of a fused call, or null.
static Operation *getBody(FusedCallOp call, SymbolTableCollection &tables) {
  FlatSymbolRefAttr body = call.getBodyAttr();
  return body ? tables.lookupSymbolIn(
                    call->getParentOfType<ModelOp>()->getParentOp(),
                    body.getAttr())
              : nullptr;
}

/// Collects the tied parameters of a member and of the modules in it.
static void collectTies(Operation *member, std::vector<std::string> &tied) {
  member->walk([&](ParameterOp parameter) {
    if (std::optional<StringRef> owner = parameter.getTiedTo())
      tied.push_back(getParameterName(parameter) + " = " + owner->str());
  });
}

/// Reports a matched chain of modules. It counts as refused if its body forms
/// no kernel, or only kernels of other families than the pattern requests.
/// `reasons` has the first refusal in each function.
static SiteReport reportCall(FusedCallOp call, SymbolTableCollection &tables,
                             const DenseMap<Operation *, SiteReport> &reasons,
                             int64_t tokens) {
  Operation *body = getBody(call, tables);
  std::string other = body ? describeOtherFamily(call, body) : "";
  std::optional<SiteGain> gain;
  SiteReport report;
  if (body && !(gain = sumKernels(body, tokens))) {
    auto reason = reasons.find(body);
    if (reason != reasons.end()) {
      report = reason->second;
      report.detail = "the members form no kernel; " + report.detail;
    } else {
      other = "the members form no kernel, the pattern asks for " +
              call.getKernel().str();
    }
  }
  if (!other.empty())
    report = reportRefusal(call.getSite(), "modules",
                           Refusal{RefusalKind::OtherFamily, call},
                           call.getLoc(), other);
  else if (!report.refusal)
    report.kernel = call.getKernel();
  report.id = call.getSite();
  report.level = "modules";
  for (auto member : call.getMembers().getAsRange<SymbolRefAttr>()) {
    NetModuleOp module = lookupModule(tables, call, member);
    report.members.push_back(getModulePath(module));
    collectTies(module, report.tied);
  }
  if (ArrayAttr weights = call.getWeightsAttr())
    for (auto recipe : weights.getAsRange<RecipeAttr>())
      report.weights.push_back(toText(recipe));
  if (!report.refusal)
    report.location = toText(call.getLoc());
  report.gain = gain;
  return report;
}

llvm::FailureOr<Explanation> fuse::explain(Operation *root,
                                           const ExplainOptions &options) {
  Explanation explanation;
  explanation.before = print(root);
  OwningOpRef<Operation *> copy = root->clone();

  std::vector<SiteReport> refused;
  SmallVector<ModelOp> models = findModels(*copy);
  ModuleMatching matching;
  auto libraries = loadLibraries(root->getContext(), options.libraries);
  if (failed(libraries))
    return failure();
  llvm::append_range(matching.libraries, getModels(*libraries));
  matching.target = options.target;
  if (options.patterns.empty() &&
      !(options.target.empty() && options.libraries.empty()))
    return emitError(root->getLoc())
           << (options.target.empty() ? "libraries" : "target")
           << " has no effect without patterns";
  SymbolTableCollection before;
  matching.onRefusal = [&](const ModuleSite &site) {
    refused.push_back(reportRefusal(site.id, "modules", *site.refusal,
                                    *site.location, site.detail));
    SiteReport &report = refused.back();
    report.gain = predictGain(site, before, options.tokens);
    for (ModuleNode *member : site.members)
      if (member) {
        report.members.push_back(member->getPath());
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

  makeSitesUnique(copy.get());

  // The first refusal of each function, which explains a body without kernels.
  DenseMap<Operation *, SiteReport> reasons;
  FunctionOpInterface current;
  KernelFormation formation;
  formation.onRefusal = [&](StringRef site, const Refusal &refusal,
                            Location loc, Operation *op) {
    refused.push_back(
        reportRefusal(site, "ops", refusal, loc, getText(refusal.kind).reason));
    reasons.try_emplace(current, refused.back());
    refused.back().gain = predictGain(op, options.tokens);
  };
  // Kernels are in the report, so they get no remarks.
  formation.onFused = [](StringRef, FusedOpInterface) {};
  // Forwards do not change: their fused members are in functions.
  SmallVector<FunctionOpInterface> functions;
  copy->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<ModelOp>(op))
      return WalkResult::skip();
    if (auto function = dyn_cast<FunctionOpInterface>(op))
      functions.push_back(function);
    return WalkResult::advance();
  });
  for (FunctionOpInterface function : functions) {
    current = function;
    if (failed(formKernels(function, formation)))
      return failure();
  }
  explanation.after = print(copy.get());

  SmallVector<FusedOpInterface> kernels;
  copy->walk([&](FusedOpInterface kernel) { kernels.push_back(kernel); });
  std::vector<SiteReport> formed;
  for (FusedOpInterface kernel : kernels)
    formed.push_back(reportKernel(kernel, options.tokens));
  SymbolTableCollection tables;
  copy->walk([&](FusedCallOp call) {
    explanation.sites.push_back(
        reportCall(call, tables, reasons, options.tokens));
  });
  llvm::append_range(explanation.sites, formed);
  llvm::append_range(explanation.sites, refused);
  return explanation;
}
