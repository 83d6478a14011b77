//===- TokenRanges.cpp - Schedules by the number of tokens ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/TokenRanges.h"

using namespace mlir;
using namespace fuse;

/// Upper bounds of the ranges with decode schedules, in tokens.
static constexpr int64_t kDecodeBounds[] = {8, 16, 32, 64, 128, 192, 256};

/// Maximum ratio of a schedule's expected time to the best one, within one
/// token range. A lower ratio is within the error of the model and adds kernels
/// without a gain. Up to eight token tiles, one more tile is a large part of
/// the time, so the ratio is lower.
static double getTolerance(int64_t tokens) {
  return tokens <= 8 * kTokenTile ? 1.01 : 1.05;
}

/// Maximum number of tokens at which 32 bits can count the elements of any
/// matrix.
static int64_t getMostTokens(const MlpProblem &problem) {
  int64_t widest = std::max(problem.width, problem.hidden);
  for (const DecodeOutput &output : problem.outputs)
    widest = std::max(widest, output.rows);
  return std::numeric_limits<int32_t>::max() / widest;
}

tile::DispatchAttr fuse::selectRanges(const MlpProblem &problem, int64_t tokens,
                                      const GpuModel &gpu,
                                      FindMeasured measured) {
  tokens = std::min(tokens, getMostTokens(problem));
  // There is no prefill kernel with measured scales. A host passes more tokens
  // in several calls.
  if (problem.quant)
    tokens = std::min(tokens, kMaxWholeTokens);
  SmallVector<int64_t> bounds;
  SmallVector<Attribute> schedules;
  auto append = [&](int64_t bound, Attribute schedule) {
    bounds.push_back(bound);
    schedules.push_back(schedule);
  };
  for (int64_t bound : kDecodeBounds) {
    if (!bounds.empty() && bounds.back() >= tokens)
      break;
    bound = std::min(bound, tokens);
    Attribute schedule = measured(bound);
    if (!schedule)
      schedule = selectProducts(problem, bound, gpu);
    // Prefill schedules follow if there are more outputs than blocks, or if
    // they are faster.
    if (!isa_and_nonnull<tile::ScheduleAttr>(schedule))
      break;
    append(bound, schedule);
  }

  if (problem.quant && bounds.empty())
    return {};

  // The number of token tiles determines the time, so ranges end at whole
  // tiles.
  tile::PrefillScheduleAttr current;
  int64_t end = bounds.empty() ? 0 : bounds.back();
  auto finish = [&](int64_t bound) {
    if (!current)
      return;
    Attribute schedule = measured(bound);
    append(bound, schedule ? schedule : withTokens(current, bound));
  };
  while (end < tokens) {
    int64_t next =
        std::min<int64_t>(llvm::alignTo(end + 1, kTokenTile), tokens);
    tile::PrefillScheduleAttr best = selectPrefill(problem, next, gpu);
    if (!best)
      return {};
    bool goesOn = false;
    if (current) {
      auto same = withTokens(current, next);
      goesOn =
          getScheduleProblem(problem, same).empty() &&
          comparePrefill(problem, same, best, next, gpu) <= getTolerance(next);
    }
    if (!goesOn) {
      finish(end);
      current = best;
    }
    end = next;
  }
  finish(end);
  if (bounds.empty())
    return {};
  return tile::DispatchAttr::get(problem.op->getContext(), bounds, schedules);
}
