//===- FuseToTile.cpp - Lower fused ops to tile kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/FuseToTile/FuseToTile.h"

#include "DecodeKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"

namespace fuse {
#define GEN_PASS_DEF_CONVERTFUSETOTILEPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;
using namespace tile;

#define DEBUG_TYPE "convert-fuse-to-tile"

/// Whether `schedule` can be the schedule of `problem`, or why not.
static std::string getProblem(const DecodeProblem &problem,
                              ScheduleAttr schedule) {
  DecodeTiling tiling(problem, schedule);
  int64_t units = tiling.tiles2 * tiling.ranges;
  if (units > schedule.getBlocks())
    return ("the second product has " + Twine(units) + " units for " +
            Twine(schedule.getBlocks()) + " blocks")
        .str();
  if (problem.tokens && *problem.tokens > schedule.getTokens())
    return ("the schedule is for " + Twine(schedule.getTokens()) +
            " tokens, the op has " + Twine(*problem.tokens))
        .str();
  if (schedule.getPartials().isBF16() &&
      problem.rounding.getMode() == RoundingMode::Exact)
    return "partial sums in bf16 are not in the exact contract";
  return "";
}

/// Kernels of one module are the same when only their names differ.
static bool isSameKernel(tile::KernelOp lhs, tile::KernelOp rhs) {
  return lhs.getFunctionType() == rhs.getFunctionType() &&
         lhs.getBlocks() == rhs.getBlocks() &&
         lhs.getSharedBytes() == rhs.getSharedBytes() &&
         OperationEquivalence::isRegionEquivalentTo(
             &lhs.getBody(), &rhs.getBody(),
             OperationEquivalence::IgnoreLocations);
}

namespace {
struct ConvertFuseToTilePass
    : fuse::impl::ConvertFuseToTilePassBase<ConvertFuseToTilePass> {
  using ConvertFuseToTilePassBase::ConvertFuseToTilePassBase;

  void runOnOperation() override {
    SmallVector<Operation *> scheduled;
    getOperation().walk([&](Operation *op) {
      if (op->hasAttr(kScheduleAttrName))
        scheduled.push_back(op);
    });
    for (Operation *op : scheduled)
      if (failed(convert(op)))
        return signalPassFailure();
  }

  LogicalResult convert(Operation *op) {
    auto schedule = dyn_cast<ScheduleAttr>(op->getAttr(kScheduleAttrName));
    if (!schedule)
      return op->emitOpError()
             << "has " << kScheduleAttrName << " = "
             << op->getAttr(kScheduleAttrName) << ": expected #tile.schedule";
    std::string reason;
    std::optional<DecodeProblem> problem = describeDecode(op, reason);
    if (!problem)
      return op->emitOpError() << "has a schedule, but " << reason;
    reason = getProblem(*problem, schedule);
    if (!reason.empty())
      return op->emitOpError() << "does not fit its schedule: " << reason;

    gpu::GPUModuleOp module = getModule();
    auto [kernel, plan] = buildDecodeKernel(*problem, schedule, module,
                                            getKernelName(op, module));
    for (auto other : module.getOps<tile::KernelOp>())
      if (other != kernel && isSameKernel(other, kernel)) {
        kernel.erase();
        kernel = other;
        ++numShared;
        break;
      }
    OpBuilder builder(op);
    auto symbol =
        SymbolRefAttr::get(module.getSymNameAttr(),
                           FlatSymbolRefAttr::get(kernel.getSymNameAttr()));
    auto launch = LaunchOp::create(builder, op->getLoc(), op->getResultTypes(),
                                   symbol, op->getOperands(), plan);
    remark::passed(op->getLoc(),
                   remark::RemarkOpts::name("tile-kernel").category("codegen"))
        << "decode kernel " << kernel.getSymName();
    op->replaceAllUsesWith(launch);
    op->erase();
    ++numConverted;
    return success();
  }

  /// The gpu.module of this pass, made when the first kernel needs it.
  gpu::GPUModuleOp getModule() {
    if (gpuModule)
      return gpuModule;
    SymbolTable symbols(getOperation());
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    gpuModule =
        gpu::GPUModuleOp::create(builder, getOperation().getLoc(), moduleName);
    symbols.insert(gpuModule);
    return gpuModule;
  }

  std::string getKernelName(Operation *op, gpu::GPUModuleOp module) {
    StringRef family = op->getName().stripDialect();
    for (unsigned index = 0;; ++index) {
      std::string name = (family + "_decode_" + Twine(index)).str();
      if (!module.lookupSymbol(name))
        return name;
    }
  }

  gpu::GPUModuleOp gpuModule;
};
} // namespace
