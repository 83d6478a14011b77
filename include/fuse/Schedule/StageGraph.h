//===- StageGraph.h - Graphs of stages and their mapping --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_STAGEGRAPH_H
#define FUSE_SCHEDULE_STAGEGRAPH_H

#include "fuse/Analysis/Refusal.h"
#include "fuse/Schedule/MmaSchedule.h"
#include "stage/IR/StageOps.h"

namespace fuse {

/// Builds the unmapped graph of a fused op at the insertion point. Its operands
/// are those of the op. Leaves the op in place. If stages do not express the
/// op, sets `refusal` and builds nothing.
stage::GraphOp formGraph(FusedOpInterface op, mlir::OpBuilder &builder,
                         std::optional<Refusal> &refusal);

/// Describes a graph of one of the families with scheduled kernels. For other
/// graphs, sets `reason`.
std::optional<MlpProblem> describeGraph(stage::GraphOp graph,
                                        std::string &reason);

/// Maps an unmapped graph to the mma kernels of a schedule. A product that the
/// schedule splits becomes one of K-slices and a reduce. `problem` is that of
/// the graph.
void mapGraph(stage::GraphOp graph, const MlpProblem &problem,
              tile::MmaScheduleAttr schedule);

/// The schedule that the mapping of a graph states. Emits an error if the mma
/// kernels do not support the mapping.
mlir::FailureOr<tile::MmaScheduleAttr>
getMappedSchedule(stage::GraphOp graph, const MlpProblem &problem);

} // namespace fuse

#endif // FUSE_SCHEDULE_STAGEGRAPH_H
