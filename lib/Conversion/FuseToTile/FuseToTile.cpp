//===- FuseToTile.cpp - Lower fused ops to tile kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/FuseToTile/FuseToTile.h"

#include "DecodeKernel.h"
#include "RowKernel.h"
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

/// Kernels of one module are the same when only their names differ.
static bool isSameKernel(tile::KernelOp lhs, tile::KernelOp rhs) {
  return lhs.getFunctionType() == rhs.getFunctionType() &&
         lhs.getBlocks() == rhs.getBlocks() &&
         lhs.getThreads() == rhs.getThreads() &&
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
    FailureOr<SmallVector<PlannedKernel>> kernels =
        takesRows(op) ? buildRows(op) : buildDecode(op);
    if (failed(kernels))
      return failure();
    gpu::GPUModuleOp module = getModule();
    OpBuilder builder(op);
    LaunchOp launch;
    for (auto [index, planned] : llvm::enumerate(*kernels)) {
      tile::KernelOp kernel = share(planned.kernel, module);
      auto symbol =
          SymbolRefAttr::get(module.getSymNameAttr(),
                             FlatSymbolRefAttr::get(kernel.getSymNameAttr()));
      // The last launch has the results.
      bool last = index + 1 == kernels->size();
      launch =
          LaunchOp::create(builder, op->getLoc(),
                           last ? TypeRange(op->getResultTypes()) : TypeRange(),
                           symbol, op->getOperands(), planned.plan);
    }
    remark::passed(op->getLoc(),
                   remark::RemarkOpts::name("tile-kernel").category("codegen"))
        << "kernel " << launch.getKernel().getLeafReference();
    op->replaceAllUsesWith(launch);
    op->erase();
    ++numConverted;
    return success();
  }

  /// The schedule of an op, of the kind that its family has.
  template <typename AttrT>
  FailureOr<AttrT> getSchedule(Operation *op, StringRef expected) {
    Attribute attr = op->getAttr(kScheduleAttrName);
    if (auto schedule = dyn_cast<AttrT>(attr))
      return schedule;
    op->emitOpError() << "has " << kScheduleAttrName << " = " << attr
                      << ": expected " << expected;
    return failure();
  }

  FailureOr<SmallVector<PlannedKernel>> buildDecode(Operation *op) {
    auto schedule = getSchedule<ScheduleAttr>(op, "#tile.schedule");
    if (failed(schedule))
      return failure();
    std::string reason;
    std::optional<DecodeProblem> problem = describeDecode(op, reason);
    if (!problem)
      return op->emitOpError() << "has a schedule, but " << reason;
    reason = getScheduleProblem(*problem, *schedule);
    if (!reason.empty())
      return op->emitOpError() << "does not fit its schedule: " << reason;
    return buildDecodeKernels(*problem, *schedule, getModule(),
                              [&] { return getKernelName(op, "decode"); });
  }

  FailureOr<SmallVector<PlannedKernel>> buildRows(Operation *op) {
    auto schedule = getSchedule<RowScheduleAttr>(op, "#tile.row_schedule");
    if (failed(schedule))
      return failure();
    std::string reason;
    std::optional<RowProblem> problem = describeRows(op, reason);
    if (!problem)
      return op->emitOpError() << "has a schedule, but " << reason;
    return SmallVector<PlannedKernel>{buildRowKernel(
        *problem, *schedule, getModule(), getKernelName(op, "rows"))};
  }

  /// The kernel that does the same as `kernel`, which is erased then.
  tile::KernelOp share(tile::KernelOp kernel, gpu::GPUModuleOp module) {
    for (auto other : module.getOps<tile::KernelOp>())
      if (other != kernel && isSameKernel(other, kernel)) {
        kernel.erase();
        ++numShared;
        return other;
      }
    return kernel;
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

  std::string getKernelName(Operation *op, StringRef kind) {
    StringRef family = op->getName().stripDialect();
    for (unsigned index = 0;; ++index) {
      std::string name = (family + "_" + kind + "_" + Twine(index)).str();
      if (!getModule().lookupSymbol(name))
        return name;
    }
  }

  gpu::GPUModuleOp gpuModule;
};
} // namespace
