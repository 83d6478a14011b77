//===- SelectSchedules.cpp - Select schedules of fused ops ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A schedule comes from the first source that has one that fits: the text of
// the op, the table of measured schedules, the cost model. Without a schedule,
// the op stays unchanged, with a remark that states the reason. The portable
// path then lowers it.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/Refusal.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Schedule/MmaSchedule.h"
#include "fuse/Schedule/PrefillSchedule.h"
#include "fuse/Schedule/RowProblem.h"
#include "fuse/Schedule/ScheduleTable.h"
#include "fuse/Schedule/TokenRanges.h"
#include "fuse/Schedule/WeightViews.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace fuse {
#define GEN_PASS_DEF_SELECTSCHEDULESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

#define DEBUG_TYPE "fuse-select-schedules"

/// Why a plan cannot have the launches of a scheduled op, or an empty string. A
/// plan is a flat list, and its host packs weights before the first launch.
static std::string
getPlacementProblem(Operation *op, const std::optional<MlpProblem> &problem) {
  auto function = dyn_cast<func::FuncOp>(op->getParentOp());
  if (!function || !function.getBody().hasOneBlock())
    return "it is under control flow, and a plan is a list of launches";
  if (!problem)
    return "";
  SmallVector<Value> weights = {problem->gate, problem->up};
  for (const DecodeOutput &output : problem->outputs)
    weights.push_back(output.weight);
  for (Value weight : weights) {
    if (!weight)
      continue;
    WeightView view = getWeightView(weight);
    if (isViewOfArguments(view))
      continue;
    const auto *computed = llvm::find_if(view.boxes, [](const ViewBox &box) {
      return box.source.getDefiningOp();
    });
    const RefusalText &text = getText(RefusalKind::ComputedWeight);
    return (text.id + " " + text.name + ": operand " +
            Twine(llvm::find(op->getOperands(), weight) - op->operand_begin()) +
            " is a computed weight, and weights are packed before the first "
            "launch; it reads the result of '" +
            computed->source.getDefiningOp()->getName().getStringRef() + "'")
        .str();
  }
  return "";
}

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
    if (failed(check("tokens", tokens, tile::kMaxPrefillTokens)) ||
        failed(check("multiprocessors", multiprocessors, 65535)))
      return failure();
    FailureOr<Chip> known = lookupChip(chip, [&](const Twine &message) {
      return LogicalResult(emitError(UnknownLoc::get(context))
                           << "fuse-select-schedules: " << message);
    });
    if (failed(known))
      return failure();
    target = *known;
    if (table.empty())
      return success();
    std::string error;
    std::optional<ScheduleTable> read =
        ScheduleTable::read(table, chip, multiprocessors, context, error);
    if (!read)
      return emitError(UnknownLoc::get(context))
             << "fuse-select-schedules: " << error;
    measured = std::move(*read);
    return success();
  }

  void runOnOperation() override {
    getOperation()->walk([&](FusedOpInterface op) { select(op); });
  }

  /// Whether the kernels are those of Hopper.
  bool isHopper() const { return target->name == "sm_90a"; }

  /// Describes an op that is not a row op. If there is no kernel for it, sets
  /// `reason`.
  std::optional<MlpProblem> describe(Operation *op, std::string &reason) {
    return isHopper() ? describeDecode(op, reason) : describeMma(op, reason);
  }

  /// Removes a schedule in the text that the chip has no instructions for.
  void dropForeignSchedule(Operation *op) {
    Attribute schedule = op->getAttr(tile::kScheduleAttrName);
    if (!schedule || isHopper())
      return;
    bool isForeign =
        isa<tile::ScheduleAttr, tile::PrefillScheduleAttr>(schedule) ||
        (isa<tile::RowScheduleAttr>(schedule) && !target->hasFloat8);
    if (auto ranges = dyn_cast<tile::DispatchAttr>(schedule))
      isForeign = !llvm::all_of(ranges.getSchedules(),
                                llvm::IsaPred<tile::MmaScheduleAttr>);
    if (!isForeign)
      return;
    op->removeAttr(tile::kScheduleAttrName);
    remark::missed(op->getLoc(),
                   remark::RemarkOpts::name("schedule").category("codegen"))
        << remark::reason("the schedule in the text is not for {0}",
                          target->name)
        << remark::suggest("{0}", "another one is chosen");
  }

  void select(Operation *op) {
    std::string reason;
    GpuModel gpu;
    gpu.multiprocessors = multiprocessors;
    gpu.isHopper = isHopper();
    gpu.sharedBytes = target->sharedBytes;
    dropForeignSchedule(op);
    bool isChosen = op->hasAttr(tile::kScheduleAttrName);
    std::optional<MlpProblem> problem;
    bool isSupported;
    if (isRowOp(op)) {
      isSupported = describeRows(op, reason).has_value();
      if (isSupported && !target->hasFloat8) {
        isSupported = false;
        reason = (target->name + " has no conversions to 8-bit floats").str();
      }
    } else {
      problem = describe(op, reason);
      isSupported = problem.has_value();
    }
    if (!isSupported && !isChosen)
      return decline(op, reason);
    if (std::string why = getPlacementProblem(op, problem); !why.empty()) {
      op->emitWarning() << "gets no scheduled kernel: " << why;
      op->removeAttr(tile::kScheduleAttrName);
      return decline(op, why);
    }
    // A schedule in the text is the user's choice.
    if (isChosen)
      return;
    if (isRowOp(op)) {
      Attribute schedule;
      if (std::optional<ScheduleKey> key = getScheduleKey(op, tokens, reason))
        schedule = findMeasured(op, *key, tokens, gpu);
      if (!schedule)
        schedule = selectRows(*describeRows(op, reason), gpu);
      (void)accept(op, schedule);
      return;
    }
    if (!isHopper())
      selectMmaSchedule(*problem, gpu);
    else if (dispatch && !problem->tokens)
      selectForRanges(*problem, gpu);
    else
      selectForTokens(*problem, *getScheduleKey(op, tokens, reason), gpu);
  }

  /// Selects a schedule of mma kernels, or one for each of several ranges.
  void selectMmaSchedule(const MlpProblem &problem, const GpuModel &gpu) {
    Attribute schedule;
    auto find = [&](int64_t count) {
      std::string reason;
      return findMeasured(problem.op,
                          *getScheduleKey(problem.op, count, reason, gpu),
                          count, gpu);
    };
    if (dispatch && !problem.tokens)
      schedule =
          selectMmaRanges(problem, tokens, gpu, target->sharedBytes, find);
    else
      schedule = find(tokens);
    if (!schedule)
      schedule = selectMma(problem, problem.tokens.value_or(tokens), gpu,
                           target->sharedBytes);
    if (!schedule)
      return decline(problem.op, Twine(problem.tokens.value_or(tokens)) +
                                     " tokens make more elements than 32 bits "
                                     "count");
    accept(problem.op, schedule)
        << remark::metric("weight_bytes", problem.getWeightBytes());
  }

  /// Selects one schedule for each of several ranges of token counts.
  void selectForRanges(const MlpProblem &problem, const GpuModel &gpu) {
    Operation *op = problem.op;
    auto ranges = selectRanges(problem, tokens, gpu, [&](int64_t bound) {
      std::string reason;
      return findMeasured(op, *getScheduleKey(op, bound, reason), bound, gpu);
    });
    if (!ranges && problem.quant)
      return decline(op, "no split of the second product keeps all blocks on " +
                             Twine(multiprocessors) + " multiprocessors");
    if (!ranges)
      return decline(op,
                     "a single token makes more elements than 32 bits count");
    accept(op, ranges) << remark::metric("ranges", ranges.getBounds().size())
                       << remark::metric("tokens", ranges.getBounds().back())
                       << remark::metric("weight_bytes",
                                         problem.getWeightBytes());
  }

  /// Selects one schedule for the op's number of tokens, or for the option's if
  /// the op's is dynamic.
  void selectForTokens(const MlpProblem &problem, const ScheduleKey &key,
                       const GpuModel &gpu) {
    Operation *op = problem.op;
    int64_t count = problem.tokens.value_or(tokens);
    if (std::string why = getTokensProblem(problem, count); !why.empty())
      return decline(op, why);
    Attribute schedule = findMeasured(op, key, tokens, gpu);
    if (!schedule)
      schedule = selectProducts(problem, count, gpu);
    if (!schedule && count > kMaxWholeTokens)
      return decline(op, Twine(count) +
                             " tokens make more elements than 32 bits count");
    if (!schedule)
      return decline(op, "no split of the second product keeps all blocks on " +
                             Twine(multiprocessors) + " multiprocessors");
    double time = estimateProducts(problem, schedule, count, gpu);
    accept(op, schedule) << remark::metric("microseconds", time)
                         << remark::metric("weight_bytes",
                                           problem.getWeightBytes());
  }

  /// Sets the schedule of `op`. The caller may add to the remark.
  remark::detail::InFlightRemark accept(Operation *op, Attribute schedule) {
    op->setAttr(tile::kScheduleAttrName, schedule);
    ++numSelected;
    return remark::passed(
        op->getLoc(), remark::RemarkOpts::name("schedule").category("codegen"));
  }

  void decline(Operation *op, const Twine &reason) {
    remark::missed(op->getLoc(),
                   remark::RemarkOpts::name("schedule").category("codegen"))
        << remark::reason("{0}", reason.str())
        << remark::suggest("{0}", "the portable path compiles this kernel");
    ++numDeclined;
  }

  /// The schedule in the table, or null if it has none that fits.
  Attribute findMeasured(Operation *op, const ScheduleKey &key, int64_t count,
                         const GpuModel &gpu) {
    Attribute schedule = measured.find(key);
    if (!schedule)
      return {};
    std::string reason = getScheduleProblem(op, schedule, count, gpu);
    if (reason.empty())
      return schedule;
    remark::missed(
        op->getLoc(),
        remark::RemarkOpts::name("schedule-table").category("codegen"))
        << remark::reason("the schedule in '{0}' does not fit: {1}",
                          table.getValue(), reason)
        << remark::suggest("{0}", "measure again with fuse-tune");
    return {};
  }

  ScheduleTable measured;
  std::optional<Chip> target;
};
} // namespace
