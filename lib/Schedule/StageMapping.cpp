//===- StageMapping.cpp - Map graphs of stages to mma kernels -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/StageGraph.h"

using namespace mlir;
using namespace fuse;
using stage::Place;
using tile::MmaScheduleAttr;

/// Elements of a row in a k-step.
static int64_t getStepElements(const MlpProblem &problem) {
  return kRowBytes / problem.getElementBytes();
}

//===----------------------------------------------------------------------===//
// Mapping
//===----------------------------------------------------------------------===//

/// The products of a graph in their order.
static SmallVector<stage::ProductOp> getProducts(stage::GraphOp graph) {
  return llvm::to_vector(graph.getBody().getOps<stage::ProductOp>());
}

/// Adds a stage that copies the tokens of the first product, if no rows precede
/// it. Kernels read tokens in packed order.
static void addRows(stage::GraphOp graph) {
  stage::ProductOp product = getProducts(graph).front();
  if (product.getX().getDefiningOp())
    return;
  OpBuilder builder(product);
  Location loc = product.getLoc();
  auto rows = stage::RowsOp::create(builder, loc, product.getX().getType(),
                                    product.getX(), stage::RowsMappingAttr());
  Block *body = &rows.getBody().emplaceBlock();
  body->addArgument(product.getX().getType(), loc);
  builder.setInsertionPointToEnd(body);
  stage::YieldOp::create(builder, loc, body->getArgument(0));
  product.getXMutable().assign(rows.getResult(0));
}

/// Divides a product into K-slices of `length` elements and a reduce, which
/// gets the epilogue.
static void splitProduct(stage::ProductOp product, int64_t length) {
  OpBuilder builder(product);
  SmallVector<Type> types;
  int64_t slices =
      llvm::divideCeil(product.getX().getType().getShape().back(), length);
  for (Value weight : product.getWeights()) {
    RankedTensorType sum = product.getSumType(weight);
    SmallVector<int64_t> shape = {slices};
    llvm::append_range(shape, sum.getShape());
    types.push_back(RankedTensorType::get(shape, sum.getElementType()));
  }
  auto parts = stage::ProductOp::create(
      builder, product.getLoc(), types, product.getX(), product.getWeights(),
      ValueRange(), builder.getI64IntegerAttr(length),
      stage::ProductMappingAttr());
  auto reduce = stage::ReduceOp::create(
      builder, product.getLoc(), product.getResultTypes(), parts.getResults(),
      product.getInputs(), stage::SumOrder::Ascending,
      stage::ReduceMappingAttr());
  reduce.getEpilogue().takeBody(product.getEpilogue());
  product.replaceAllUsesWith(reduce.getResults());
  product.erase();
}

/// The launches of the stages of a graph, in their order.
static SmallVector<int64_t> getLaunches(stage::GraphOp graph, bool isOne) {
  SmallVector<int64_t> launches;
  int64_t launch = -1;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    // A reduce is in the launch of its slices.
    if (!isa<stage::ReduceOp>(op))
      ++launch;
    launches.push_back(isOne ? 0 : launch);
  }
  return launches;
}

/// The places of the results of a stage. Results of mma kernels are in memory.
static SmallVector<Place> getPlaces(Operation *op, int64_t launch,
                                    const DenseMap<Operation *, int64_t> &all) {
  SmallVector<Place> places;
  for (Value result : op->getResults()) {
    Place place = Place::Output;
    for (Operation *user : result.getUsers()) {
      if (!stage::isStage(user))
        continue;
      if (all.at(user) > launch)
        place = Place::Launch;
      else if (place == Place::Output)
        place = Place::Workspace;
    }
    places.push_back(place);
  }
  return places;
}

void fuse::mapGraph(stage::GraphOp graph, const MlpProblem &problem,
                    MmaScheduleAttr schedule) {
  MLIRContext *context = graph.getContext();
  MmaTiling tiling(problem, schedule);
  addRows(graph);
  stage::ProductOp last = getProducts(graph).back();
  if (tiling.slices > 1)
    splitProduct(last, tiling.stepsPerSlice * getStepElements(problem));
  SmallVector<int64_t> launches =
      getLaunches(graph, schedule.getLaunches() == 1);
  DenseMap<Operation *, int64_t> launchOf;
  Block &body = graph.getBody().front();
  for (auto [op, launch] : llvm::zip(body.without_terminator(), launches))
    launchOf[&op] = launch;
  last = getProducts(graph).back();
  for (auto [op, launch] : llvm::zip(body.without_terminator(), launches)) {
    SmallVector<Place> places = getPlaces(&op, launch, launchOf);
    if (auto rows = dyn_cast<stage::RowsOp>(op))
      rows.setMappingAttr(stage::RowsMappingAttr::get(context, launch, places));
    else if (auto product = dyn_cast<stage::ProductOp>(op))
      product.setMappingAttr(stage::ProductMappingAttr::get(
          context, launch, places,
          product == last ? schedule.getGemm2TileM() : schedule.getGemm1TileM(),
          schedule.getTokenTile(), schedule.getStages()));
    else
      cast<stage::ReduceOp>(op).setMappingAttr(
          stage::ReduceMappingAttr::get(context, launch, places));
  }
  graph.setMappingAttr(stage::GraphMappingAttr::get(
      context, stage::Target::Mma, schedule.getTokens(), schedule.getBlocks(),
      schedule.getGroup()));
}

//===----------------------------------------------------------------------===//
// Reading a mapping
//===----------------------------------------------------------------------===//

/// Verifies the kinds and the launches of the stages: rows, products, and a
/// reduce of the slices of the last one.
static LogicalResult verifyLaunches(stage::GraphOp graph, bool &isOne) {
  Block &body = graph.getBody().front();
  SmallVector<stage::ProductOp> products = getProducts(graph);
  auto rows = llvm::to_vector(body.getOps<stage::RowsOp>());
  if (rows.size() != 1 || &body.front() != rows.front())
    return graph.emitOpError()
           << "has " << rows.size()
           << " stage.rows, the mma kernels have one, before the products";
  int64_t last = 0;
  for (Operation &op : body.without_terminator())
    last = stage::getMapping(&op)->launch;
  isOne = last == 0;
  for (auto [op, launch] :
       llvm::zip(body.without_terminator(), getLaunches(graph, isOne)))
    if (int64_t actual = stage::getMapping(&op)->launch; actual != launch)
      return op.emitOpError()
             << "is in launch " << actual
             << ", the mma kernels have all stages in one launch, or this one "
                "in launch "
             << launch;
  for (stage::ProductOp product : products)
    if (product.getSlice() && product != products.back())
      return product.emitOpError(
          "has slices, the mma kernels only slice the last product");
  for (Operation &op : body.without_terminator())
    for (Place place : stage::getMapping(&op)->results)
      if (place == Place::Registers || place == Place::Shared)
        return op.emitOpError()
               << "has a result in '" << stage::stringifyPlace(place)
               << "', the mma kernels have results in 'workspace', 'launch' or "
                  "'output'";
  for (auto reduce : body.getOps<stage::ReduceOp>())
    if (reduce.getOrder() != stage::SumOrder::Ascending)
      return reduce.emitOpError()
             << "has order " << stage::stringifySumOrder(reduce.getOrder())
             << ", the mma kernels add slices in order ascending";
  return success();
}

FailureOr<MmaScheduleAttr> fuse::getMappedSchedule(stage::GraphOp graph,
                                                   const MlpProblem &problem) {
  bool isOne;
  if (failed(verifyLaunches(graph, isOne)))
    return failure();
  SmallVector<stage::ProductOp> products = getProducts(graph);
  stage::ProductMappingAttr first = products.front().getMappingAttr(),
                            last = products.back().getMappingAttr();
  if (first.getTokenTile() != last.getTokenTile() ||
      first.getPipeline() != last.getPipeline())
    return graph.emitOpError()
           << "has products with token_tile = " << first.getTokenTile()
           << ", pipeline = " << first.getPipeline()
           << " and token_tile = " << last.getTokenTile()
           << ", pipeline = " << last.getPipeline()
           << ", the mma kernels have one pipeline";
  stage::GraphMappingAttr mapping = graph.getMappingAttr();
  // Without GEMM1, its tile has no meaning.
  int64_t tile1 = problem.hasGemm1() ? first.getWeightTile() : kQuarterRows;
  auto report = [&]() -> InFlightDiagnostic {
    return graph.emitOpError() << "has an invalid mapping: ";
  };
  function_ref<InFlightDiagnostic()> emitError(report);
  int64_t launches = isOne ? 1 : 3;
  auto schedule = MmaScheduleAttr::getChecked(
      emitError, graph.getContext(), mapping.getTokens(), first.getTokenTile(),
      mapping.getBlocks(), products.back().countSlices(), tile1,
      last.getWeightTile(), first.getPipeline(), mapping.getGroup(), launches);
  if (!schedule)
    return failure();
  if (std::string why = getScheduleProblem(problem, schedule); !why.empty())
    return graph.emitOpError() << "does not fit its mapping: " << why;
  MmaTiling tiling(problem, schedule);
  int64_t length = tiling.stepsPerSlice * getStepElements(problem);
  if (auto slice = products.back().getSlice();
      slice && static_cast<int64_t>(*slice) != length)
    return products.back().emitOpError()
           << "has slices of " << *slice << " elements, the mma kernels cut "
           << products.back().countSlices() << " slices of " << length;
  return schedule;
}
