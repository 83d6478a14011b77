//===- RandomSchedules.cpp - Schedules that nobody would choose -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random modules are small, and the compiler chooses a few schedules for all of
// them. A schedule in the text is taken as it is, so that random ones reach
// kernels in two parts, rings of any depth and grids of any size.
//
//===----------------------------------------------------------------------===//

#include "RandomSchedules.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Schedule/ScheduleTable.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace fuse;

/// How often a schedule is drawn until one fits.
static constexpr unsigned kAttempts = 400;

/// A number from `least` on, one of `count`.
static int64_t from(Random &random, int64_t least, uint64_t count) {
  return least + int64_t(random.below(count));
}

/// A decode schedule for `tokens` tokens that may fit nothing.
static Attribute drawDecode(Location loc, Random &random, int64_t tokens,
                            bool deferred) {
  MLIRContext *context = loc.getContext();
  // One after the other: arguments of a call have no order.
  tokens = llvm::alignTo(tokens, 8);
  if (random.percent(30))
    tokens += from(random, 0, 4) * 8;
  bool isSwapped =
      !deferred && tokens > 64 && tokens <= 128 && random.percent(40);
  bool isHalf = !isSwapped && (deferred || tokens > 128 || random.percent(40));
  bool isQuarters = !isSwapped && !isHalf && random.percent(30);
  int64_t firstRows = isHalf ? 128 : isQuarters ? 192 : 256;
  if (isSwapped)
    firstRows = 32 * from(random, 1, 8);
  int64_t rows = firstRows < 256 || random.percent(50) ? 128 : 256;
  int64_t blocks = from(random, 1, 132);
  int64_t split = random.percent(50) ? 1 : from(random, 1, 8);
  int64_t weightStages = from(random, 2, firstRows < 256 ? 8 : 4);
  int64_t tokenStages = from(random, 2, 7);
  int64_t inFlight = from(random, 0, weightStages + 1);
  int64_t behind = 0;
  if (inFlight > 0 && inFlight < weightStages && random.percent(30))
    behind = from(random, inFlight + 1, weightStages - inFlight);
  int64_t ahead = random.oneOf<int64_t>({0, 4, 8, 64});
  bool polled = random.percent(50);
  bool staged = deferred || isQuarters || (!isSwapped && random.percent(50));
  bool dependent = random.percent(50);
  auto hint =
      random.oneOf({tile::CachePolicy::Normal, tile::CachePolicy::EvictFirst});
  int64_t launches =
      deferred || isQuarters || isSwapped ? 1 : from(random, 1, 2);
  bool settles = inFlight > 1 && !deferred && launches == 1;
  int64_t settle = settles ? random.oneOf<int64_t>({0, 2, 64}) : 0;
  int64_t settleTo = settle > 0 ? from(random, 0, inFlight - 1) : 0;
  int64_t adders = random.percent(50) ? from(random, 0, split) : 0;
  Type partials = Float32Type::get(context);
  return tile::ScheduleAttr::getChecked(
      [&] { return emitError(loc); }, context, tokens, blocks, split, firstRows,
      rows, weightStages, tokenStages, inFlight, behind, ahead, settle,
      settleTo, adders, partials, polled, staged, deferred, isSwapped, hint,
      dependent, launches);
}

/// A schedule for many tokens that may fit nothing.
static Attribute drawPrefill(Location loc, Random &random, int64_t tokens) {
  bool isJoint = random.percent(40), dependent = random.percent(50);
  int64_t cluster = from(random, 1, 2);
  int64_t blocks = cluster * from(random, 1, 66);
  int64_t split = random.percent(50) ? 1 : from(random, 2, 7);
  int64_t rows = isJoint || random.percent(50) ? 256 : 128;
  int64_t stages = from(random, 2, 3), launches = isJoint ? 1 : 2;
  int64_t group = random.oneOf<int64_t>({1, 4, 16, 32});
  bool isEven = isJoint && random.percent(50);
  bool isUnequal =
      isJoint && !isEven && split > 1 && cluster == 1 && random.percent(50);
  return tile::PrefillScheduleAttr::getChecked(
      [&] { return emitError(loc); }, loc.getContext(), tokens, blocks, split,
      rows, stages, group, cluster, launches, isEven, isUnequal, dependent);
}

/// A schedule of either kind for up to `tokens` tokens, or null.
static Attribute draw(Operation *op, Random &random, int64_t tokens) {
  // What does not fit is dropped, and is nobody's error.
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) {});
  GpuModel gpu;
  bool isPrefill = tokens > 256 || random.percent(tokens > 128 ? 40 : 15);
  // Few of those in two parts fit.
  bool deferred = random.percent(85);
  for (unsigned i = 0; i < kAttempts; ++i) {
    Attribute schedule = isPrefill ? drawPrefill(op->getLoc(), random, tokens)
                                   : drawDecode(op->getLoc(), random, tokens,
                                                deferred && i < kAttempts / 2);
    if (schedule && getScheduleProblem(op, schedule, tokens, gpu).empty())
      return schedule;
  }
  return {};
}

llvm::SmallVector<int64_t>
fuse::attachRandomSchedules(ModuleOp module, Random &random, int64_t tokens) {
  SmallVector<int64_t> turns = {1, tokens};
  Operation *fused = nullptr;
  module->walk([&](FusedOpInterface op) { fused = op; });
  std::string reason;
  std::optional<ScheduleKey> key;
  if (fused)
    key = getScheduleKey(fused, tokens, reason);
  if (!key || isa<NormQuantizeOp, ActQuantizeOp>(fused))
    return turns;
  auto x = cast<RankedTensorType>(fused->getOperand(0).getType());
  ArrayRef<int64_t> leading = x.getShape().drop_back();
  bool isDynamic = llvm::any_of(leading, ShapedType::isDynamic);
  if (!isDynamic) {
    tokens = 1;
    for (int64_t size : leading)
      tokens *= size;
    turns.clear();
  }
  if (random.percent(25)) {
    if (isDynamic)
      turns.append(
          {8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 192, 193, 256, 257});
    return turns;
  }
  if (!isDynamic) {
    if (Attribute schedule = draw(fused, random, tokens))
      fused->setAttr(tile::kScheduleAttrName, schedule);
    return turns;
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
    schedules.push_back(draw(fused, random, bound));
    if (!schedules.back())
      return turns;
    turns.append({bound, std::min(bound + 1, tokens)});
  }
  fused->setAttr(
      tile::kScheduleAttrName,
      tile::DispatchAttr::get(module.getContext(), bounds, schedules));
  return turns;
}
