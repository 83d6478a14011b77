//===- RandomSchedules.cpp - Random valid schedules -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random modules are small, and the compiler chooses the same few schedules for
// all of them. Schedules written in the text are used unchanged. Random ones
// thus reach kernels with a deferred epilogue, rings of any depth and grids of
// any size.
//
//===----------------------------------------------------------------------===//

#include "RandomSchedules.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Schedule/MmaSchedule.h"
#include "fuse/Schedule/ScheduleTable.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace fuse;

/// Maximum number of attempts to draw a schedule that fits.
static constexpr unsigned kAttempts = 400;

/// A random number from `least` to `least + count - 1`.
static int64_t from(Random &random, int64_t least, uint64_t count) {
  return least + int64_t(random.below(count));
}

/// A decode schedule for `tokens` tokens, which may not fit.
static Attribute drawDecode(Location loc, Random &random, int64_t tokens,
                            bool deferredEpilogue) {
  MLIRContext *context = loc.getContext();
  // Draw one number at a time: the evaluation order of arguments is
  // unspecified.
  tokens = llvm::alignTo(tokens, 8);
  if (random.percent(30))
    tokens += from(random, 0, 4) * 8;
  bool isSwapped =
      !deferredEpilogue && tokens > 64 && tokens <= 128 && random.percent(40);
  bool isHalf =
      !isSwapped && (deferredEpilogue || tokens > 128 || random.percent(40));
  bool isQuarters = !isSwapped && !isHalf && random.percent(30);
  int64_t gemm1TileM = isHalf ? 128 : isQuarters ? 192 : 256;
  if (isSwapped)
    gemm1TileM = 32 * from(random, 1, 8);
  int64_t rows = gemm1TileM < 256 || random.percent(50) ? 128 : 256;
  int64_t blocks = from(random, 1, 132);
  int64_t splitK = random.percent(50) ? 1 : from(random, 1, 8);
  int64_t weightStages = from(random, 2, gemm1TileM < 256 ? 8 : 4);
  int64_t tokenStages = from(random, 2, 7);
  int64_t maxInFlight = from(random, 0, weightStages + 1);
  int64_t stragglerInFlight = 0;
  if (maxInFlight > 0 && maxInFlight < weightStages && random.percent(30))
    stragglerInFlight =
        from(random, maxInFlight + 1, weightStages - maxInFlight);
  int64_t l2PrefetchStages = random.oneOf<int64_t>({0, 4, 8, 64});
  bool taggedPartials = random.percent(50);
  bool smemEpilogue =
      deferredEpilogue || isQuarters || (!isSwapped && random.percent(50));
  bool dependent = random.percent(50);
  auto hint =
      random.oneOf({tile::CachePolicy::Normal, tile::CachePolicy::EvictFirst});
  bool canThrottle = maxInFlight > 1 && !deferredEpilogue;
  int64_t publishThrottleStages =
      canThrottle ? random.oneOf<int64_t>({0, 2, 64}) : 0;
  int64_t publishInFlight =
      publishThrottleStages > 0 ? from(random, 0, maxInFlight - 1) : 0;
  int64_t reducers = random.percent(50) ? from(random, 0, splitK) : 0;
  Type partials = Float32Type::get(context);
  return tile::ScheduleAttr::getChecked(
      [&] { return emitError(loc); }, context, tokens, blocks, splitK,
      gemm1TileM, rows, weightStages, tokenStages, maxInFlight,
      stragglerInFlight, l2PrefetchStages, publishThrottleStages,
      publishInFlight, reducers, partials, taggedPartials, smemEpilogue,
      deferredEpilogue, isSwapped, hint, dependent);
}

/// A prefill schedule, which may not fit.
static Attribute drawPrefill(Location loc, Random &random, int64_t tokens) {
  bool isJoint = random.percent(40), dependent = random.percent(50);
  int64_t cluster = from(random, 1, 2);
  int64_t blocks = cluster * from(random, 1, 66);
  int64_t splitK = random.percent(50) ? 1 : from(random, 2, 7);
  int64_t rows = isJoint || random.percent(50) ? 256 : 128;
  int64_t stages = from(random, 2, 3), launches = isJoint ? 1 : 2;
  int64_t group = random.oneOf<int64_t>({1, 4, 16, 32});
  bool isEven = isJoint && random.percent(50);
  bool isUnequal =
      isJoint && !isEven && splitK > 1 && cluster == 1 && random.percent(50);
  return tile::PrefillScheduleAttr::getChecked(
      [&] { return emitError(loc); }, loc.getContext(), tokens, blocks, splitK,
      rows, stages, group, cluster, launches, isEven, isUnequal, dependent);
}

/// A schedule of mma kernels, which may not fit.
static Attribute drawMma(Location loc, Random &random, int64_t tokens) {
  int64_t tokenTile = 8 * from(random, 1, 16), blocks = from(random, 1, 132);
  int64_t splitK = random.percent(50) ? 1 : from(random, 2, 7);
  int64_t gemm1TileM = kQuarterRows * from(random, 1, 4);
  int64_t gemm2TileM = kQuarterRows * from(random, 1, 4);
  int64_t stages = from(random, 2, 5);
  int64_t group = random.oneOf<int64_t>({1, 2, 16});
  int64_t launches = tokens <= tokenTile && random.percent(50) ? int64_t(1) : 3;
  return tile::MmaScheduleAttr::getChecked(
      [&] { return emitError(loc); }, loc.getContext(), tokens, tokenTile,
      blocks, splitK, gemm1TileM, gemm2TileM, stages, group, launches);
}

/// A schedule of mma kernels for up to `tokens` tokens, or null.
static Attribute drawMma(const MlpProblem &problem, Random &random,
                         int64_t tokens, const Chip &chip) {
  // Sums over rows use static shared memory.
  constexpr int64_t reserved = 2048;
  for (unsigned i = 0; i < kAttempts; ++i) {
    auto schedule = cast_or_null<tile::MmaScheduleAttr>(
        drawMma(problem.op->getLoc(), random, tokens));
    if (schedule && schedule.getSharedBytes() + reserved <= chip.sharedBytes &&
        getScheduleProblem(problem, schedule).empty())
      return schedule;
  }
  return {};
}

/// A schedule for up to `tokens` tokens, or null.
static Attribute draw(Operation *op, Random &random, int64_t tokens,
                      const Chip &chip) {
  // Drop schedules that do not fit without an error.
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) {});
  if (chip.name != "sm_90a") {
    std::string reason;
    std::optional<MlpProblem> problem = describeMma(op, reason);
    return problem ? drawMma(*problem, random, tokens, chip) : Attribute();
  }
  GpuModel gpu;
  bool isPrefill = tokens > 256 || random.percent(tokens > 128 ? 40 : 15);
  // Few schedules with a deferred epilogue fit, so half of the attempts try it.
  bool deferredEpilogue = random.percent(85);
  for (unsigned i = 0; i < kAttempts; ++i) {
    Attribute schedule =
        isPrefill ? drawPrefill(op->getLoc(), random, tokens)
                  : drawDecode(op->getLoc(), random, tokens,
                               deferredEpilogue && i < kAttempts / 2);
    if (schedule && getScheduleProblem(op, schedule, tokens, gpu).empty())
      return schedule;
  }
  return {};
}

llvm::SmallVector<int64_t> fuse::attachRandomSchedules(ModuleOp module,
                                                       Random &random,
                                                       int64_t tokens,
                                                       const Chip &chip) {
  SmallVector<int64_t> boundaries = {1, tokens};
  Operation *fused = nullptr;
  module->walk([&](FusedOpInterface op) { fused = op; });
  std::string reason;
  std::optional<ScheduleKey> key;
  if (fused)
    key = getScheduleKey(fused, tokens, reason);
  if (!key || isa<NormQuantizeOp, ActQuantizeOp>(fused))
    return boundaries;
  auto x = cast<RankedTensorType>(fused->getOperand(0).getType());
  ArrayRef<int64_t> leading = x.getShape().drop_back();
  bool isDynamic = llvm::any_of(leading, ShapedType::isDynamic);
  if (!isDynamic) {
    tokens = 1;
    for (int64_t size : leading)
      tokens *= size;
    boundaries.clear();
  }
  if (random.percent(25)) {
    if (isDynamic)
      boundaries.append(
          {8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 192, 193, 256, 257});
    return boundaries;
  }
  if (!isDynamic) {
    if (Attribute schedule = draw(fused, random, tokens, chip))
      fused->setAttr(tile::kScheduleAttrName, schedule);
    return boundaries;
  }
  SmallVector<int64_t> bounds;
  for (unsigned i = random.below(3) + 1; i > 0; --i)
    bounds.push_back(random.percent(50) ? from(random, 1, 32) * 8
                                        : from(random, 1, 256));
  bounds.push_back(tokens);
  llvm::sort(bounds);
  bounds.erase(llvm::unique(bounds), bounds.end());
  SmallVector<Attribute> schedules;
  for (int64_t bound : bounds) {
    schedules.push_back(draw(fused, random, bound, chip));
    if (!schedules.back())
      return boundaries;
    boundaries.append({bound, std::min(bound + 1, tokens)});
  }
  fused->setAttr(
      tile::kScheduleAttrName,
      tile::DispatchAttr::get(module.getContext(), bounds, schedules));
  return boundaries;
}
