//===- MmaKernel.cpp - Kernels with warp-level products -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels for every GPU since sm_80: [residual add] [norm], GEMM1, activation,
// GEMM2 [residual add], in one persistent launch for few tokens and in three
// for many. Weights are the left operand of both products. All warps copy
// stages with cp.async and multiply them with mma.sync; a stage has weights and
// tokens of a k-step. In one launch, the weights of GEMM2 are requested before
// the hidden units exist.
//
// A warp loads the next fragments of a stage before it multiplies the current
// ones. The last products of a stage hide the barrier, the first loads of the
// next stage and the copies into the one that all warps have left.
//
//===----------------------------------------------------------------------===//

#include "MmaFrame.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Named barrier of the norm; barrier 0 is the whole block's.
static constexpr int64_t kNormBarrier = 1;
/// Blocks of the norm's launch per block of the products. Several hide the
/// latency of each other.
static constexpr int64_t kNormBlocks = 4;

MmaFrame::MmaFrame(const MlpProblem &problem, MmaScheduleAttr schedule,
                   const MmaTiling &tiling, MmaPart part, OpBuilder &builder)
    : ProductBuilder(problem, {0, kMmaWarps, kNormBarrier}, builder),
      schedule(schedule), tiling(tiling), part(part),
      tokens(schedule.getTokenTile()) {}

Value MmaFrame::packedIndex(Value token, Value column, int64_t steps) {
  int64_t bytes = problem.getElementBytes(), perStep = kRowBytes / bytes,
          perChunk = 16 / bytes;
  Value step = div(column, perStep);
  Value inTile = token;
  if (!isWhole()) {
    step = add(mul(div(token, tokens), steps), step);
    inTile = rem(token, tokens);
  }
  Value line = add(mul(step, tokens), inTile);
  Value chunk = flip(div(rem(column, perStep), perChunk), rem(inTile, 8));
  return add(add(mul(line, perStep), mul(chunk, perChunk)),
             rem(column, perChunk));
}

void MmaFrame::await(Value index, Value arrivals) {
  when(equal(thread, 0), [&] {
    Value epoch = load(builder.getI32Type(), epochBuffer, constant(0));
    SemaphoreWaitOp::create(builder, loc, semaphore(index), epoch, arrivals);
  });
  syncBlock();
}

namespace fuse {

/// Emits one kernel.
class MmaKernelBuilder {
public:
  MmaKernelBuilder(const MlpProblem &problem, MmaScheduleAttr schedule,
                   const MmaTiling &tiling, MmaPart part, OpBuilder &builder)
      : k(problem, schedule, tiling, part, builder) {}

  PlannedKernel build(StringRef name);

private:
  using Values = MmaFrame::Values;
  /// Offsets in bytes.
  struct Workspace {
    int64_t semaphores, zeroed, partials, input, hidden, end;
  };
  Workspace getWorkspace();
  void addArguments(const Workspace &w);
  void begin();
  void buildWhole();
  void buildProduct(bool isGemm2);
  /// Copies of the stages of a block, in their order.
  struct Requests {
    /// What the next stage depends on; loops carry it.
    Values state;
    /// Requests the next stage without a branch. The last argument is its first
    /// byte in shared memory.
    std::function<void(ValueRange, Value)> copy;
    /// Requests what needs a branch, and returns the next state.
    std::function<Values(ValueRange, Value)> advance;

    void emit(Value stage) {
      copy(state, stage);
      state = advance(state, stage);
    }
  };
  /// The k-steps of a unit. `first` is the number of stages of the block before
  /// it. All stages but one have been requested.
  Values mainLoop(ProductConsumer &consumer, Value first, Value steps,
                  Requests &requests);
  Value stageOf(Value number) {
    return k.mul(k.rem(number, k.schedule.getStages()), k.stageBytes());
  }
  void commit() { AsyncCopyCommitOp::create(k.builder, k.loc); }
  Value countSteps(Value slice);
  MmaUnit getUnit(Value number, const MmaProduct &product, Value tokenTiles);

  MmaFrame k;
};

} // namespace fuse

MmaKernelBuilder::Workspace MmaKernelBuilder::getWorkspace() {
  const MmaTiling &tiling = k.tiling;
  WorkspaceLayout layout;
  Workspace w;
  // A ticket, and semaphores of the norm, of K-slices and of output tiles.
  int64_t lines = 1 + (k.schedule.getLaunches() == 1
                           ? 1 + tiling.slices + tiling.gemm2.tiles
                           : tiling.tokenTiles * tiling.gemm2.tiles);
  bool waits = k.schedule.getLaunches() == 1 || tiling.slices > 1;
  w.semaphores = layout.reserve(waits ? lines * 128 : 0);
  w.zeroed = layout.getEnd();
  int64_t rows = tiling.gemm2.perTile * kQuarterRows;
  // Threads without a quarter have places, too.
  if (k.tokens < 64 && tiling.gemm2.perTile % 2 != 0)
    rows += kQuarterRows;
  w.partials = layout.reserve(
      tiling.slices > 1 ? tiling.getUnits() * rows * k.tokens * 4 : 0);
  int64_t tokens = tiling.tokenTiles * k.tokens;
  w.input = layout.reserve(tokens * k.inputSteps() * kRowBytes);
  w.hidden = layout.reserve(
      k.problem.hasGemm1() ? tokens * tiling.gemm2.steps * kRowBytes : 0);
  w.end = layout.getEnd();
  return w;
}

void MmaKernelBuilder::addArguments(const Workspace &w) {
  const MmaTiling &tiling = k.tiling;
  if (k.hasSemaphores())
    k.addWorkspace(k.semaphores, k.builder.getI32Type(), w.semaphores);
  if (k.hasGemm2() && tiling.slices > 1)
    k.addWorkspace(k.partials, k.f32, w.partials);
  if (k.hasNorm() || k.hasGemm1() || !k.problem.hasGemm1())
    k.addWorkspace(k.input, k.element, w.input);
  if (k.problem.hasGemm1() && k.part != MmaPart::Norm)
    k.addWorkspace(k.hidden, k.element, w.hidden);
  if (k.hasGemm1()) {
    k.addGemm1Weights(k.weights1, tiling.gemm1.packedTiles, tiling.gemm1.steps);
    k.addHiddenBiases();
    k.addHiddenScalars();
  }
  if (k.hasGemm2()) {
    k.addGemm2Weights(k.weights2, tiling.gemm2.packedTiles, tiling.gemm2.steps);
    k.addOutputScalars();
  }
  if (k.hasNorm() && k.problem.isF8())
    k.addQuantizer(k.inputScale, ScaleKind::Input, k.problem.scales);
  if (k.hasNorm()) {
    k.addNormOperands();
    k.addNormResults();
  } else if (k.hasGemm2() && k.problem.addStream) {
    k.addOperand(k.x, k.problem.x);
    k.addOperand(k.residual, k.problem.residual);
  }
  if (k.hasGemm2())
    k.addOutputOperands();
  k.addTokens(k.count);
}

/// The numbers of the thread, and shared memory.
void MmaKernelBuilder::begin() {
  k.thread = k.id(IdKind::Thread);
  k.block = k.id(IdKind::Block);
  if (k.hasNorm())
    k.makeNormScratch();
  if (k.part == MmaPart::Norm)
    return;
  k.warp = k.id(IdKind::Warp);
  k.lane = k.id(IdKind::Lane);
  k.sharedBytes = k.makeShared(k.builder.getI8Type());
  k.sharedTokens = k.makeShared(k.element);
  if (!k.isWhole())
    return;
  k.epochBuffer = k.makeScratch(k.builder.getI32Type(), 1);
  k.when(k.equal(k.thread, 0), [&] {
    Value epoch = EpochOp::create(k.builder, k.loc, k.builder.getI32Type(),
                                  k.semaphores, k.schedule.getBlocks());
    k.store(epoch, k.epochBuffer, k.constant(0));
  });
}

MmaKernelBuilder::Values MmaKernelBuilder::mainLoop(ProductConsumer &consumer,
                                                    Value first, Value steps,
                                                    Requests &requests) {
  int64_t stages = k.schedule.getStages(), end = stages * k.stageBytes();
  auto openStage = [&](Value stage) {
    AsyncCopyWaitOp::create(k.builder, k.loc, stages - 2);
    // All copies of this stage are visible, and all threads have left the stage
    // before it, which is requested again.
    k.syncBlock();
    return consumer.load(stage, 0);
  };
  auto multiply = [&](Values &accs, Values &fragments, Value stage) {
    for (int64_t next = 1; next < ProductConsumer::kFragments; ++next) {
      Values loaded = consumer.load(stage, next);
      accs = consumer.multiply(accs, fragments);
      fragments = loaded;
    }
  };
  Value stage = stageOf(first);
  Values accs = consumer.makeZeros(), fragments = openStage(stage);
  requests.emit(k.select(k.equal(stage, 0), k.constant(end - k.stageBytes()),
                         k.sub(stage, k.constant(k.stageBytes()))));
  commit();

  size_t numAccs = accs.size(), numFragments = fragments.size();
  auto split = [&](ValueRange carried) {
    accs = carried.take_front(numAccs);
    fragments = carried.slice(numAccs, numFragments);
    requests.state = carried.drop_front(numAccs + numFragments).drop_back();
    stage = carried.back();
  };
  auto join = [&] {
    Values carried = accs;
    carried.append(fragments);
    carried.append(requests.state);
    carried.push_back(stage);
    return carried;
  };
  split(k.loop(k.constant(1), steps, 1, join(),
               [&](Value, ValueRange carried) -> SmallVector<Value> {
                 split(carried);
                 multiply(accs, fragments, stage);
                 Value next = k.add(stage, k.stageBytes());
                 next = k.select(k.equal(next, end), k.constant(0), next);
                 Values loaded = openStage(next);
                 requests.copy(requests.state, stage);
                 accs = consumer.multiply(accs, fragments);
                 requests.state = requests.advance(requests.state, stage);
                 commit();
                 fragments = loaded;
                 stage = next;
                 return join();
               }));
  // The next stage is that of another unit.
  multiply(accs, fragments, stage);
  return consumer.multiply(accs, fragments);
}

/// The number of k-steps of a K-slice; the last one may be shorter.
Value MmaKernelBuilder::countSteps(Value slice) {
  const MmaTiling &tiling = k.tiling;
  if (tiling.slices * tiling.stepsPerSlice == tiling.gemm2.steps)
    return k.constant(tiling.stepsPerSlice);
  return k.min(k.constant(tiling.stepsPerSlice),
               k.sub(k.constant(tiling.gemm2.steps),
                     k.mul(slice, tiling.stepsPerSlice)));
}

//===----------------------------------------------------------------------===//
// One launch
//===----------------------------------------------------------------------===//

void MmaKernelBuilder::buildWhole() {
  const MmaTiling &tiling = k.tiling;
  int64_t blocks = k.schedule.getBlocks(), stages = k.schedule.getStages();
  bool hasGemm1 = k.hasGemm1();
  Value zero = k.constant(0);
  WeightProducer weights1(k, k.weights1, tiling.gemm1);
  WeightProducer weights2(k, k.weights2, tiling.gemm2);
  TokenProducer inputs(k, k.input, k.inputSteps());
  TokenProducer hidden(k, k.hidden, tiling.gemm2.steps);
  TokenProducer &tokens2 = hasGemm1 ? hidden : inputs;

  // The stages of a block: k-steps of its tiles of GEMM1, then of its unit.
  Value stages1 = zero;
  if (hasGemm1)
    stages1 =
        k.mul(k.div(k.sub(k.constant(tiling.gemm1.tiles + blocks - 1), k.block),
                    blocks),
              tiling.gemm1.steps);
  int64_t units = tiling.getUnits();
  Value hasUnit =
      units == blocks ? Value() : k.less(k.block, k.constant(units));
  MmaUnit unit = {zero, k.rem(k.block, tiling.gemm2.tiles),
                  k.div(k.block, tiling.gemm2.tiles)};
  Value steps2 = countSteps(unit.slice);
  if (hasUnit)
    steps2 = k.select(hasUnit, steps2, zero);
  Value firstStep = k.mul(unit.slice, tiling.stepsPerSlice);
  auto tileOf = [&](Value number) {
    return k.add(k.block, k.mul(k.div(number, tiling.gemm1.steps), blocks));
  };
  auto requestWeights2 = [&](Value number, Value stage) {
    Value step = k.sub(number, stages1);
    k.when(k.less(step, steps2),
           [&] { weights2.request(unit.tile, k.add(firstStep, step), stage); });
  };
  auto requestFirst = [&](Value number) {
    if (!hasGemm1)
      return requestWeights2(number, stageOf(number));
    k.either(
        k.less(number, stages1),
        [&] {
          weights1.request(tileOf(number), k.rem(number, tiling.gemm1.steps),
                           stageOf(number));
        },
        [&] { requestWeights2(number, stageOf(number)); });
  };

  RowProducer rows(k);
  rows.request();
  for (int64_t stage = 0; stage + 1 < stages; ++stage) {
    requestFirst(k.constant(stage));
    commit();
  }
  rows.produce();
  rows.await();
  // The state is the number of the next stage.
  auto next = [&](ValueRange number) -> Values {
    return {k.add(number.front(), 1)};
  };
  if (hasGemm1) {
    auto requestInput = [&](Value number, Value stage) {
      inputs.request(zero, k.rem(number, tiling.gemm1.steps), stage,
                     k.less(number, stages1));
    };
    for (int64_t stage = 0; stage + 1 < stages; ++stage) {
      requestInput(k.constant(stage), stageOf(k.constant(stage)));
      commit();
    }
    Requests requests;
    requests.state = {k.constant(stages - 1)};
    requests.copy = [&](ValueRange state, Value stage) {
      Value number = state.front();
      weights1.request(tileOf(number), k.rem(number, tiling.gemm1.steps), stage,
                       k.less(number, stages1));
      requestInput(number, stage);
    };
    requests.advance = [&](ValueRange number, Value stage) {
      k.when(k.less(k.sub(stages1, k.constant(1)), number.front()),
             [&] { requestWeights2(number.front(), stage); });
      return next(number);
    };
    ProductConsumer consumer(k, tiling.gemm1);
    HiddenEpilogue epilogue(k, consumer);
    k.loop(k.block, k.constant(tiling.gemm1.tiles), blocks, requests.state,
           [&](Value tile, ValueRange state) -> SmallVector<Value> {
             requests.state = llvm::to_vector_of<Value>(state);
             Value first = k.mul(k.div(tile, blocks), tiling.gemm1.steps);
             Values accs = mainLoop(consumer, first,
                                    k.constant(tiling.gemm1.steps), requests);
             MmaUnit ofTile = {zero, tile, Value()};
             epilogue.store(ofTile, accs);
             epilogue.announce(ofTile);
             return requests.state;
           });
    k.when(hasUnit, [&] { epilogue.await(unit.slice); });
  }
  k.when(hasUnit, [&] {
    auto requestTokens2 = [&](Value number, Value stage) {
      Value step = k.sub(number, stages1);
      tokens2.request(zero, k.add(firstStep, step), stage,
                      k.less(step, steps2));
    };
    for (int64_t stage = 0; stage + 1 < stages; ++stage) {
      Value number = k.add(stages1, stage);
      requestTokens2(number, stageOf(number));
      commit();
    }
    Requests requests;
    requests.state = {k.add(stages1, stages - 1)};
    requests.copy = [&](ValueRange state, Value stage) {
      Value step = k.sub(state.front(), stages1);
      weights2.request(unit.tile, k.add(firstStep, step), stage,
                       k.less(step, steps2));
      requestTokens2(state.front(), stage);
    };
    requests.advance = [&](ValueRange number, Value) { return next(number); };
    ProductConsumer consumer(k, tiling.gemm2);
    Values accs = mainLoop(consumer, stages1, steps2, requests);
    OutputReducer(k, consumer).finish(unit, accs);
  });
}

//===----------------------------------------------------------------------===//
// A launch of one product
//===----------------------------------------------------------------------===//

/// Groups of token tiles are processed one after the other, and in a group all
/// token tiles of a weight tile.
MmaUnit MmaKernelBuilder::getUnit(Value number, const MmaProduct &product,
                                  Value tokenTiles) {
  MmaUnit unit;
  unit.slice = k.constant(0);
  if (k.hasGemm2() && k.tiling.slices > 1) {
    Value perSlice = k.mul(tokenTiles, product.tiles);
    unit.slice = k.div(number, perSlice);
    number = k.rem(number, perSlice);
  }
  int64_t most = k.schedule.getGroup();
  if (k.tiling.tokenTiles <= most) {
    unit.tokenTile = k.rem(number, tokenTiles);
    unit.tile = k.div(number, tokenTiles);
    return unit;
  }
  Value group = k.div(number, most * product.tiles);
  Value inGroup = k.rem(number, most * product.tiles);
  Value first = k.mul(group, most);
  Value size = k.min(k.constant(most), k.sub(tokenTiles, first));
  unit.tokenTile = k.add(first, k.rem(inGroup, size));
  unit.tile = k.div(inGroup, size);
  return unit;
}

void MmaKernelBuilder::buildProduct(bool isGemm2) {
  const MmaTiling &tiling = k.tiling;
  const MmaProduct &product = isGemm2 ? tiling.gemm2 : tiling.gemm1;
  int64_t blocks = k.schedule.getBlocks(), stages = k.schedule.getStages();
  WeightProducer weights(k, isGemm2 ? k.weights2 : k.weights1, product);
  TokenProducer tokens(k, isGemm2 && k.problem.hasGemm1() ? k.hidden : k.input,
                       product.steps);
  Value tokenTiles = k.div(k.add(k.count, k.tokens - 1), k.tokens);
  int64_t slices = isGemm2 ? tiling.slices : 1;
  Value units = k.mul(tokenTiles, product.tiles * slices);
  // With K-slices, a block has at most one unit.
  Value steps = k.constant(product.steps), firstStep = k.constant(0);
  if (slices > 1) {
    Value slice = getUnit(k.block, product, tokenTiles).slice;
    steps = countSteps(slice);
    firstStep = k.mul(slice, tiling.stepsPerSlice);
  }
  // The state is a unit, its tiles, and a k-step of it.
  auto getState = [&](Value index) -> Values {
    MmaUnit unit = getUnit(index, product, tokenTiles);
    return {index, unit.tokenTile, unit.tile, firstStep};
  };
  Requests requests;
  requests.state = getState(k.block);
  requests.copy = [&](ValueRange state, Value stage) {
    Value exists = k.less(state[0], units);
    weights.request(state[2], state[3], stage, exists);
    tokens.request(state[1], state[3], stage, exists);
  };
  Value endStep = k.add(firstStep, steps);
  requests.advance = [&](ValueRange state, Value) -> Values {
    // Most steps are not the last, and divisions are slow.
    Value step = k.add(state[3], 1);
    auto branch = scf::IfOp::create(
        k.builder, k.loc, TypeRange(ValueRange(state)), k.less(step, endStep),
        /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(k.builder);
    k.builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(k.builder, k.loc,
                         ValueRange{state[0], state[1], state[2], step});
    k.builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(k.builder, k.loc, getState(k.add(state[0], blocks)));
    return llvm::to_vector_of<Value>(branch.getResults());
  };
  for (int64_t stage = 0; stage + 1 < stages; ++stage) {
    requests.emit(stageOf(k.constant(stage)));
    commit();
  }
  ProductConsumer consumer(k, product);
  k.loop(k.block, units, blocks, requests.state,
         [&](Value index, ValueRange state) -> SmallVector<Value> {
           requests.state = llvm::to_vector_of<Value>(state);
           MmaUnit unit = getUnit(index, product, tokenTiles);
           Value first = k.mul(k.div(index, blocks), steps);
           Values accs = mainLoop(consumer, first, steps, requests);
           if (isGemm2)
             OutputReducer(k, consumer).finish(unit, accs);
           else
             HiddenEpilogue(k, consumer).store(unit, accs);
           return requests.state;
         });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

PlannedKernel MmaKernelBuilder::build(StringRef name) {
  const MmaTiling &tiling = k.tiling;
  Workspace w = getWorkspace();
  addArguments(w);
  bool isNorm = k.part == MmaPart::Norm;
  int64_t blocks = k.schedule.getBlocks() * (isNorm ? kNormBlocks : 1);
  tile::KernelOp kernel =
      k.begin(name, std::min<int64_t>(blocks, 65535), kMmaThreads,
              isNorm ? 0 : k.schedule.getSharedBytes(),
              /*cooperative=*/k.hasSemaphores());
  MLIRContext *context = k.builder.getContext();
  auto makeMatrix = [&](int64_t offset, int64_t steps) -> Attribute {
    return TokenMatrixAttr::get(context, offset, steps * kRowBytes, k.tokens);
  };
  ArrayAttr matrices;
  if (!k.isWhole()) {
    SmallVector<Attribute> list = {makeMatrix(w.input, k.inputSteps())};
    if (k.problem.hasGemm1())
      list.push_back(makeMatrix(w.hidden, tiling.gemm2.steps));
    matrices = k.builder.getArrayAttr(list);
  }
  MmaFrame::PlanParts parts{
      k.schedule.getTokens(),
      WorkspaceAttr::get(context, w.end, w.zeroed, matrices)};
  parts.sharesWorkspace = !k.hasNorm();
  PlanAttr plan = k.getPlan(kernel, parts);
  begin();
  if (isNorm)
    RowProducer(k).produce();
  else if (k.isWhole())
    buildWhole();
  else
    buildProduct(k.part == MmaPart::Gemm2);
  tile::ReturnOp::create(k.builder, k.loc);
  return {kernel, plan};
}

SmallVector<PlannedKernel>
fuse::buildMmaKernels(const MlpProblem &problem, MmaScheduleAttr schedule,
                      gpu::GPUModuleOp module,
                      function_ref<std::string()> getName) {
  MmaTiling tiling(problem, schedule);
  SmallVector<MmaPart> parts = {MmaPart::Whole};
  if (schedule.getLaunches() != 1) {
    parts = {MmaPart::Norm};
    if (problem.hasGemm1())
      parts.push_back(MmaPart::Gemm1);
    parts.push_back(MmaPart::Gemm2);
  }
  SmallVector<PlannedKernel> kernels;
  for (MmaPart part : parts) {
    OpBuilder builder(problem.op->getContext());
    builder.setInsertionPointToEnd(module.getBody());
    kernels.push_back(MmaKernelBuilder(problem, schedule, tiling, part, builder)
                          .build(getName()));
  }
  return kernels;
}
