//===- MapStages.cpp - Choose the mapping of graphs of stages -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/Chip.h"
#include "fuse/Schedule/StageGraph.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"

namespace fuse {
#define GEN_PASS_DEF_MAPSTAGESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {
struct MapStagesPass : fuse::impl::MapStagesPassBase<MapStagesPass> {
  using MapStagesPassBase::MapStagesPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    auto report = [&](const Twine &message) {
      return LogicalResult(emitError(UnknownLoc::get(context))
                           << "fuse-map-stages: " << message);
    };
    auto check = [&](StringRef name, int64_t value, int64_t most) {
      if (value >= 1 && value <= most)
        return success();
      return report(name + " = " + Twine(value) + " is not from 1 to " +
                    Twine(most));
    };
    if (failed(check("tokens", tokens, tile::kMaxPrefillTokens)) ||
        failed(check("multiprocessors", multiprocessors, 65535)))
      return failure();
    FailureOr<Chip> known = lookupChip(chip, report);
    if (failed(known))
      return failure();
    target = *known;
    return success();
  }

  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](stage::GraphOp graph) {
      return WalkResult(graph.getMapping() ? verifyMapping(graph) : map(graph));
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult verifyMapping(stage::GraphOp graph) {
    std::string reason;
    std::optional<MlpProblem> problem = describeMma(graph, reason);
    if (!problem)
      return graph.emitOpError() << "has a mapping, but " << reason;
    return failure(failed(getMappedSchedule(graph, *problem)));
  }

  LogicalResult map(stage::GraphOp graph) {
    std::string reason;
    std::optional<MlpProblem> problem = describeMma(graph, reason);
    if (problem)
      for (Operation &op : graph.getBody().front())
        if (isa<stage::ReduceOp>(op))
          reason = "its slices have no mapping in the text";
    tile::MmaScheduleAttr schedule;
    if (reason.empty()) {
      GpuModel gpu;
      gpu.multiprocessors = multiprocessors;
      int64_t count = problem->tokens.value_or(tokens);
      schedule = selectMma(*problem, count, gpu, target->sharedBytes);
      if (!schedule)
        reason =
            (Twine(count) + " tokens make more elements than 32 bits count")
                .str();
    }
    if (!schedule) {
      decline(graph, reason);
      return success();
    }
    mapGraph(graph, *problem, schedule);
    ++numMapped;
    return success();
  }

  void decline(Operation *op, StringRef reason) {
    ++numDeclined;
    remark::missed(op->getLoc(),
                   remark::RemarkOpts::name("mapping").category("codegen"))
        << remark::reason("{0}", reason.str())
        << remark::suggest("{0}", "the portable path compiles this graph");
  }

  std::optional<Chip> target;
};
} // namespace
