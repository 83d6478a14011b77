//===- ModuleMatcher.cpp - Match chains of modules ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Predicates are checked in this order, and the first one that fails is the
// refusal. For each parent: it has all members as children, with the right
// classes. For each call of the first member: the data flows along the chain
// and nowhere else. Last: the members may be fused.
//
// Every module is matched with every glob once, and every call is followed
// once, so the time is linear in the size of the model.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ModulePattern.h"
#include "fuse/Analysis/WeightRecipes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fuse;

bool fuse::isGeneratedKernel(StringRef kernel) {
  return symbolizeKernelFamily(kernel).has_value();
}

/// Whether a kernel of the family can return the intermediate values between
/// its members. An MLP cannot return that between a norm and the MLP.
static bool returnsIntermediates(KernelFamily family) {
  return family != KernelFamily::GatedMLP && family != KernelFamily::MLP;
}

/// The names of all families, for messages.
static std::string listFamilies() {
  SmallVector<StringRef> names;
  for (unsigned i = 0; i <= getMaxEnumValForKernelFamily(); ++i)
    names.push_back(stringifyKernelFamily(static_cast<KernelFamily>(i)));
  return llvm::join(names, ", ");
}

/// For each path of the pattern, the children of one parent that match it.
struct ModuleMatcher::ParentHits {
  ModuleNode *parent = nullptr;
  SmallVector<SmallVector<ModuleNode *, 2>> children;
};

//===----------------------------------------------------------------------===//
// Errors of a whole pattern
//===----------------------------------------------------------------------===//

static InFlightDiagnostic patternError(ModuleGraph &graph,
                                       const ModulePattern &pattern,
                                       RefusalKind kind) {
  const RefusalText &text = getText(kind);
  return graph.getRoot()->op->emitError()
         << "pattern '" << pattern.text << "': " << text.id << " " << text.name
         << ": ";
}

/// Checks that every path selects a module, and that one parent has a child for
/// every member.
LogicalResult ModuleMatcher::checkHits(const ModulePattern &pattern,
                                       ArrayRef<ParentHits> parents,
                                       ArrayRef<unsigned> counts) {
  for (auto [i, count] : llvm::enumerate(counts)) {
    if (count)
      continue;
    const ModulePattern::Member &member = pattern.members[i];
    InFlightDiagnostic diag =
        patternError(graph, pattern, RefusalKind::NoModuleMatches);
    diag << "no module matches path '" << member.path.getText()
         << "' of member " << i;
    // Suggest modules of the same class.
    unsigned listed = 0;
    for (const ModuleNode &node : graph.getNodes())
      if (node.parent && listed < 4 &&
          member.className.matchChild(node.getModule().getClassName()))
        diag << (listed++ ? ", " : "; modules of this class: ")
             << node.getPath();
    if (!listed)
      diag << "; no module has class '" << member.className.getText() << "'";
    return diag;
  }
  bool shared = llvm::any_of(parents, [&](const ParentHits &hits) {
    return llvm::all_of(
        pattern.members, [&](const ModulePattern::Member &member) {
          return member.path.matchParent(hits.parent->getNames());
        });
  });
  if (shared)
    return success();
  InFlightDiagnostic diag =
      patternError(graph, pattern, RefusalKind::DifferentParents);
  diag << "no module is the parent of all members";
  for (auto [i, member] : llvm::enumerate(pattern.members))
    for (const ParentHits &hits : parents)
      if (!hits.children[i].empty()) {
        diag << (i ? ", " : "; ") << "'" << member.path.getText()
             << "' has parent '" << hits.parent->getPath() << "'";
        break;
      }
  return diag;
}

/// Checks that the kernel exists and runs on the target.
LogicalResult ModuleMatcher::checkKernel(const ModulePattern &pattern) {
  std::optional<KernelFamily> family = symbolizeKernelFamily(pattern.kernel);
  kernelIsGenerated = family.has_value();
  declaredKernel = {};
  if (kernelIsGenerated) {
    kernelReturnsIntermediates = returnsIntermediates(*family);
    return success();
  }
  for (KernelOp kernel : declarations.getKernels())
    if (kernel.getSymName() == pattern.kernel)
      declaredKernel = kernel;
  if (!declaredKernel) {
    InFlightDiagnostic diag =
        patternError(graph, pattern, RefusalKind::UnknownKernel);
    diag << "no kernel '" << pattern.kernel << "'; generated families are "
         << listFamilies();
    StringRef separator = "; declared are ";
    for (KernelOp kernel : declarations.getKernels()) {
      diag << separator << kernel.getSymName();
      separator = ", ";
    }
    declarations.noteOthers(diag);
    return diag;
  }
  kernelReturnsIntermediates = declaredKernel.getReturnsIntermediates();
  auto targets = declaredKernel.getTargets().getAsValueRange<StringAttr>();
  if (matching.target.empty() || llvm::is_contained(targets, matching.target))
    return success();
  return patternError(graph, pattern, RefusalKind::KernelNotForTarget)
         << "kernel '" << pattern.kernel << "' is not for target '"
         << matching.target << "'; it runs on " << llvm::join(targets, ", ");
}

//===----------------------------------------------------------------------===//
// Predicates of a site
//===----------------------------------------------------------------------===//

static bool refuse(ModuleSite &site, RefusalKind kind, Operation *at,
                   const Twine &detail) {
  site.refusal.emplace(kind, at);
  site.location = at->getLoc();
  site.detail = detail.str();
  return false;
}

/// Describes an op of a forward in messages.
static std::string describe(ModuleGraph &graph, Operation *op) {
  if (auto call = dyn_cast<CallModuleOp>(op))
    if (ModuleNode *callee = graph.getCallee(call))
      return "the call of '" + callee->getPath() + "'";
  return "'" + op->getName().getStringRef().str() + "'";
}

/// Extends the chain call by call: each is the first call that reads a result
/// of the previous one.
bool ModuleMatcher::followChain(
    ModuleSite &site, ArrayRef<SmallVector<ModuleNode *, 2>> allowed) {
  while (site.calls.size() < allowed.size()) {
    CallModuleOp last = site.calls.back();
    CallModuleOp next;
    Operation *other = nullptr;
    bool elsewhere = false;
    for (Operation *user : last->getUsers()) {
      auto call = dyn_cast<CallModuleOp>(user);
      ModuleNode *callee = call ? graph.getCallee(call) : nullptr;
      if (!callee || !llvm::is_contained(allowed[site.calls.size()], callee)) {
        other = user;
        continue;
      }
      if (call->getBlock() != last->getBlock()) {
        elsewhere = true;
        other = user;
        continue;
      }
      if (!next || call->isBeforeInBlock(next))
        next = call;
    }
    if (!next) {
      std::string path = site.members[site.calls.size() - 1]->getPath();
      if (elsewhere)
        return refuse(site, RefusalKind::MembersInDifferentBlocks, other,
                      describe(graph, other) + " is in another block");
      if (!other)
        return refuse(site, RefusalKind::NotAChain, last,
                      "the result of '" + path + "' is not used");
      return refuse(site, RefusalKind::NotAChain, other,
                    "the result of '" + path + "' goes to " +
                        describe(graph, other));
    }
    site.members[site.calls.size()] = graph.getCallee(next);
    site.calls.push_back(next);
  }
  if (site.calls.back()->getNumResults() == 0)
    return refuse(site, RefusalKind::NoResult, site.calls.back(),
                  "'" + site.members.back()->getPath() + "' has no results");
  return true;
}

/// Checks that intermediates are used only inside of the chain or can be
/// returned by the kernel, and that other inputs exist before the first call.
bool ModuleMatcher::checkUses(ModuleSite &site) {
  Operation *first = site.calls.front();
  Block *block = first->getBlock();
  int64_t position = 0;
  for (auto [i, call] : llvm::enumerate(site.calls)) {
    if (i + 1 < site.calls.size())
      for (Value result : call.getOutputs()) {
        Operation *outside = nullptr;
        for (Operation *user : result.getUsers())
          if (!llvm::is_contained(site.calls, dyn_cast<CallModuleOp>(user)))
            outside = user;
        if (outside && !kernelReturnsIntermediates)
          return refuse(site, RefusalKind::IntermediateHasOtherUsers, outside,
                        describe(graph, outside) + " uses the result of '" +
                            site.members[i]->getPath() + "', which kernel '" +
                            site.kernel + "' cannot return");
        if (outside)
          site.also.push_back(position);
        ++position;
      }
    for (Value arg : call.getArgs()) {
      Operation *def = arg.getDefiningOp();
      if (!def || def->getBlock() != block ||
          llvm::is_contained(site.calls, dyn_cast<CallModuleOp>(def)))
        continue;
      if (!def->isBeforeInBlock(first))
        return refuse(site, RefusalKind::SideInputMadeLater, def,
                      describe(graph, def) + " computes an input of '" +
                          site.members[i]->getPath() + "' after the call of '" +
                          site.members.front()->getPath() + "'");
    }
  }
  return true;
}

/// A parameter of `module` that is cut, or null.
static ParameterOp findShard(NetModuleOp module) {
  for (auto parameter : module.getBody().getOps<ParameterOp>())
    if (parameter.getShardAttr())
      return parameter;
  return {};
}

/// The reason why modules with these plans are not one generated kernel with at
/// most one sum over ranks at its end, or an empty string.
static std::string
getPlanProblem(StringRef kernel,
               ArrayRef<std::pair<ModuleNode *, TPAttr>> plans) {
  unsigned numRowwise = llvm::count_if(plans, [](auto &entry) {
    return entry.second.getKind() == TPKind::Rowwise;
  });
  unsigned numColwise = plans.size() - numRowwise;
  auto [fits, wanted] = [&]() -> std::pair<bool, StringRef> {
    switch (*symbolizeKernelFamily(kernel)) {
    case KernelFamily::GatedMLP:
      return {numColwise == 2 && numRowwise == 1, "2 and 1"};
    case KernelFamily::MLP:
      return {numColwise == 1 && numRowwise == 1, "1 and 1"};
    case KernelFamily::NormLinear:
      return {numRowwise == 0, "only colwise ones"};
    case KernelFamily::FusedLinear:
      return {plans.size() == 1, "one of them"};
    default:
      return {false, "none"};
    }
  }();
  if (!fits)
    return ("the members have " + Twine(numColwise) + " colwise and " +
            Twine(numRowwise) + " rowwise modules, kernel '" + kernel +
            "' needs " + wanted)
        .str();
  return "";
}

/// Checks that the members and the modules in them have no hooks, and that the
/// sum over ranks, if they are distributed, is the end of the kernel.
bool ModuleMatcher::checkMarks(ModuleSite &site) {
  SmallVector<std::pair<ModuleNode *, TPAttr>> plans;
  for (ModuleNode *member : site.members) {
    SmallVector<ModuleNode *> pending = {member};
    while (!pending.empty()) {
      ModuleNode *node = pending.pop_back_val();
      NetModuleOp module = node->getModule();
      if (ArrayAttr hooks = module.getHooksAttr(); hooks && !hooks.empty())
        return refuse(
            site, RefusalKind::HasHooks, module,
            "'" + node->getPath() + "' has hooks " +
                llvm::join(hooks.getAsValueRange<StringAttr>(), ", "));
      if (TPAttr plan = module.getTensorParallelAttr()) {
        if (plan.getKind() == TPKind::Unknown || !kernelIsGenerated)
          return refuse(site, RefusalKind::TensorParallel, module,
                        "'" + node->getPath() + "' is distributed as '" +
                            (plan.getKind() == TPKind::Unknown
                                 ? plan.getAxis().getValue()
                                 : stringifyTPKind(plan.getKind())) +
                            "'");
        plans.push_back({node, plan});
      } else if (ParameterOp parameter = findShard(module)) {
        return refuse(site, RefusalKind::ShardWithoutPlan, module,
                      "'" + getParameterName(parameter) +
                          "' is cut along axis '" +
                          parameter.getShardAttr().getAxis().getValue() +
                          "', '" + node->getPath() + "' has no plan");
      }
      llvm::append_range(pending, node->children);
    }
  }
  if (plans.empty())
    return true;
  auto [first, plan] = plans.front();
  for (auto [node, other] : plans)
    if (other.getAxis() != plan.getAxis())
      return refuse(site, RefusalKind::DifferentAxes, node->getModule(),
                    "'" + node->getPath() + "' is distributed along axis '" +
                        other.getAxis().getValue() + "', '" + first->getPath() +
                        "' along '" + plan.getAxis().getValue() + "'");
  if (std::string problem = getPlanProblem(site.kernel, plans);
      !problem.empty())
    return refuse(site, RefusalKind::ReductionInside, first->getModule(),
                  problem);
  return true;
}

/// Checks that the members are not part of another site and contain none. For a
/// generated kernel, every module that they call needs a body.
bool ModuleMatcher::checkBodies(ModuleSite &site) {
  auto alreadyFused = [&](Operation *at, ModuleNode *node) {
    return refuse(site, RefusalKind::AlreadyFused, at,
                  "'" + node->getPath() + "' belongs to another site");
  };
  for (ModuleNode *node = site.members.front()->parent; node;
       node = node->parent)
    if (claimedModules.contains(node))
      return alreadyFused(node->op, node);
  for (auto [member, call] : llvm::zip_equal(site.members, site.calls)) {
    if (claimedCalls.contains(call))
      return alreadyFused(call, member);
    // A set, so that a module that is called twice is visited once.
    llvm::SetVector<ModuleNode *> reached;
    reached.insert(member);
    for (unsigned i = 0; i < reached.size(); ++i) {
      ModuleNode *node = reached[i];
      if (node->isExternal) {
        if (kernelIsGenerated)
          return refuse(site, RefusalKind::MemberWithoutBody, node->op,
                        "'" + node->getPath() + "' is only declared");
        continue;
      }
      bool fused = node->hasFusedCalls;
      for (CallModuleOp inner : node->body) {
        fused |= claimedCalls.contains(inner);
        if (ModuleNode *callee = graph.getCallee(inner))
          reached.insert(callee);
      }
      if (fused)
        return alreadyFused(node->op, node);
    }
  }
  return true;
}

/// Checks that the members have the parameters that the kernel stores, and that
/// these can be restored from the stored weights.
bool ModuleMatcher::checkWeights(ModuleSite &site) {
  if (!declaredKernel || !declaredKernel.getWeightsAttr())
    return true;
  Operation *head = site.calls.front();
  SmallVector<NetModuleOp> members;
  for (ModuleNode *member : site.members)
    members.push_back(member->getModule());
  // Calls of the same members share their stored weights.
  StringRef prefix = StringRef(site.id).rsplit('#').first;
  for (auto wanted : declaredKernel.getWeightsAttr().getAsRange<RecipeAttr>()) {
    if (!wanted.isInvertible() && !wanted.getKeep())
      return refuse(site, RefusalKind::LossyLayout, head,
                    "kernel '" + site.kernel + "' stores '" +
                        wanted.getName().getValue() + "', a " +
                        stringifyRecipeKind(wanted.getKind()) +
                        " that rounds without 'keep'");
    RecipeOrProblem recipe = instantiate(
        wanted, prefix, getEnclosingModule(head), members, graph.getTables());
    if (auto *problem = std::get_if<std::string>(&recipe))
      return refuse(site, RefusalKind::LayoutDoesNotFit, head, *problem);
    site.weights.push_back(std::get<RecipeAttr>(recipe));
  }
  return true;
}

/// Collects the modules that `fuse.no_fuse` excludes. Fusing a module fuses its
/// descendants, so the ancestors of an excluded module are excluded too. The
/// descendants of an excluded module stay unfused as well.
LogicalResult ModuleMatcher::collectHeldBack() {
  if (heldBack)
    return success();
  heldBack.emplace();
  Operation *model = graph.getRoot()->op;
  auto globs = model->getAttrOfType<ArrayAttr>(kNoFuseAttrName);
  if (!globs)
    return success();
  auto fail = [&](const Twine &what) {
    return model->emitError() << "'" << kNoFuseAttrName << "': " << what;
  };
  for (StringRef text : globs.getAsValueRange<StringAttr>()) {
    llvm::Expected<PathGlob> glob = PathGlob::create(text);
    if (!glob)
      return fail(llvm::toString(glob.takeError()));
    bool matched = false;
    // A parent precedes its children in the list.
    llvm::DenseSet<const ModuleNode *> inside;
    for (ModuleNode &node : graph.getNodes()) {
      if (!node.parent)
        continue;
      if (glob->match(node.getNames())) {
        matched = true;
        inside.insert(&node);
        for (ModuleNode *around = node.parent; around; around = around->parent)
          heldBack->insert(around);
      } else if (inside.contains(node.parent)) {
        inside.insert(&node);
      }
    }
    if (!matched)
      return fail("no module matches path glob '" + text + "'");
    heldBack->insert(inside.begin(), inside.end());
  }
  return success();
}

void ModuleMatcher::claim(const ModuleSite &site) {
  for (auto [member, call] : llvm::zip_equal(site.members, site.calls)) {
    claimedModules.insert(member);
    claimedCalls.insert(call);
  }
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// The id `parent.norm+mlp`, with `?` for a missing member.
static std::string makeSiteId(const ModuleNode &parent,
                              ArrayRef<ModuleNode *> members) {
  std::string id = parent.getPath();
  if (!id.empty())
    id += ".";
  for (auto [i, member] : llvm::enumerate(members))
    id += (i ? "+" : "") + (member ? member->name.str() : "?");
  return id;
}

/// Whether an earlier run made `child` a member of a fused call.
static bool isFusedIn(ModuleNode &parent, const ModuleNode &child) {
  if (!parent.hasFusedCalls)
    return false;
  auto isMember = [&](FusedCallOp call) {
    auto members = call.getMembers().getAsRange<SymbolRefAttr>();
    bool isOne = llvm::any_of(members, [&](SymbolRefAttr member) {
      return member == FlatSymbolRefAttr::get(child.name);
    });
    return isOne ? WalkResult::interrupt() : WalkResult::advance();
  };
  return parent.forward->walk(isMember).wasInterrupted();
}

/// Appends all sites of one parent.
void ModuleMatcher::matchParent(const ModulePattern &pattern,
                                const ParentHits &hits,
                                std::vector<ModuleSite> &sites) {
  ModuleSite site;
  site.kernel = pattern.kernel;
  for (const auto &children : hits.children)
    site.members.push_back(children.empty() ? nullptr : children.front());
  site.id = makeSiteId(*hits.parent, site.members);
  auto refuseParent = [&](RefusalKind kind, Operation *at, const Twine &why) {
    refuse(site, kind, at, why);
    sites.push_back(std::move(site));
  };

  // All members are children of the parent.
  for (auto [i, member] : llvm::enumerate(pattern.members))
    if (!member.path.matchParent(hits.parent->getNames()))
      return refuseParent(RefusalKind::DifferentParents, hits.parent->op,
                          "'" + hits.parent->getPath() +
                              "' is not the parent of path '" +
                              member.path.getText() + "'");
  for (auto [i, member] : llvm::enumerate(pattern.members))
    if (hits.children[i].empty())
      return refuseParent(RefusalKind::ChildMissing, hits.parent->op,
                          "'" + hits.parent->getPath() +
                              "' has no child for path '" +
                              member.path.getText() + "'");

  // The members have the right classes.
  SmallVector<SmallVector<ModuleNode *, 2>> allowed;
  for (auto [i, member] : llvm::enumerate(pattern.members)) {
    allowed.emplace_back();
    for (ModuleNode *child : hits.children[i])
      if (member.className.matchChild(child->getModule().getClassName()))
        allowed.back().push_back(child);
    if (!allowed.back().empty())
      continue;
    ModuleNode *child = hits.children[i].front();
    return refuseParent(RefusalKind::ClassDiffers, child->op,
                        "'" + child->getPath() + "' has class '" +
                            child->getModule().getClassName() +
                            "', the pattern expects '" +
                            member.className.getText() + "'");
  }
  for (auto [i, children] : llvm::enumerate(allowed))
    site.members[i] = children.front();

  // The data flows along the calls.
  for (ModuleNode *head : allowed.front()) {
    ModuleSite start = site;
    start.members.front() = head;
    if (head->calls.empty()) {
      start.id = makeSiteId(*hits.parent, start.members);
      if (isFusedIn(*hits.parent, *head))
        refuse(start, RefusalKind::AlreadyFused, head->op,
               "'" + head->getPath() + "' belongs to another site");
      else
        refuse(start, RefusalKind::MemberNotCalled, head->op,
               "no forward calls '" + head->getPath() + "'");
      sites.push_back(std::move(start));
      continue;
    }
    unsigned number = 0;
    for (CallModuleOp call : head->calls) {
      ModuleSite chain = start;
      chain.calls.push_back(call);
      bool whole = followChain(chain, allowed);
      std::string prefix = makeSiteId(*hits.parent, chain.members) + "#";
      while (graph.isFused(prefix + std::to_string(number)))
        ++number;
      chain.id = prefix + std::to_string(number++);
      if (!whole) {
        sites.push_back(std::move(chain));
        continue;
      }
      if (llvm::is_contained(matching.disable, chain.id))
        refuse(chain, RefusalKind::Disabled, call, "'" + chain.id + "'");
      for (ModuleNode *member : chain.members)
        if (!chain.refusal && heldBack->contains(member))
          refuse(chain, RefusalKind::HeldBack, member->op,
                 "'" + member->getPath() + "' stays unfused");
      if (!chain.refusal && checkUses(chain) && checkMarks(chain) &&
          checkBodies(chain) && checkWeights(chain))
        claim(chain);
      sites.push_back(std::move(chain));
    }
  }
}

LogicalResult ModuleMatcher::match(const ModulePattern &pattern,
                                   std::vector<ModuleSite> &sites) {
  if (failed(collectHeldBack()))
    return failure();
  SmallVector<unsigned> counts(pattern.members.size());
  SmallVector<ParentHits, 0> parents;
  DenseMap<ModuleNode *, unsigned> parentIndex;
  for (ModuleNode &node : graph.getNodes()) {
    if (!node.parent)
      continue;
    SmallVector<StringRef, 6> names = node.getNames();
    for (auto [i, member] : llvm::enumerate(pattern.members)) {
      if (!member.path.match(names))
        continue;
      ++counts[i];
      auto [it, isNew] = parentIndex.try_emplace(node.parent, parents.size());
      if (isNew) {
        parents.emplace_back();
        parents.back().parent = node.parent;
        parents.back().children.resize(pattern.members.size());
      }
      parents[it->second].children[i].push_back(&node);
    }
  }
  if (failed(checkHits(pattern, parents, counts)) ||
      failed(checkKernel(pattern)))
    return failure();
  for (const ParentHits &hits : parents)
    matchParent(pattern, hits, sites);
  return success();
}
