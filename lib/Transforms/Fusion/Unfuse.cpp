//===- Unfuse.cpp - Replace fused ops by their chains ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of a block are formed from the first to the last and unfused from
// the last to the first. Each kernel therefore finds the block in the state
// that its forming left, and `places` restores the position of every member.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/PathGlob.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace fuse {
#define GEN_PASS_DEF_UNFUSEPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

/// Moves members to their places in `provenance`. `kernel` is still in the
/// block and marks its own position.
static void placeMembers(Operation *kernel, ArrayRef<Operation *> members,
                         ProvenanceAttr provenance) {
  // The ops between the members that are not members and still exist.
  ArrayRef<int64_t> places = provenance.getPlaces();
  int64_t numOthers =
      *llvm::max_element(places) + 1 - static_cast<int64_t>(places.size());
  SmallVector<Operation *> others;
  Operation *first = members.front();
  for (int64_t i = 0; i < provenance.getBefore() && first->getPrevNode(); ++i)
    others.push_back(first = first->getPrevNode());
  std::reverse(others.begin(), others.end());
  int64_t numBefore = others.size();
  Operation *last = kernel;
  for (int64_t i = provenance.getBefore(); i < numOthers; ++i) {
    Operation *next = last->getNextNode();
    if (!next || next->hasTrait<OpTrait::IsTerminator>())
      break;
    others.push_back(last = next);
  }

  // Computed before any move, so that members moved there stay in order.
  Block *block = kernel->getBlock();
  Block::iterator end = std::next(last->getIterator());
  SmallVector<unsigned> order =
      llvm::to_vector(llvm::seq<unsigned>(0, members.size()));
  llvm::sort(order,
             [&](unsigned a, unsigned b) { return places[a] < places[b]; });
  for (auto [rank, index] : llvm::enumerate(order)) {
    // Number of other ops before this member.
    int64_t before = places[index] - static_cast<int64_t>(rank);
    if (before < numBefore)
      members[index]->moveBefore(others[before]);
    else if (before == numBefore || others.empty())
      members[index]->moveBefore(kernel);
    else if (before < static_cast<int64_t>(others.size()))
      members[index]->moveBefore(others[before]);
    else
      members[index]->moveBefore(block, end);
  }
}

/// Whether every member is after its operands and before its users.
static bool isPlacedRight(ArrayRef<Operation *> members) {
  for (Operation *member : members) {
    Block *block = member->getBlock();
    for (Value operand : member->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (def && def->getBlock() == block && !def->isBeforeInBlock(member))
        return false;
    }
    for (Operation *user : member->getUsers()) {
      Operation *inBlock = block->findAncestorOpInBlock(*user);
      if (inBlock && !member->isBeforeInBlock(inBlock))
        return false;
    }
  }
  return true;
}

/// Unfuses one kernel. Returns whether its members are in their former places.
static bool unfuseOne(FusedOpInterface op) {
  Operation *kernel = op;
  OpBuilder builder(kernel);
  Decomposition chain = op.decompose(builder);
  ProvenanceAttr provenance = op.getProvenanceAttr();
  kernel->replaceAllUsesWith(chain.results);
  bool placed = true;
  if (provenance && !provenance.getPlaces().empty()) {
    placed = provenance.getPlaces().size() == chain.members.size();
    if (placed) {
      placeMembers(kernel, chain.members, provenance);
      placed = isPlacedRight(chain.members);
    }
    if (!placed)
      for (Operation *member : chain.members)
        member->moveBefore(kernel);
  }
  kernel->erase();
  return placed;
}

namespace {

/// The kernels and fused calls to unfuse, by site or path. Records the existing
/// sites for messages.
class Selection {
public:
  Selection(ArrayRef<std::string> sites, ArrayRef<std::string> paths)
      : sites(sites), paths(paths) {
    for (StringRef site : sites)
      wanted.insert(site);
  }

  LogicalResult parsePaths(Operation *root);
  bool isWhole() const { return sites.empty() && paths.empty(); }
  /// Whether sites are selected by path, which needs their origins.
  bool hasPaths() const { return !paths.empty(); }
  /// Whether to unfuse a site whose members are the modules in `origins`.
  bool contains(StringAttr site, ArrayRef<StringRef> origins);
  /// Checks that every selected site and path exists.
  LogicalResult verify(Operation *root) const;

private:
  ArrayRef<std::string> sites, paths;
  llvm::StringSet<> wanted;
  std::vector<PathGlob> globs;
  SmallVector<bool> globMatched;
  SmallVector<StringRef> known;
};

} // namespace

LogicalResult Selection::parsePaths(Operation *root) {
  for (StringRef text : paths) {
    llvm::Expected<PathGlob> glob = PathGlob::create(text);
    if (!glob)
      return root->emitError(llvm::toString(glob.takeError()));
    globs.push_back(std::move(*glob));
  }
  globMatched.resize(globs.size());
  return success();
}

bool Selection::contains(StringAttr site, ArrayRef<StringRef> origins) {
  if (site)
    known.push_back(site.getValue());
  bool selected = isWhole() || (site && wanted.contains(site.getValue()));
  for (unsigned i = 0; i < globs.size(); ++i)
    if (llvm::any_of(origins,
                     [&](StringRef path) { return globs[i].match(path); }))
      selected = globMatched[i] = true;
  return selected;
}

LogicalResult Selection::verify(Operation *root) const {
  auto fail = [&](const Twine &what) -> LogicalResult {
    // Keeps the message short in a model with thousands of sites.
    constexpr size_t maxNames = 32;
    InFlightDiagnostic diag = root->emitError(what);
    if (known.empty())
      return diag << "; there are no fused ops with a site";
    diag << "; expected one of ";
    llvm::interleaveComma(ArrayRef(known).take_front(maxNames), diag);
    if (known.size() > maxNames)
      diag << " and " << known.size() - maxNames << " more";
    return diag;
  };
  for (StringRef site : sites)
    if (!llvm::is_contained(known, site))
      return fail("no fused op has site '" + site + "'");
  for (auto [i, glob] : llvm::enumerate(globs))
    if (!globMatched[i])
      return fail("no member of a fused site matches path glob '" +
                  glob.getText() + "'");
  return success();
}

/// Paths of the members of a fused call and of the modules in them. These are
/// also the origins of its kernel, so one path selects both.
static SmallVector<std::string> getMemberPaths(FusedCallOp call,
                                               SymbolTableCollection &tables) {
  SmallVector<std::string> paths;
  for (auto member : call.getMembers().getAsRange<SymbolRefAttr>())
    lookupModule(tables, call, member).walk([&](NetModuleOp module) {
      paths.push_back(getModulePath(module));
    });
  return paths;
}

FailureOr<UnfuseCounts> fuse::unfuse(Operation *root,
                                     ArrayRef<std::string> sites,
                                     ArrayRef<std::string> paths) {
  if (!sites.empty())
    makeSitesUnique(root);
  SmallVector<FusedOpInterface> ops;
  SmallVector<FusedCallOp> calls;
  Selection selection(sites, paths);
  if (failed(selection.parsePaths(root)))
    return failure();
  UnfuseCounts counts;
  SymbolTableCollection tables;
  llvm::SetVector<Operation *> bodies;
  auto undo = [&](Operation *function) {
    counts.unfused += ops.size() + calls.size();
    // Post-order visits a block from its first op to its last. Bodies of fused
    // calls are erased, so they need no unfusing.
    if (!bodies.contains(function))
      for (FusedOpInterface op : llvm::reverse(ops))
        counts.displaced += !unfuseOne(op);
    unfuseCalls(calls, tables, bodies);
    ops.clear();
    calls.clear();
  };
  // Without a selection, no site can be missing, so each function is unfused
  // right after its walk.
  bool isWhole = selection.isWhole();
  root->walk([&](Operation *op) {
    if (auto kernel = dyn_cast<FusedOpInterface>(op)) {
      SmallVector<StringRef> origins;
      if (ArrayAttr attr = kernel.getOriginsAttr();
          attr && selection.hasPaths())
        llvm::append_range(origins, attr.getAsValueRange<StringAttr>());
      if (selection.contains(kernel.getSiteAttr(), origins))
        ops.push_back(kernel);
    } else if (auto call = dyn_cast<FusedCallOp>(op)) {
      SmallVector<std::string> members;
      if (selection.hasPaths())
        members = getMemberPaths(call, tables);
      SmallVector<StringRef> origins(members.begin(), members.end());
      if (selection.contains(call.getSiteAttr(), origins))
        calls.push_back(call);
    } else if (isWhole && !(ops.empty() && calls.empty()) &&
               isa<FunctionOpInterface>(op)) {
      undo(op);
    }
  });
  if (failed(selection.verify(root)))
    return failure();
  undo(nullptr);
  for (Operation *body : bodies)
    body->erase();
  if (isWhole)
    for (ModelOp model : findModels(root))
      model->removeAttr(kRefusalsAttrName);
  return counts;
}

namespace {

struct Unfuse : fuse::impl::UnfusePassBase<Unfuse> {
  using Base::Base;

  void runOnOperation() override {
    std::vector<std::string> wanted(sites.begin(), sites.end());
    std::vector<std::string> globs(paths.begin(), paths.end());
    FailureOr<UnfuseCounts> counts = unfuse(getOperation(), wanted, globs);
    if (failed(counts))
      return signalPassFailure();
    numUnfused += counts->unfused;
    numDisplaced += counts->displaced;
  }
};

} // namespace
