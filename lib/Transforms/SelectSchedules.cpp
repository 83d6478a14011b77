//===- SelectSchedules.cpp - Choose schedules of fused ops ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/CostModel.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"

namespace fuse {
#define GEN_PASS_DEF_SELECTSCHEDULESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

#define DEBUG_TYPE "fuse-select-schedules"

namespace {
struct SelectSchedulesPass
    : fuse::impl::SelectSchedulesPassBase<SelectSchedulesPass> {
  using SelectSchedulesPassBase::SelectSchedulesPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    auto check = [&](StringRef name, int64_t value, int64_t most) {
      if (value >= 1 && value <= most)
        return success();
      emitError(UnknownLoc::get(context))
          << "fuse-select-schedules: " << name << " = " << value
          << " is not from 1 to " << most;
      return failure();
    };
    return success(succeeded(check("tokens", tokens, 128)) &&
                   succeeded(check("multiprocessors", multiprocessors, 65535)));
  }

  void runOnOperation() override {
    getOperation()->walk([&](FusedOpInterface op) { select(op); });
  }

  void select(Operation *op) {
    // A schedule in the text is the user's choice.
    if (op->hasAttr(tile::kScheduleAttrName))
      return;
    auto decline = [&](const Twine &reason) {
      remark::missed(op->getLoc(),
                     remark::RemarkOpts::name("schedule").category("codegen"))
          << remark::reason("{0}", reason.str())
          << remark::suggest("{0}", "the portable path takes this kernel");
      ++numDeclined;
    };
    std::string reason;
    std::optional<DecodeProblem> problem = describeDecode(op, reason);
    if (!problem)
      return decline(reason);
    GpuModel gpu;
    gpu.multiprocessors = multiprocessors;
    tile::ScheduleAttr schedule =
        selectDecode(*problem, problem->tokens.value_or(tokens), gpu);
    if (!schedule)
      return decline("no split of the second product keeps all blocks on " +
                     Twine(multiprocessors) + " multiprocessors");
    op->setAttr(tile::kScheduleAttrName, schedule);
    remark::passed(op->getLoc(),
                   remark::RemarkOpts::name("schedule").category("codegen"))
        << remark::metric("microseconds",
                          estimateDecode(*problem, schedule, gpu))
        << remark::metric("weight_bytes", problem->getWeightBytes());
    ++numSelected;
  }
};
} // namespace
