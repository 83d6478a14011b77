//===- Explain.cpp - Explain the fusion of each site ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Explain.h"
#include "../Modules/ModuleInliner.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Chains
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

static SiteChain describeChain(FusedOpInterface kernel, int64_t tokens) {
  OpBuilder builder(kernel);
  Decomposition members = kernel.decompose(builder);
  SiteChain chain;
  chain.layers = members.members.size();
  chain.flops = 0;
  for (Operation *member : members.members) {
    for (Value value : member->getResults()) {
      int64_t bytes = countBytes(value, tokens);
      if (!llvm::is_contained(members.results, value))
        chain.bytes += bytes;
      llvm::SmallPtrSet<Operation *, 4> readers(value.user_begin(),
                                                value.user_end());
      chain.bytes += bytes * readers.size();
    }
    auto linear = dyn_cast<LinearOp>(member);
    if (!linear)
      continue;
    auto weight = cast<RankedTensorType>(linear.getWeight().getType());
    int64_t rows =
        countElements(linear.getY().getType().getShape().drop_back(), tokens);
    *chain.flops += 2 * rows * countElements(weight.getShape(), tokens);
  }
  for (Operation *member : llvm::reverse(members.members)) {
    member->dropAllUses();
    member->erase();
  }
  return chain;
}

SiteChain &SiteChain::operator+=(const SiteChain &other) {
  layers += other.layers;
  bytes += other.bytes;
  if (other.flops)
    flops = flops.value_or(0) + *other.flops;
  return *this;
}

RankShare &RankShare::operator+=(const RankShare &other) {
  axis = other.axis;
  count = other.count;
  localBytes += other.localBytes;
  wholeBytes += other.wholeBytes;
  reducedBytes += other.reducedBytes;
  return *this;
}

std::string RankShare::toText() const {
  std::string text = "each of " + std::to_string(count) + " ranks of '" + axis +
                     "' has " + std::to_string(localBytes) + " of " +
                     std::to_string(wholeBytes) + " parameter bytes";
  if (reducedBytes)
    text += " and adds " + std::to_string(reducedBytes) +
            " bytes of partial results in f32";
  return text;
}

/// What one rank has of a kernel whose parameters are cut, or nothing.
static std::optional<RankShare> describeShare(FusedOpInterface kernel,
                                              int64_t tokens) {
  auto function = kernel->getParentOfType<FunctionOpInterface>();
  if (!function)
    return std::nullopt;
  RankShare share;
  bool isPartial = false;
  for (Value operand : kernel->getOperands()) {
    // A part of a stored weight that several parameters share.
    Value source = operand;
    while (auto slice = source.getDefiningOp<tensor::ExtractSliceOp>())
      source = slice.getSource();
    auto argument = dyn_cast<BlockArgument>(source);
    if (!argument || argument.getOwner() != &function.getFunctionBody().front())
      continue;
    auto shard = function.getArgAttrOfType<ShardAttr>(argument.getArgNumber(),
                                                      kShardAttrName);
    int64_t bytes = countBytes(operand, tokens);
    if (!shard) {
      if (function.getArgAttr(argument.getArgNumber(), kParameterAttrName)) {
        share.localBytes += bytes;
        share.wholeBytes += bytes;
      }
      continue;
    }
    isPartial |= shard.getDim() == 1;
    share.axis = shard.getAxis().getValue();
    share.count = shard.getCount();
    share.localBytes += bytes / shard.getCount();
    share.wholeBytes += bytes;
  }
  if (!share.count)
    return std::nullopt;
  if (isPartial) {
    auto type = cast<RankedTensorType>(kernel->getResult(0).getType());
    share.reducedBytes = countElements(type.getShape(), tokens) * sizeof(float);
  }
  return share;
}

static SmallVector<FusedOpInterface> findKernels(Operation *root) {
  SmallVector<FusedOpInterface> kernels;
  root->walk([&](FusedOpInterface kernel) { kernels.push_back(kernel); });
  return kernels;
}

/// The layers of all kernels of a function, or nothing without kernels.
static std::optional<SiteChain> sumKernels(Operation *function,
                                           int64_t tokens) {
  SmallVector<FusedOpInterface> kernels = findKernels(function);
  if (kernels.empty())
    return std::nullopt;
  SiteChain sum;
  for (FusedOpInterface kernel : kernels)
    sum += describeChain(kernel, tokens);
  return sum;
}

/// The layers that the kernel of a refused chain of modules would have. Its
/// bodies are fused in a temporary function. Without bodies, members count.
static std::optional<SiteChain> predictChain(const ModuleSite &site,
                                             SymbolTableCollection &tables,
                                             int64_t tokens) {
  if (site.calls.empty() || site.calls.size() != site.members.size())
    return std::nullopt;
  OwningOpRef<func::FuncOp> inlined =
      inlineCalls(tables, site.calls, "predicted");
  if (inlined && isGeneratedKernel(site.kernel)) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(inlined->getLoc());
    func::FuncOp function = inlined.release();
    module->push_back(function);
    if (site.kernel == "group")
      function->setAttr(kGroupAttrName, UnitAttr::get(function->getContext()));
    KernelFormation formation;
    formation.onRefusal = [](StringRef, const Refusal &, Location,
                             Operation *) {};
    // Kernels of the temporary function are not reported.
    formation.onFused = [](StringRef, FusedOpInterface) {};
    ScopedDiagnosticHandler silence(function->getContext(),
                                    [](Diagnostic &) {});
    if (succeeded(raiseProgram(*module)) &&
        succeeded(formKernels(function, formation)))
      if (std::optional<SiteChain> chain = sumKernels(function, tokens))
        return chain;
  }
  SiteChain chain;
  chain.layers = site.calls.size();
  for (CallModuleOp call : ArrayRef(site.calls).drop_back())
    for (Value value : call.getOutputs())
      chain.bytes += 2 * countBytes(value, tokens);
  return chain;
}

/// The op of a refused site with the layer ops that produce its operands and
/// those that use its results.
static std::optional<SiteChain> predictChain(Operation *op, int64_t tokens) {
  SiteChain chain;
  chain.layers = 1;
  auto addEdge = [&](Value value) {
    ++chain.layers;
    chain.bytes += 2 * countBytes(value, tokens);
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
  if (chain.layers == 1)
    return std::nullopt;
  return chain;
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
  report.chain = describeChain(kernel, tokens);
  report.share = describeShare(kernel, tokens);
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
    if (std::optional<SymbolRefAttr> owner = parameter.getTiedTo())
      tied.push_back(getParameterName(parameter) + " = " + getPath(*owner));
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
  std::optional<SiteChain> chain;
  SiteReport report;
  if (body && !(chain = sumKernels(body, tokens))) {
    auto reason = reasons.find(body);
    if (reason != reasons.end()) {
      report = reason->second;
      report.detail = "the members form no kernel; " + report.detail;
    } else {
      other = "the members form no kernel, the pattern asks for " +
              call.getKernelName().str();
    }
  }
  if (!other.empty())
    report = reportRefusal(call.getSite(), "modules",
                           Refusal{RefusalKind::OtherFamily, call},
                           call.getLoc(), other);
  else if (!report.refusal)
    report.kernel = call.getKernelName();
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
  report.chain = chain;
  for (FusedOpInterface kernel :
       body ? findKernels(body) : SmallVector<FusedOpInterface>())
    if (std::optional<RankShare> share = describeShare(kernel, tokens)) {
      if (!report.share)
        report.share.emplace();
      *report.share += *share;
    }
  return report;
}

//===----------------------------------------------------------------------===//
// Savings
//===----------------------------------------------------------------------===//

/// Text that is equal for kernels that save the same: the op without its
/// identity, where its operands come from and where its results go.
static std::string describeUse(FusedOpInterface kernel,
                               const llvm::StringSet<> &bodies) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto function = kernel->getParentOfType<FunctionOpInterface>();
  if (function && !bodies.contains(function.getName()))
    os << function.getName();
  os << " " << kernel->getName();
  for (NamedAttribute attr : kernel->getAttrs())
    if (attr.getValue() != kernel.getSiteAttr() &&
        attr.getValue() != kernel.getOriginsAttr() &&
        attr.getValue() != kernel.getProvenanceAttr())
      os << " " << attr.getName() << attr.getValue();
  for (Value operand : kernel->getOperands()) {
    Operation *def = operand.getDefiningOp();
    os << " " << operand.getType() << " "
       << (def ? def->getName().getStringRef() : "argument");
  }
  for (Value result : kernel->getResults()) {
    os << " " << result.getType();
    for (Operation *user : result.getUsers())
      os << " " << user->getName();
  }
  return text;
}

namespace {

/// Counts on a target what kernels save: the costs of the program without them
/// minus its costs with them.
class SavingsCounter {
public:
  /// Fills in the costs of all functions in `explanation`.
  SavingsCounter(ModuleOp fused, const ExplainOptions &options,
                 Explanation &explanation);

  std::optional<PlanCost> count(ArrayRef<FusedOpInterface> removed);

private:
  llvm::Expected<std::vector<FunctionCost>>
  countWithout(llvm::function_ref<bool(size_t)> isRemoved);

  ModuleOp fused;
  const ExplainOptions &options;
  Explanation &explanation;
  SmallVector<FusedOpInterface> kernels;
  llvm::StringSet<> bodies;
  PlanCost total;
  /// Savings by the uses of the removed kernels.
  llvm::StringMap<PlanCost> known;
};

} // namespace

static PlanCost sum(ArrayRef<FunctionCost> costs) {
  PlanCost total;
  for (const FunctionCost &cost : costs)
    total += cost.cost;
  return total;
}

SavingsCounter::SavingsCounter(ModuleOp fused, const ExplainOptions &options,
                               Explanation &explanation)
    : fused(fused), options(options), explanation(explanation),
      kernels(findKernels(fused)) {
  if (!options.countPlans)
    return;
  explanation.target = options.countedFor;
  fused->walk([&](FusedCallOp call) {
    if (FlatSymbolRefAttr body = call.getBodyAttr())
      bodies.insert(body.getValue());
  });
  auto with = options.countPlans(fused);
  if (!with) {
    explanation.problem = llvm::toString(with.takeError());
    return;
  }
  auto without = countWithout([](size_t) { return true; });
  if (!without) {
    explanation.problem =
        "without kernels, " + llvm::toString(without.takeError());
    return;
  }
  for (auto [x, y] : llvm::zip_equal(*without, *with))
    explanation.functions.push_back({x.name, x.cost, y.cost});
  total = sum(*with);
}

llvm::Expected<std::vector<FunctionCost>>
SavingsCounter::countWithout(llvm::function_ref<bool(size_t)> isRemoved) {
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(fused->clone());
  for (auto [index, kernel] : llvm::enumerate(findKernels(*copy))) {
    if (!isRemoved(index))
      continue;
    OpBuilder builder(kernel);
    Decomposition chain = kernel.decompose(builder);
    kernel->replaceAllUsesWith(chain.results);
    kernel->erase();
  }
  return options.countPlans(*copy);
}

std::optional<PlanCost>
SavingsCounter::count(ArrayRef<FusedOpInterface> removed) {
  if (explanation.functions.empty() || removed.empty())
    return std::nullopt;
  std::string key;
  for (FusedOpInterface kernel : removed)
    key += describeUse(kernel, bodies) + "\n";
  auto [saved, isNew] = known.try_emplace(key);
  if (!isNew)
    return saved->second;
  auto without = countWithout([&](size_t index) {
    return llvm::is_contained(removed, kernels[index]);
  });
  if (!without) {
    // Compiles with all kernels and without any.
    llvm::consumeError(without.takeError());
    known.erase(key);
    return std::nullopt;
  }
  return saved->second = sum(*without) - total;
}

llvm::FailureOr<Explanation> fuse::explain(ModuleOp root,
                                           const ExplainOptions &options) {
  Explanation explanation;
  explanation.before = print(root);
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(root->clone());

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
    report.chain = predictChain(site, before, options.tokens);
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

  if (failed(raiseProgram(*copy)))
    return failure();
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
    refused.back().chain = predictChain(op, options.tokens);
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
  explanation.after = print(*copy);

  SavingsCounter savings(*copy, options, explanation);
  std::vector<SiteReport> formed;
  for (FusedOpInterface kernel : findKernels(*copy)) {
    formed.push_back(reportKernel(kernel, options.tokens));
    formed.back().saved = savings.count(kernel);
  }
  SymbolTableCollection tables;
  copy->walk([&](FusedCallOp call) {
    SiteReport report = reportCall(call, tables, reasons, options.tokens);
    Operation *body = getBody(call, tables);
    if (body && !report.refusal)
      report.saved = savings.count(findKernels(body));
    explanation.sites.push_back(std::move(report));
  });
  llvm::append_range(explanation.sites, formed);
  llvm::append_range(explanation.sites, refused);
  return explanation;
}
