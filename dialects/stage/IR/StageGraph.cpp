//===- StageGraph.cpp - Verifier of graphs of stages ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "stage/IR/StageOps.h"

using namespace mlir;
using namespace fuse;
using namespace stage;

/// Verifies that the slices of products meet in reduces, and nowhere else.
static LogicalResult verifySlices(GraphOp graph) {
  for (auto product : graph.getBody().getOps<ProductOp>()) {
    if (!product.getSlice())
      continue;
    for (Operation *user : product->getUsers())
      if (!isa<ReduceOp>(user))
        return product.emitOpError() << "has slices that '" << user->getName()
                                     << "' reads, expected stage.reduce";
  }
  for (auto reduce : graph.getBody().getOps<ReduceOp>()) {
    SmallVector<SumOperands> operands;
    for (Value partial : reduce.getPartials()) {
      auto product = partial.getDefiningOp<ProductOp>();
      if (!product || !product.getSlice())
        return reduce.emitOpError(
            "adds a value that is not the sum of a stage.product with slices");
      unsigned number = cast<OpResult>(partial).getResultNumber();
      operands.push_back({product.getX(), product.getWeights()[number]});
    }
    for (Value input : reduce.getInputs())
      if (auto product = input.getDefiningOp<ProductOp>();
          product && product.getSlice())
        return reduce.emitOpError("has the sums of slices in 'with'");
    for (auto finish : reduce.getEpilogue().front().getOps<FinishOp>()) {
      unsigned number = cast<BlockArgument>(finish.getSum()).getArgNumber();
      if (failed(verifyFinish(finish, operands[number])))
        return failure();
    }
  }
  return success();
}

/// Verifies the places of the results of a stage in launch `launch`.
static LogicalResult verifyPlaces(Operation *op, int64_t launch,
                                  ArrayRef<Place> places) {
  if (places.size() != op->getNumResults())
    return op->emitOpError() << "has " << op->getNumResults() << " results and "
                             << places.size() << " places";
  for (auto [result, place] : llvm::zip_equal(op->getResults(), places)) {
    bool isRead = false, isReadLater = false;
    for (Operation *user : result.getUsers())
      if (isStage(user)) {
        isRead = true;
        isReadLater |= getMapping(user)->launch > launch;
      }
    StringRef expected = isReadLater ? "launch"
                         : isRead    ? "registers, shared or workspace"
                                     : "output";
    bool isRight = isReadLater ? place == Place::Launch
                   : isRead ? place != Place::Launch && place != Place::Output
                            : place == Place::Output;
    if (isRight)
      continue;
    return op->emitOpError() << "has result " << result.getResultNumber()
                             << " in '" << stringifyPlace(place) << "', but "
                             << (isReadLater ? "a later launch reads it"
                                 : isRead    ? "the same launch reads it"
                                             : "no stage reads it")
                             << ": expected " << expected;
  }
  return success();
}

/// Verifies the mappings of stages against each other.
static LogicalResult verifyMappings(GraphOp graph) {
  int64_t last = -1;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    std::optional<StageMapping> mapping = getMapping(&op);
    if (mapping.has_value() != (graph.getMapping() != std::nullopt))
      return op.emitOpError()
             << (mapping ? "is mapped, but its graph is not"
                         : "has no mapping, but its graph has one");
    if (!mapping)
      continue;
    int64_t launch = mapping->launch;
    if (launch != last + 1 && (launch != last || last < 0))
      return op.emitOpError()
             << "is in launch " << launch << ", expected "
             << (last < 0 ? "0"
                          : (Twine(last) + " or " + Twine(last + 1)).str());
    last = launch;
  }
  if (!graph.getMapping())
    return success();
  for (Operation &op : graph.getBody().front().without_terminator()) {
    std::optional<StageMapping> mapping = getMapping(&op);
    if (failed(verifyPlaces(&op, mapping->launch, mapping->results)))
      return failure();
  }
  return success();
}

LogicalResult GraphOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError() << "body expects " << block.getArgumentTypes()
                         << ", inputs are " << getInputs().getTypes();
  auto yield = dyn_cast_or_null<stage::YieldOp>(
      block.mightHaveTerminator() ? block.getTerminator() : nullptr);
  if (!yield)
    return emitOpError("body must end with stage.yield");
  if (yield.getValues().getTypes() != getResultTypes())
    return emitOpError() << "body yields " << yield.getValues().getTypes()
                         << ", results are " << getResultTypes();
  for (Operation &op : block.without_terminator())
    if (!isStage(&op))
      return emitOpError() << "has '" << op.getName()
                           << "', expected stage.rows, stage.product or "
                              "stage.reduce";
  return failure(failed(verifySlices(*this)) || failed(verifyMappings(*this)));
}
