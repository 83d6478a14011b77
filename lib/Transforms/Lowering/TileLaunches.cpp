//===- TileLaunches.cpp - Scheduled ops in launch plans -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileLaunches.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Workspaces
//===----------------------------------------------------------------------===//

WorkspaceParts::WorkspaceParts(tile::PlanAttr plan, int64_t zeroedAt)
    : zeroedAt(zeroedAt), zeroed(plan.getZeroedBytes()),
      fixed(plan.getWorkspaceBytes() - zeroed), matrices(plan.getMatrices()) {
  // The matrices are at the end of the workspace.
  if (!matrices.empty())
    fixed = matrices.front().getOffset() - zeroed;
}

SmallVector<AffineExpr> WorkspaceParts::getSizes(AffineExpr tokens) const {
  SmallVector<AffineExpr> sizes = {
      getAffineConstantExpr(fixed, tokens.getContext())};
  for (tile::TokenMatrixAttr matrix : matrices)
    sizes.push_back(tokens.ceilDiv(matrix.getMultiple()) *
                    (matrix.getMultiple() * matrix.getRowBytes()));
  return sizes;
}

std::pair<size_t, int64_t> WorkspaceParts::getPlace(int64_t offset) const {
  if (offset < zeroed)
    return {0, zeroedAt + offset};
  for (auto [index, matrix] : llvm::enumerate(matrices))
    if (offset == matrix.getOffset())
      return {2 + index, 0};
  return {1, offset - zeroed};
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Adds a launch to the last range of `op`.
static LogicalResult addLaunch(tile::LaunchOp launch, TileOp &op) {
  auto &launches = op.ranges.back().launches;
  if (!launch.getPlan())
    return launch.emitOpError("has no plan");
  if (!launch.hasPureBufferSemantics())
    return launch.emitOpError("is on tensors: expected buffers, as "
                              "bufferization makes them");
  if (launch.getInputs().empty() ||
      cast<MemRefType>(launch.getInputs()[0].getType()).getRank() == 0)
    return launch.emitOpError("has no input with a row for each token");
  if (launch.sharesWorkspace() == launches.empty())
    return launch.emitOpError(
        launches.empty() ? "shares the workspace of a launch, but none "
                           "precedes it"
                         : "does not share the workspace of the "
                           "previous launch of its range");
  launches.push_back(launch);
  return success();
}

static LogicalResult addDispatch(tile::DispatchOp dispatch, TileOp &op) {
  for (auto [bound, region] :
       llvm::zip_equal(dispatch.getBounds(), dispatch.getRanges())) {
    op.ranges.push_back({bound, {}, std::nullopt});
    for (auto launch : region.getOps<tile::LaunchOp>())
      if (failed(addLaunch(launch, op)))
        return failure();
    if (op.ranges.back().launches.empty())
      return dispatch.emitOpError()
             << "has no launch for up to " << bound << " tokens";
  }
  return success();
}

namespace {

/// Collects the steps of a function.
class StepCollector {
public:
  LogicalResult collect(Block &block);
  std::vector<HostStep> steps;

private:
  LogicalResult collect(scf::IfOp branch);
  LogicalResult add(tile::LaunchOp launch);

  SmallVector<HostBranch> branches;
};

} // namespace

LogicalResult StepCollector::collect(scf::IfOp branch) {
  for (bool value : {true, false}) {
    Region &region = value ? branch.getThenRegion() : branch.getElseRegion();
    if (region.empty())
      continue;
    branches.push_back({branch.getCondition(), value});
    LogicalResult collected = collect(region.front());
    branches.pop_back();
    if (failed(collected))
      return failure();
  }
  return success();
}

LogicalResult StepCollector::add(tile::LaunchOp launch) {
  bool continues = launch.sharesWorkspace() && !steps.empty() &&
                   steps.back().tile && !steps.back().tile->isDispatch;
  if (!continues) {
    steps.push_back({{}, TileOp{launch.getLoc(), {}, {}, {}, false}, branches});
    steps.back().tile->ranges.push_back({0, {}, std::nullopt});
  }
  TileOp &tile = *steps.back().tile;
  if (failed(addLaunch(launch, tile)))
    return failure();
  tile.rows = launch.getInputs()[0];
  tile.ranges.back().upTo = launch.getPlan()->getMaxTokens();
  return success();
}

LogicalResult StepCollector::collect(Block &block) {
  for (Operation &op : block) {
    if (auto launch = dyn_cast<gpu::LaunchFuncOp>(op)) {
      steps.push_back({launch, std::nullopt, branches});
    } else if (auto dispatch = dyn_cast<tile::DispatchOp>(op)) {
      steps.push_back({{},
                       TileOp{op.getLoc(), dispatch.getTokens(), {}, {}, true},
                       branches});
      if (failed(addDispatch(dispatch, *steps.back().tile)))
        return failure();
    } else if (auto launch = dyn_cast<tile::LaunchOp>(op)) {
      if (failed(add(launch)))
        return failure();
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      if (failed(collect(branch)))
        return failure();
    }
  }
  return success();
}

/// Whether only branches are around an op.
static bool isUnderBranches(Operation *op, func::FuncOp function) {
  while (isa<scf::IfOp>(op->getParentOp()))
    op = op->getParentOp();
  return op->getParentOp() == function;
}

FailureOr<std::vector<HostStep>> fuse::getHostSteps(func::FuncOp function) {
  // A plan is a flat list.
  WalkResult flow = function.walk([&](Operation *op) {
    if (!isa<gpu::LaunchFuncOp, tile::LaunchOp, tile::DispatchOp>(op))
      return WalkResult::advance();
    if (isa<tile::LaunchOp>(op) && isa<tile::DispatchOp>(op->getParentOp()))
      op = op->getParentOp();
    if (isUnderBranches(op, function) && function.getBody().hasOneBlock())
      return WalkResult::advance();
    op->emitOpError("is under control flow, which a plan does not have");
    return WalkResult::interrupt();
  });
  if (flow.wasInterrupted())
    return failure();
  StepCollector collector;
  if (failed(collector.collect(function.front())))
    return failure();
  return std::move(collector.steps);
}
