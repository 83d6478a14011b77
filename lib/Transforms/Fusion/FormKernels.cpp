//===- FormKernels.cpp - Replace chains of layer ops by fused ops ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// First, all sites are matched without changing the IR, activations before
// norms, so that an MLP includes the norm before it, and linears last. A
// function between linears that is not an activation is a site, too, which is
// always refused. Then the matches of a block are replaced from the first to
// the last; unfusing reverses this order.
//
//===----------------------------------------------------------------------===//

#include "FormGroups.h"
#include "KernelFromChain.h"
#include "fuse/Analysis/ChainMatch.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

namespace fuse {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

#define DEBUG_TYPE "fuse-form-kernels"

//===----------------------------------------------------------------------===//
// Sites
//===----------------------------------------------------------------------===//

namespace {

struct Site {
  Operation *op;
  FunctionOpInterface function;
  unsigned number = 0;
  /// Created on demand: about half of the sites of a model are members of the
  /// kernel of another site and need no id.
  StringAttr id = {};
  std::optional<ChainMatch> match = std::nullopt;
  std::optional<Refusal> refusal = std::nullopt;

  StringAttr getId() {
    if (!id)
      id = makeId(function, number);
    return id;
  }
  static StringAttr makeId(FunctionOpInterface function, unsigned number) {
    return StringAttr::get(function->getContext(),
                           function.getName() + "#" + Twine(number));
  }
};

} // namespace

static remark::RemarkOpts getRemarkOpts(Site &site) {
  return remark::RemarkOpts::name(site.getId().getValue())
      .category("fuse")
      .subCategory(DEBUG_TYPE);
}

static void remarkRefused(Site &site) {
  if (!site.op->getContext()->getRemarkEngine())
    return;
  const RefusalText &text = getText(site.refusal->kind);
  remark::missed(site.op->getLoc(), getRemarkOpts(site))
      << remark::reason("{0} {1}: {2}", text.id.str(), text.name.str(),
                        text.reason.str())
      << remark::metric("At", site.refusal->at.getStringRef())
      << remark::suggest("{0}", text.suggestion.str());
}

static void remarkFused(Site &site, Location loc) {
  if (!loc->getContext()->getRemarkEngine())
    return;
  std::string members = llvm::join(
      llvm::map_range(site.match->members,
                      [](const ChainMatch::Member &member) {
                        return stringifyChainMember(member.name).str();
                      }),
      ", ");
  remark::passed(loc, getRemarkOpts(site))
      << remark::metric("Family", stringifyKernelFamily(site.match->family))
      << remark::metric("Members", members);
  if (std::optional<Refusal> limit = site.match->limit) {
    const RefusalText &text = getText(limit->kind);
    remark::analysis(loc, getRemarkOpts(site))
        << remark::add("a larger kernel stopped at {0}: {1} {2}: {3}",
                       limit->at.getStringRef().str(), text.id.str(),
                       text.name.str(), text.reason.str());
  }
}

/// Matches every site of `function`, activations first.
static SmallVector<Site, 0> matchSites(FunctionOpInterface function,
                                       const KernelFormation &formation) {
  SmallVector<Site, 0> sites;
  // Existing kernels keep their ids, which are not assigned again.
  DenseSet<Attribute> taken;
  function->walk([&](FusedOpInterface op) { taken.insert(op.getSiteAttr()); });
  SmallVector<LinearOp> linears;
  unsigned number = 0;
  auto getNextNumber = [&] {
    while (!taken.empty() && taken.contains(Site::makeId(function, number)))
      ++number;
    return number++;
  };
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    // Nested functions are visited by their own pass instance.
    if (op != function && isa<FunctionOpInterface, GroupOp>(op))
      return WalkResult::skip();
    // The ops that a kernel replaced were numbered, too.
    if (auto kernel = dyn_cast<FusedOpInterface>(op))
      number += bool(kernel.getNormAttr()) + bool(kernel.getActivationAttr());
    if (isa<ActivationOp, RMSNormOp, LayerNormOp>(op))
      sites.push_back({op, function, getNextNumber()});
    if (auto linear = dyn_cast<LinearOp>(op))
      linears.push_back(linear);
    return WalkResult::advance();
  });
  ChainMatcher matcher;
  // Members of the kernels matched so far.
  DenseSet<Operation *> members;
  // Linears of disabled sites, which are no sites of their own.
  DenseSet<Operation *> disabled;
  auto matchOne = [&](Site &site) {
    if (members.contains(site.op))
      return;
    MatchOrRefusal result =
        llvm::TypeSwitch<Operation *, MatchOrRefusal>(site.op)
            .Case<ActivationOp, RMSNormOp, LayerNormOp>(
                [&](auto op) { return matcher.matchAt(op); });
    if (!formation.disable.empty() &&
        llvm::is_contained(formation.disable, site.getId().getValue())) {
      site.refusal = Refusal{RefusalKind::Disabled, site.op};
      if (auto *match = std::get_if<ChainMatch>(&result))
        disabled.insert_range(match->linears);
      return;
    }
    if (auto *refusal = std::get_if<Refusal>(&result)) {
      site.refusal = *refusal;
      return;
    }
    ChainMatch &match = std::get<ChainMatch>(result);
    if (!formation.families.empty() &&
        !llvm::is_contained(formation.families,
                            stringifyKernelFamily(match.family).str())) {
      site.refusal = Refusal{RefusalKind::FamilyNotRequested, site.op};
      return;
    }
    matcher.claim(match);
    for (const ChainMatch::Member &member : match.members)
      members.insert(member.op);
    site.match = std::move(match);
  };
  for (Site &site : sites)
    if (isa<ActivationOp>(site.op))
      matchOne(site);
  for (Site &site : sites)
    if (!isa<ActivationOp>(site.op))
      matchOne(site);
  // Linears that no other kernel has.
  SmallVector<Site, 0> alone;
  for (LinearOp linear : linears)
    if (std::optional<ChainMatch> match = disabled.contains(linear)
                                              ? std::nullopt
                                              : matcher.matchAt(linear)) {
      Site site{linear, function};
      site.match = std::move(*match);
      matcher.claim(*site.match);
      alone.push_back(std::move(site));
    }
  DenseSet<Operation *> unknown;
  for (LinearOp linear : linears) {
    auto refused = matcher.refuseUnknown(linear);
    // The last ids, so that the ids of other sites do not depend on raising.
    if (refused && unknown.insert(refused->first).second)
      sites.push_back(
          {refused->first, function, getNextNumber(), {}, {}, refused->second});
  }
  for (Site &site : alone) {
    site.number = getNextNumber();
    if (llvm::is_contained(formation.disable, site.getId().getValue()))
      site.refusal = Refusal{RefusalKind::Disabled, site.op};
    else if (!formation.families.empty() &&
             !llvm::is_contained(
                 formation.families,
                 stringifyKernelFamily(KernelFamily::FusedLinear)))
      site.refusal = Refusal{RefusalKind::FamilyNotRequested, site.op};
    if (site.refusal)
      site.match.reset();
    sites.push_back(std::move(site));
  }
  return sites;
}

/// Replaces the chain of a site. Refuses the site if the kernel's decomposition
/// is not that chain.
static bool replaceChain(Site &site, RoundingMode mode,
                         const KernelFormation &formation) {
  ChainMatch &match = *site.match;
  if (Operation *user = match.getUserBeforeAnchor()) {
    site.refusal = Refusal{RefusalKind::ResultUsedBeforeOperands, user};
    return false;
  }
  FusedOpInterface kernel = createKernelFromChain(match, mode, site.getId());
  if (!kernel) {
    site.refusal = Refusal{RefusalKind::NotReversible, match.anchor};
    return false;
  }
  if (formation.onFused)
    formation.onFused(site.getId(), kernel);
  else
    remarkFused(site, kernel->getLoc());
  for (auto [value, result] :
       llvm::zip_equal(match.getResults(), kernel->getResults()))
    value.replaceAllUsesWith(result);
  // Members are now used only by other members.
  for (const ChainMatch::Member &member : match.members)
    member.op->dropAllUses();
  for (const ChainMatch::Member &member : match.members)
    member.op->erase();
  return true;
}

/// Adds the ops that unfusing `kernel` relies on: the kernel, and the ops in
/// the range of its former members.
static void collectOccupied(Operation *kernel, ProvenanceAttr provenance,
                            DenseSet<Operation *> &occupied) {
  occupied.insert(kernel);
  if (!provenance || provenance.getPlaces().empty())
    return;
  ArrayRef<int64_t> places = provenance.getPlaces();
  int64_t before = provenance.getBefore();
  int64_t after = *llvm::max_element(places) + 1 -
                  static_cast<int64_t>(places.size()) - before;
  Operation *op = kernel;
  for (; before > 0 && (op = op->getPrevNode()); --before)
    occupied.insert(op);
  op = kernel;
  for (; after > 0 && (op = op->getNextNode()); --after)
    occupied.insert(op);
}

/// The first op from the first to the last member of `match` that is in
/// `occupied`, or null.
static Operation *findOverlap(ChainMatch &match,
                              const DenseSet<Operation *> &occupied) {
  if (occupied.empty())
    return nullptr;
  Operation *first = match.anchor, *last = match.anchor;
  for (const ChainMatch::Member &member : match.members) {
    if (member.op->isBeforeInBlock(first))
      first = member.op;
    if (last->isBeforeInBlock(member.op))
      last = member.op;
  }
  for (Operation *op = first; op != last->getNextNode(); op = op->getNextNode())
    if (occupied.contains(op))
      return op;
  return nullptr;
}

/// Checks that the options name existing families, roundings and sites.
static LogicalResult verifyOptions(FunctionOpInterface function,
                                   const KernelFormation &formation,
                                   MutableArrayRef<Site> sites) {
  static constexpr KernelFamily all[] = {
      KernelFamily::GatedMLP,     KernelFamily::MLP,
      KernelFamily::NormLinear,   KernelFamily::FusedLinear,
      KernelFamily::NormQuantize, KernelFamily::ActQuantize};
  for (StringRef family : formation.families)
    if (llvm::none_of(all, [&](KernelFamily known) {
          return stringifyKernelFamily(known) == family;
        })) {
      InFlightDiagnostic diag = function.emitError();
      diag << "unknown family '" << family << "'; expected one of ";
      llvm::interleaveComma(all, diag, [&](KernelFamily known) {
        diag << stringifyKernelFamily(known);
      });
      return diag;
    }
  if (!symbolizeRoundingMode(formation.rounding))
    return function.emitError() << "unknown rounding '" << formation.rounding
                                << "'; expected one of exact, relaxed";
  for (StringRef id : formation.disable) {
    auto [name, number] = id.rsplit('#');
    if (name != function.getName() ||
        llvm::any_of(sites, [&](Site &site) { return site.getId() == id; }))
      continue;
    InFlightDiagnostic diag = function.emitError();
    diag << "no site '" << id << "' to disable; '" << function.getName()
         << "' has " << sites.size() << " sites";
    if (!sites.empty())
      diag << ", " << sites.front().getId() << " to " << sites.back().getId();
    return diag;
  }
  return success();
}

FailureOr<KernelFormationCounts>
fuse::formKernels(FunctionOpInterface function,
                  const KernelFormation &formation) {
  bool isGroup = function->hasAttr(kGroupAttrName);
  SmallVector<Site, 0> sites;
  if (isGroup)
    sites.push_back({function, function, 0, getGroupSite(function)});
  else
    sites = matchSites(function, formation);
  if (failed(verifyOptions(function, formation, sites)))
    return failure();
  RoundingMode mode = *symbolizeRoundingMode(formation.rounding);
  // The members of a group always keep their roundings.
  if (isGroup)
    return formGroup(function, formation,
                     RoundingAttr::getExact(function->getContext()));
  llvm::MapVector<Block *, SmallVector<Site *>> matched;
  for (Site &site : sites)
    if (site.match)
      matched[site.match->anchor->getBlock()].push_back(&site);
  // Unfusing goes from the last kernel of a block to the first. Kernels of an
  // earlier run do not follow this order, so new kernels must not overlap them.
  DenseSet<Operation *> occupied;
  function->walk([&](FusedOpInterface kernel) {
    collectOccupied(kernel, kernel.getProvenanceAttr(), occupied);
  });
  KernelFormationCounts counts;
  for (auto &[block, order] : matched) {
    llvm::sort(order, [](Site *a, Site *b) {
      return a->match->anchor->isBeforeInBlock(b->match->anchor);
    });
    for (Site *site : order) {
      if (Operation *op = findOverlap(*site->match, occupied))
        site->refusal = Refusal{RefusalKind::OverlapsKernel, op};
      else
        counts.fused += replaceChain(*site, mode, formation);
    }
  }
  for (Site &site : sites)
    if (site.refusal) {
      if (formation.onRefusal)
        formation.onRefusal(site.getId(), *site.refusal, site.op->getLoc(),
                            site.op);
      else
        remarkRefused(site);
      ++counts.refused;
    }
  return counts;
}

namespace {

struct FormKernels : fuse::impl::FormKernelsPassBase<FormKernels> {
  using Base::Base;

  void runOnOperation() override {
    KernelFormation formation{families, rounding, disable};
    FailureOr<KernelFormationCounts> counts =
        formKernels(getOperation(), formation);
    if (failed(counts))
      return signalPassFailure();
    numFused += counts->fused;
    numRefused += counts->refused;
  }
};

} // namespace
