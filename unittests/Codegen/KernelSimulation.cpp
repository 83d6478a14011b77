//===- KernelSimulation.cpp - Simulate the waits of a kernel --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The structured control flow of a kernel becomes a list of steps with jumps.
// The state of a thread is an index into the list and a value for each slot, so
// it can stop anywhere.
//
//===----------------------------------------------------------------------===//

#include "KernelSimulation.h"

#include "fuse/Conversion/FuseToTile/FuseToTile.h"
#include "fuse/IR/FuseDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "tile/IR/TileDialect.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// First number of a scratch buffer; those of arguments are lower.
static constexpr int64_t kFirstScratch = 1 << 16;
/// Size of a tensor copy: 128 rows of 128 bytes.
static constexpr int64_t kBoxBytes = 128 * 128;

OwningOpRef<ModuleOp> fuse::compileMLP(MLIRContext &context, int64_t width,
                                       int64_t hidden, StringRef schedule,
                                       bool isF8) {
  context.loadDialect<arith::ArithDialect, func::FuncDialect, FuseDialect,
                      gpu::GPUDialect, math::MathDialect, scf::SCFDialect,
                      tile::TileDialect>();
  std::string x = llvm::formatv("tensor<?x{0}xbf16>", width);
  StringRef type = isF8 ? "f8E4M3FN" : "bf16";
  std::string g = llvm::formatv("tensor<{0}x{1}x{2}>", hidden, width, type);
  std::string d = llvm::formatv("tensor<{0}x{1}x{2}>", width, hidden, type);
  StringRef scales = isF8 ? "scales(f8E4M3FN, input = 0.5, gate = 0.5, "
                            "up = 0.5, hidden = 0.5, down = 0.5) "
                          : "";
  std::string text =
      llvm::formatv("func.func @f(%x: {0}, %g: {1}, %u: {1}, %d: {2}) -> {0} "
                    "{{ %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) "
                    "act(silu) {4}rounding(exact) {{tile.schedule = {3}} "
                    ": ({0}, {1}, {1}, {2}) -> {0} return %y : {0} }",
                    x, g, d, schedule, scales);
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return {};
  PassManager passes(&context);
  passes.addPass(createConvertFuseToTilePass());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  if (failed(passes.run(*module)))
    return {};
  return module;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

KernelSimulation::KernelSimulation(KernelOp kernel, ArrayRef<int64_t> threads)
    : kernel(kernel), threadIndices(threads),
      cluster(static_cast<int64_t>(kernel.getCluster())) {
  compile(kernel.getBody().front());
}

bool KernelSimulation::isTracked(Value value) {
  return isa<IntegerType, IndexType, RingType, StageType, SharedType,
             SemaphoreType, BufferType, TensorMapType>(value.getType());
}

unsigned KernelSimulation::slotOf(Value value) {
  return slots.try_emplace(value, slots.size()).first->second;
}

KernelSimulation::Step &KernelSimulation::add(Code code, Operation &op,
                                              ValueRange operands, Value result,
                                              int64_t value, int64_t other) {
  Step step;
  step.code = code;
  step.op = &op;
  for (Value operand : operands)
    step.operands.push_back(slotOf(operand));
  if (result)
    step.result = slotOf(result);
  step.value = value;
  step.other = other;
  steps.push_back(step);
  return steps.back();
}

/// Assigns the values of a branch or a loop in parallel.
void KernelSimulation::move(Operation &op, ValueRange from, ValueRange to) {
  SmallVector<Value> tracked;
  for (auto [source, target] : llvm::zip_equal(from, to))
    if (isTracked(source))
      tracked.push_back(source);
  size_t count = tracked.size();
  for (auto [source, target] : llvm::zip_equal(from, to))
    if (isTracked(source))
      tracked.push_back(target);
  add(Code::Move, op, tracked, {}, static_cast<int64_t>(count));
}

void KernelSimulation::compile(mlir::Block &block) {
  for (Operation &op : block)
    compile(op);
}

void KernelSimulation::compile(Operation &op) {
  auto jumpTo = [&](size_t step, size_t target) {
    steps[step].target = target;
  };
  auto compileIf = [&](scf::IfOp branch) {
    size_t before = steps.size();
    add(Code::JumpUnless, op, branch.getCondition());
    auto compileSide = [&](Region &region) {
      if (region.empty())
        return;
      compile(region.front());
      move(op, region.front().getTerminator()->getOperands(), op.getResults());
    };
    compileSide(branch.getThenRegion());
    size_t between = steps.size();
    add(Code::Jump, op);
    jumpTo(before, steps.size());
    compileSide(branch.getElseRegion());
    jumpTo(between, steps.size());
  };
  auto compileFor = [&](scf::ForOp loop) {
    Value index = loop.getInductionVar();
    move(op, loop.getLowerBound(), index);
    move(op, loop.getInitArgs(), loop.getRegionIterArgs());
    size_t head = steps.size();
    // Bounds are numbers of units and k-steps, which are never negative.
    add(Code::JumpUnless, op, {index, loop.getUpperBound()}).value = 1;
    compile(*loop.getBody());
    move(op, loop.getBody()->getTerminator()->getOperands(),
         loop.getRegionIterArgs());
    add(Code::Binary, op, {index, loop.getStep()}, index);
    add(Code::Jump, op).target = head;
    jumpTo(head, steps.size());
    move(op, loop.getRegionIterArgs(), loop.getResults());
  };
  auto compileWhile = [&](scf::WhileOp loop) {
    move(op, loop.getInits(), loop.getBeforeArguments());
    size_t head = steps.size();
    compile(*loop.getBeforeBody());
    scf::ConditionOp condition = loop.getConditionOp();
    move(op, condition.getArgs(), loop.getAfterArguments());
    move(op, condition.getArgs(), loop.getResults());
    size_t leaves = steps.size();
    add(Code::JumpUnless, op, condition.getCondition());
    compile(*loop.getAfterBody());
    move(op, loop.getAfterBody()->getTerminator()->getOperands(),
         loop.getBeforeArguments());
    add(Code::Jump, op).target = head;
    jumpTo(leaves, steps.size());
  };
  auto compileRoles = [&](SpecializeOp roles) {
    int64_t warp = 0;
    for (auto [count, region] :
         llvm::zip_equal(roles.getWarps(), roles.getRoles())) {
      size_t before = steps.size();
      add(Code::JumpUnlessWarp, op, {}, {}, warp, warp + count);
      compile(region.front());
      jumpTo(before, steps.size());
      warp += count;
    }
  };
  llvm::TypeSwitch<Operation *>(&op)
      .Case(compileIf)
      .Case(compileFor)
      .Case(compileWhile)
      .Case(compileRoles)
      .Case<scf::YieldOp, scf::ConditionOp>([](Operation *) {})
      .Case([&](arith::ConstantOp constant) {
        if (auto value = dyn_cast<IntegerAttr>(constant.getValue()))
          add(Code::Constant, op, {}, constant.getResult(),
              value.getType().isInteger(64) ? value.getInt()
                                            : uint32_t(value.getInt()));
      })
      .Case<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivUIOp,
            arith::RemUIOp, arith::MinUIOp, arith::MaxUIOp, arith::AndIOp,
            arith::OrIOp, arith::XOrIOp>([&](Operation *) {
        add(Code::Binary, op, op.getOperands(), op.getResult(0));
      })
      .Case([&](arith::CmpIOp) {
        add(Code::Compare, op, op.getOperands(), op.getResult(0));
      })
      .Case<arith::ExtUIOp, arith::TruncIOp>([&](Operation *) {
        add(Code::Move, op, {op.getOperand(0), op.getResult(0)}, {}, 1);
      })
      .Case([&](arith::SelectOp select) {
        if (isTracked(select.getResult()))
          add(Code::Select, op, op.getOperands(), op.getResult(0));
      })
      .Case([&](IdOp id) {
        add(Code::Id, op, {}, id.getResult(),
            static_cast<int64_t>(id.getKind()));
      })
      .Case([&](RingCreateOp create) {
        RingType type = create.getRing().getType();
        add(Code::Constant, op, {}, create.getRing(), rings.size());
        rings.push_back({type.getStages(), type.getBytes(),
                         static_cast<int64_t>(create.getConsumers())});
      })
      .Case([&](ScratchOp scratch) {
        add(Code::Constant, op, {}, scratch.getBuffer(),
            kFirstScratch + static_cast<int64_t>(steps.size()));
      })
      .Case([&](RingAcquireOp acquire) {
        add(Code::Acquire, op, op.getOperands(), acquire.getStage());
      })
      .Case([&](RingWaitOp wait) {
        add(Code::Wait, op, op.getOperands(), wait.getStage());
      })
      .Case([&](RingReleaseOp) { add(Code::Release, op, op.getOperands()); })
      .Case([&](CopyOp copy) {
        StageType stage = copy.getStage().getType();
        add(Code::Copy, op, op.getOperands(), {}, copy.getAt().value_or(0),
            copy.getBytes().value_or(stage.getBytes()));
      })
      .Case([&](CopyTensorOp) { add(Code::CopyTensor, op, op.getOperands()); })
      .Case([&](ViewOp view) {
        add(Code::Move, op, {view.getStage(), view.getResult()}, {}, 1);
      })
      .Case([&](MmaOp mma) {
        add(Code::Multiply, op, {mma.getLhs(), mma.getRhs()});
      })
      .Case([&](MmaCommitOp) { add(Code::Commit, op); })
      .Case([&](MmaWaitOp wait) {
        add(Code::AwaitProducts, op, {}, {},
            static_cast<int64_t>(wait.getPending()));
      })
      .Case([&](AccWaitOp) { add(Code::AwaitProducts, op); })
      .Case([&](SemaphoreOp semaphore) {
        add(Code::Semaphore, op, op.getOperands(), semaphore.getSemaphore());
      })
      .Case([&](SemaphoreArriveOp) { add(Code::Arrive, op, op.getOperands()); })
      .Case([&](SemaphoreCountOp count) {
        // Any number is valid. This one is more than some stages expect and
        // less than others do.
        add(Code::Constant, op, {}, count.getCount(), 13);
      })
      .Case([&](SemaphoreWaitOp) {
        add(Code::AwaitSemaphore, op, op.getOperands());
      })
      .Case([&](SemaphoreMeetOp barrier) {
        add(Code::ArriveAndWait, op, op.getOperands(), {},
            static_cast<int64_t>(barrier.getArrivals()));
      })
      .Case([&](LoadOp load) {
        if (isTracked(load.getValue()))
          add(Code::Load, op, op.getOperands(), load.getValue());
      })
      .Case([&](StoreOp store) {
        if (isTracked(store.getValue()))
          add(Code::Store, op, op.getOperands());
        else if (store.getPolled())
          add(Code::StoreMarked, op, {store.getBuffer(), store.getIndex()});
      })
      .Case([&](CollectOp collect) {
        SmallVector<Value> operands = {collect.getBuffer()};
        llvm::append_range(operands, collect.getIndices());
        llvm::append_range(operands, collect.getConditions());
        add(Code::Collect, op, operands, {},
            static_cast<int64_t>(collect.getIndices().size()));
      })
      // Stages are always free when polled, and a run is the first launch.
      .Case([&](RingPollOp poll) {
        add(Code::Constant, op, {}, poll.getFree(), 1);
      })
      .Case([&](EpochOp epoch) {
        add(Code::Constant, op, {}, epoch.getEpoch(), 0);
      })
      .Case([&](BarrierOp barrier) {
        add(Code::Barrier, op, {}, {}, static_cast<int64_t>(barrier.getId()),
            barrier.getThreads().value_or(0));
      })
      .Case([&](BarrierArriveOp barrier) {
        add(Code::BarrierArrive, op, {}, {},
            static_cast<int64_t>(barrier.getId()),
            static_cast<int64_t>(barrier.getThreads()));
      })
      .Case([&](ClusterBarrierOp) { add(Code::ClusterBarrier, op); })
      .Case([&](tile::ReturnOp) { add(Code::End, op); })
      .Default([&](Operation *) {
        bool isRun = !isa<ReduceOp>(op);
        assert(isRun && op.getNumRegions() == 0 && "an op that is not run");
        (void)isRun;
      });
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

/// Names the use of a ring: the stage of an acquire or a wait.
static int64_t makeHandle(int64_t ring, int64_t use) {
  return ring << 32 | use;
}

KernelSimulation::Use &KernelSimulation::getUse(int64_t block, int64_t handle) {
  std::deque<Use> &uses = blocks[block].rings[handle >> 32];
  auto use = static_cast<size_t>(static_cast<uint32_t>(handle));
  if (uses.size() <= use)
    uses.resize(use + 1);
  return uses[use];
}

int64_t KernelSimulation::countArrivals(unsigned argument,
                                        int64_t index) const {
  auto it = semaphores.find({argument, index});
  return it == semaphores.end() ? 0 : it->second;
}

int64_t KernelSimulation::countInexactWaits() const {
  return llvm::count_if(goals, [&](const auto &goal) {
    auto semaphore = semaphores.find(goal.first);
    return (semaphore == semaphores.end() ? 0 : semaphore->second) !=
           goal.second;
  });
}

void KernelSimulation::arrive(Thread &thread, BarrierState &barrier,
                              int64_t count) {
  ++thread.arrivals[&barrier];
  barrier.arrived += thread.index % 32 == 0 ? 32 : 0;
  if (barrier.arrived >= count) {
    ++barrier.passed;
    barrier.arrived = 0;
  }
}

bool KernelSimulation::arriveAndWait(Thread &thread, BarrierState &barrier,
                                     int64_t count) {
  if (!thread.hasArrived) {
    thread.hasArrived = true;
    arrive(thread, barrier, count);
    thread.goal = thread.arrivals[&barrier];
  }
  if (barrier.passed < thread.goal)
    return false;
  thread.hasArrived = false;
  return true;
}

/// An integer of a given width as the unsigned ops of arith see it.
static int64_t wrap(int64_t value, Type type) {
  if (type.isInteger(1))
    return value & 1;
  return type.isInteger(64) ? value : static_cast<uint32_t>(value);
}

static int64_t compute(Operation *op, uint64_t lhs, uint64_t rhs) {
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case([&](arith::SubIOp) { return lhs - rhs; })
      .Case([&](arith::MulIOp) { return lhs * rhs; })
      .Case([&](arith::DivUIOp) { return rhs ? lhs / rhs : 0; })
      .Case([&](arith::RemUIOp) { return rhs ? lhs % rhs : 0; })
      .Case([&](arith::MinUIOp) { return std::min(lhs, rhs); })
      .Case([&](arith::MaxUIOp) { return std::max(lhs, rhs); })
      .Case([&](arith::XOrIOp) { return lhs ^ rhs; })
      .Case([&](arith::AndIOp) { return lhs & rhs; })
      .Case([&](arith::OrIOp) { return lhs | rhs; })
      // The increment of a loop.
      .Default([&](Operation *) { return lhs + rhs; });
}

bool KernelSimulation::execute(Thread &thread, const Step &step) {
  std::vector<int64_t> &values = thread.values;
  auto operand = [&](size_t index) { return values[step.operands[index]]; };
  auto getBlock = [&](int64_t rank) {
    return thread.block / cluster * cluster + rank;
  };
  size_t next = thread.at + 1;
  switch (step.code) {
  case Code::Constant:
    values[step.result] = step.value;
    break;
  case Code::Binary:
    values[step.result] =
        wrap(compute(step.op, operand(0), operand(1)),
             step.op->getNumResults() == 1
                 ? step.op->getResult(0).getType()
                 : IntegerType::get(step.op->getContext(), 32));
    break;
  case Code::Compare: {
    auto compare = cast<arith::CmpIOp>(step.op);
    bool narrow = !compare.getLhs().getType().isInteger(64);
    unsigned width = narrow ? 32 : 64;
    values[step.result] = arith::applyCmpPredicate(
        compare.getPredicate(), APInt(width, operand(0), false, true),
        APInt(width, operand(1), false, true));
    break;
  }
  case Code::Select:
    values[step.result] = operand(0) ? operand(1) : operand(2);
    break;
  case Code::Move: {
    SmallVector<int64_t> moved;
    for (int64_t index = 0; index < step.value; ++index)
      moved.push_back(operand(index));
    for (int64_t index = 0; index < step.value; ++index)
      values[step.operands[step.value + index]] = moved[index];
    break;
  }
  case Code::Jump:
    next = step.target;
    break;
  case Code::JumpUnless:
    if (step.value ? operand(0) >= operand(1) : !operand(0))
      next = step.target;
    break;
  case Code::JumpUnlessWarp: {
    int64_t warp = thread.index / 32;
    if (warp < step.value || warp >= step.other)
      next = step.target;
    break;
  }
  case Code::Id:
    switch (static_cast<IdKind>(step.value)) {
    case IdKind::Thread:
      values[step.result] = thread.index;
      break;
    case IdKind::Warp:
      values[step.result] = thread.index / 32;
      break;
    case IdKind::Lane:
      values[step.result] = thread.index % 32;
      break;
    case IdKind::Block:
      values[step.result] = thread.block;
      break;
    case IdKind::ClusterRank:
      values[step.result] = thread.block % cluster;
      break;
    }
    break;
  case Code::Acquire: {
    const Ring &ring = rings[operand(0)];
    int64_t use = operand(1);
    if (use >= ring.stages) {
      int64_t before = makeHandle(operand(0), use - ring.stages);
      if (getUse(thread.block, before).released < ring.consumers)
        return false;
    }
    values[step.result] = makeHandle(operand(0), use);
    getUse(thread.block, values[step.result]).announced =
        step.operands.size() > 2 ? operand(2) : ring.bytes;
    break;
  }
  case Code::Wait: {
    int64_t handle = makeHandle(operand(0), operand(1));
    const Use &use = getUse(thread.block, handle);
    if (use.announced < 0 || use.landed < use.announced)
      return false;
    values[step.result] = handle;
    break;
  }
  case Code::Release: {
    int64_t block =
        step.operands.size() > 2 ? getBlock(operand(2)) : thread.block;
    int64_t handle = makeHandle(operand(0), operand(1));
    bool isRead =
        llvm::any_of(thread.pendingProducts, [&](ArrayRef<int64_t> group) {
          return llvm::is_contained(group, handle);
        });
    int64_t released = ++getUse(block, handle).released;
    wrongReleases += isRead || released > rings[operand(0)].consumers;
    break;
  }
  case Code::Copy: {
    auto copy = cast<CopyOp>(step.op);
    uint64_t ranks = copy.getMulticast().value_or(0);
    for (int64_t rank = 0; rank < cluster; ++rank) {
      bool own = getBlock(rank) == thread.block;
      if (ranks ? !(ranks >> rank & 1) : !own)
        continue;
      Use &use = getUse(getBlock(rank), operand(2));
      use.content.weights = static_cast<unsigned>(operand(0));
      bool isPiece = step.operands.size() > 3;
      int64_t at = isPiece ? operand(3) : step.value;
      int64_t bytes = isPiece ? operand(4) : step.other;
      // The offset of the whole stage, whichever part is copied.
      use.content.offset = operand(1) - at;
      use.landed += bytes;
      excessCopies += use.landed > use.announced;
    }
    break;
  }
  case Code::CopyTensor: {
    Use &use = getUse(thread.block, operand(3));
    use.content.tokens = static_cast<unsigned>(operand(0));
    use.content.column = operand(1);
    use.content.row = operand(2);
    use.landed += kBoxBytes;
    if (isThere && !isThere(use.content.tokens, operand(1), operand(2)))
      ++earlyCopies;
    break;
  }
  case Code::Multiply:
    thread.pendingProducts.back().append({operand(0), operand(1)});
    if (operand(0) == operand(1))
      ++products[thread.index][getUse(thread.block, operand(0)).content];
    break;
  case Code::Commit:
    thread.pendingProducts.emplace_back();
    break;
  case Code::AwaitProducts:
    while (static_cast<int64_t>(thread.pendingProducts.size()) > step.value + 1)
      thread.pendingProducts.pop_front();
    break;
  case Code::Semaphore:
    values[step.result] = operand(0) << 32 | operand(1);
    break;
  case Code::Arrive:
    ++semaphores[{operand(0) >> 32, static_cast<uint32_t>(operand(0))}];
    break;
  case Code::AwaitSemaphore: {
    std::pair<int64_t, int64_t> place(operand(0) >> 32, uint32_t(operand(0)));
    goals[place] = operand(2);
    if (semaphores[place] < operand(2))
      return false;
    break;
  }
  case Code::ArriveAndWait: {
    int64_t &semaphore = semaphores[{operand(0) >> 32, uint32_t(operand(0))}];
    if (!thread.hasArrived) {
      thread.hasArrived = true;
      thread.goal = (semaphore / step.value + 1) * step.value;
      ++semaphore;
    }
    if (semaphore < thread.goal)
      return false;
    thread.hasArrived = false;
    break;
  }
  case Code::Load: {
    std::pair<int64_t, int64_t> place(operand(0), operand(1));
    auto own = thread.scratch.find(place);
    values[step.result] = own != thread.scratch.end()
                              ? own->second
                              : blocks[thread.block].scratch[place];
    break;
  }
  case Code::Store: {
    std::pair<int64_t, int64_t> place(operand(1), operand(2));
    thread.scratch[place] = blocks[thread.block].scratch[place] = operand(0);
    break;
  }
  case Code::StoreMarked:
    marked.try_emplace({operand(0), operand(1)}, 0);
    break;
  case Code::Collect: {
    SmallVector<int64_t *> wanted;
    for (int64_t index = 1; index <= step.value; ++index) {
      if (!operand(step.value + index))
        continue;
      auto place = marked.find({operand(0), operand(index)});
      if (place == marked.end())
        return false;
      wanted.push_back(&place->second);
    }
    for (int64_t *count : wanted)
      ++*count;
    break;
  }
  case Code::Barrier:
    if (!arriveAndWait(thread, blocks[thread.block].barriers[step.value],
                       step.other ? step.other : countThreads()))
      return false;
    break;
  case Code::BarrierArrive:
    arrive(thread, blocks[thread.block].barriers[step.value], step.other);
    break;
  case Code::ClusterBarrier:
    if (!arriveAndWait(thread, blocks[getBlock(0)].clusterBarrier,
                       cluster * countThreads()))
      return false;
    break;
  case Code::End:
    return false;
  }
  thread.at = next;
  return true;
}

bool KernelSimulation::advance(Thread &thread) {
  size_t before = thread.at;
  bool hasMoved = false;
  while (execute(thread, steps[thread.at]))
    hasMoved = true;
  return hasMoved || thread.at != before;
}

KernelSimulation::Result KernelSimulation::run(int64_t tokens) {
  auto blockCount = static_cast<int64_t>(kernel.getBlocks());
  blocks.assign(blockCount, {});
  semaphores.clear();
  marked.clear();
  products.clear();
  threads.clear();
  goals.clear();
  earlyCopies = excessCopies = wrongReleases = 0;
  for (Block &block : blocks)
    block.rings.resize(rings.size());
  // Create threads that run ahead first, for all blocks.
  for (int64_t index : threadIndices) {
    for (int64_t block = 0; block < blockCount; ++block) {
      Thread thread;
      thread.block = block;
      thread.index = index;
      thread.values.resize(slots.size());
      for (BlockArgument argument : kernel.getBody().getArguments()) {
        auto slot = slots.find(argument);
        if (slot != slots.end())
          thread.values[slot->second] =
              argument.getType().isInteger() ? tokens : argument.getArgNumber();
      }
      threads.push_back(std::move(thread));
    }
  }
  bool hasMoved = true;
  while (hasMoved) {
    hasMoved = false;
    // Start again with the first thread, so that threads that run ahead get as
    // far as they can.
    for (Thread &thread : threads)
      hasMoved |= advance(thread);
  }
  Result result{true, ""};
  llvm::raw_string_ostream os(result.waiting);
  for (const Thread &thread : threads) {
    const Step &step = steps[thread.at];
    if (step.code == Code::End)
      continue;
    result.hasEnded = false;
    os << "block " << thread.block << " thread " << thread.index << ": "
       << step.op->getName();
    for (unsigned slot : step.operands)
      os << " " << (thread.values[slot] & 0xffffffff);
    os << "\n";
  }
  return result;
}
