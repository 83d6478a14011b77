//===- Unfuse.cpp - Replace fused ops by their chains ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of one block are undone from the last to the first. They were formed
// from the first to the last, so each finds the block as its forming left it,
// and `places` lead every member back to where it stood.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseOps.h"
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

/// Moves members to where `provenance` says they stood. `kernel` still stands
/// where the kernel is.
static void placeMembers(Operation *kernel, ArrayRef<Operation *> members,
                         ProvenanceAttr provenance) {
  // The ops of the stretch that are no members, as far as they still exist.
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

  // Fixed now, so that members which go there follow each other.
  Block *block = kernel->getBlock();
  Block::iterator end = std::next(last->getIterator());
  SmallVector<unsigned> order =
      llvm::to_vector(llvm::seq<unsigned>(0, members.size()));
  llvm::sort(order,
             [&](unsigned a, unsigned b) { return places[a] < places[b]; });
  for (auto [rank, index] : llvm::enumerate(order)) {
    // So many of the others stand before this member.
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

/// Whether every member stands behind its operands and before its users.
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

/// Undoes one kernel. Returns whether its members stand where they stood.
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

FailureOr<UnfuseCounts> fuse::unfuse(Operation *root,
                                     ArrayRef<std::string> sites) {
  SmallVector<FusedOpInterface> ops;
  SmallVector<StringRef> known;
  llvm::StringSet<> wanted;
  for (StringRef site : sites)
    wanted.insert(site);
  root->walk([&](FusedOpInterface op) {
    StringAttr site = op.getSiteAttr();
    if (site)
      known.push_back(site.getValue());
    if (sites.empty() || (site && wanted.contains(site.getValue())))
      ops.push_back(op);
  });
  for (StringRef site : sites)
    if (!llvm::is_contained(known, site)) {
      InFlightDiagnostic diag = root->emitError();
      diag << "no fused op has site '" << site << "'; ";
      if (known.empty())
        return diag << "there are no fused ops with a site", failure();
      diag << "expected one of ";
      llvm::interleaveComma(known, diag);
      return failure();
    }
  UnfuseCounts counts;
  // Post-order visits a block from its first op to its last.
  for (FusedOpInterface op : llvm::reverse(ops)) {
    ++counts.unfused;
    if (!unfuseOne(op))
      ++counts.displaced;
  }
  return counts;
}

namespace {

struct Unfuse : fuse::impl::UnfusePassBase<Unfuse> {
  using Base::Base;

  void runOnOperation() override {
    std::vector<std::string> wanted(sites.begin(), sites.end());
    FailureOr<UnfuseCounts> counts = unfuse(getOperation(), wanted);
    if (failed(counts))
      return signalPassFailure();
    numUnfused += counts->unfused;
    numDisplaced += counts->displaced;
  }
};

} // namespace
