//===- PrefillWaitsTest.cpp - Blocks of a prefill kernel never hang -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blocks of a launch of both products wait for each other's hidden units. Their
// own hidden units are not stored before the first k-steps of GEMM2. These
// tests simulate the generated kernels for several schedules and numbers of
// tokens. They check that all threads end, and that every k-step of every pair
// of tiles is multiplied once. No hidden units may be read before they are
// announced. No stage may be released while products read it, or once too
// often. Loops of math warps must not depend on values that may differ between
// lanes.
//
//===----------------------------------------------------------------------===//

#include "KernelSimulation.h"

#include "fuse/IR/FuseDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "tile/IR/TileDialect.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace fuse;

namespace {

/// A gated MLP with a schedule.
struct Case {
  int64_t width, hidden, tokens, blocks, splitK;
  std::string more = "";
  bool isF8 = false;
  int64_t group = 16;

  int64_t countTiles() const { return llvm::divideCeil(hidden, 128); }
  /// Columns of a k-step.
  int64_t getColumns() const { return isF8 ? 128 : 64; }
  std::string getSchedule() const {
    return ("#tile.prefill_schedule<tokens = " + llvm::Twine(tokens) +
            ", blocks = " + llvm::Twine(blocks) +
            ", split_k = " + llvm::Twine(splitK) +
            ", stages = 4, group = " + llvm::Twine(group) + ", launches = 1" +
            more + ", dependent = true>")
        .str();
  }
};

/// Values that may differ between lanes of a warp as far as an assembler can
/// tell: those derived from a thread or lane number.
class VaryingValues {
public:
  explicit VaryingValues(Operation *root) {
    bool hasGrown = true;
    while (hasGrown) {
      size_t before = values.size();
      root->walk([&](Operation *op) { visit(op); });
      hasGrown = values.size() > before;
    }
  }

  /// Whether lanes of a warp may leave the loop at different times, or only
  /// some of them may enter it.
  bool isDivergent(LoopLikeOpInterface loop) const {
    Operation *op = loop;
    if (auto repeat = dyn_cast<scf::WhileOp>(op))
      if (values.contains(repeat.getConditionOp().getCondition()))
        return true;
    if (auto count = dyn_cast<scf::ForOp>(op))
      for (Value bound :
           {count.getLowerBound(), count.getUpperBound(), count.getStep()})
        if (values.contains(bound))
          return true;
    while ((op = op->getParentOp()))
      if (auto branch = dyn_cast<scf::IfOp>(op))
        if (values.contains(branch.getCondition()))
          return true;
    return false;
  }

private:
  void visit(Operation *op) {
    auto id = dyn_cast<tile::IdOp>(op);
    bool isOfLane = id && (id.getKind() == tile::IdKind::Thread ||
                           id.getKind() == tile::IdKind::Lane);
    bool varies = llvm::any_of(
        op->getOperands(), [&](Value value) { return values.contains(value); });
    if (auto loop = dyn_cast<LoopLikeOpInterface>(op))
      return visitLoop(loop);
    if (auto yield = dyn_cast<scf::YieldOp>(op)) {
      if (isa<scf::IfOp>(op->getParentOp()))
        add(op->getOperands(), op->getParentOp()->getResults());
      return;
    }
    if (isOfLane || varies)
      values.insert_range(op->getResults());
  }

  void visitLoop(LoopLikeOpInterface loop) {
    add(loop.getInits(), loop.getRegionIterArgs());
    add(loop.getYieldedValues(), loop.getRegionIterArgs());
    add(loop.getYieldedValues(), loop->getResults());
    if (auto count = dyn_cast<scf::ForOp>(*loop))
      add({count.getLowerBound()}, {count.getInductionVar()});
  }

  void add(ValueRange from, ValueRange to) {
    for (auto [source, target] : llvm::zip(from, to))
      if (values.contains(source))
        values.insert(target);
  }

  llvm::DenseSet<Value> values;
};

} // namespace

/// Number of loops of math warps in which lanes may diverge.
static int64_t countDivergentLoops(tile::KernelOp kernel) {
  VaryingValues varying(kernel);
  int64_t count = 0;
  kernel.walk([&](tile::SpecializeOp roles) {
    roles.getRoles().back().walk(
        [&](LoopLikeOpInterface loop) { count += varying.isDivergent(loop); });
  });
  return count;
}

namespace {

class PrefillWaitsTest : public ::testing::Test {
protected:
  PrefillWaitsTest() {
    context.loadDialect<arith::ArithDialect, func::FuncDialect, FuseDialect,
                        gpu::GPUDialect, math::MathDialect, scf::SCFDialect,
                        tile::TileDialect>();
  }

  /// The kernel of both products, or null if the schedule does not fit.
  tile::KernelOp compile(const Case &item) {
    module = compileMLP(context, item.width, item.hidden, item.getSchedule(),
                        item.isF8);
    if (!module)
      return {};
    tile::KernelOp both;
    module->walk([&](tile::KernelOp kernel) {
      if (llvm::count_if(kernel.getBody().getArgumentTypes(),
                         llvm::IsaPred<tile::TensorMapType>) == 2)
        both = kernel;
    });
    return both;
  }

  /// Simulates lane 0 of the active warps. Copies of all blocks run ahead as
  /// far as they can, which reveals missing waits.
  static KernelSimulation simulate(tile::KernelOp kernel) {
    SmallVector<int64_t> threads = {0, 32, 64, 96};
    for (int64_t warp = 4; warp < 12; ++warp)
      threads.push_back(32 * warp);
    if (kernel.getCluster() > 1)
      threads.append({225, 353});
    return KernelSimulation(kernel, threads);
  }

  /// Whether the kernel of both products prepares tokens of later groups. Then
  /// it has buffers for these and their inputs, in addition to hidden units and
  /// outputs.
  static bool preparesRest(tile::KernelOp kernel) {
    return llvm::count_if(kernel.getBody().getArgumentTypes(), [](Type type) {
             auto buffer = dyn_cast<tile::BufferType>(type);
             return buffer && isa<FloatType>(buffer.getElementType());
           }) > 3;
  }

  void check(const Case &item, ArrayRef<int64_t> counts) {
    SCOPED_TRACE(item.getSchedule() + " of " + std::to_string(item.width) +
                 "/" + std::to_string(item.hidden));
    tile::KernelOp kernel = compile(item);
    ASSERT_TRUE(kernel);
    EXPECT_EQ(countDivergentLoops(kernel), 0);
    KernelSimulation simulation = simulate(kernel);
    for (int64_t tokens : counts)
      check(item, kernel, simulation, tokens);
  }

  void check(const Case &item, tile::KernelOp kernel,
             KernelSimulation &simulation, int64_t tokens) {
    SCOPED_TRACE(std::to_string(tokens) + " tokens");
    SmallVector<unsigned> maps, weights, semaphores;
    for (BlockArgument argument : kernel.getBody().getArguments()) {
      unsigned number = argument.getArgNumber();
      if (isa<tile::TensorMapType>(argument.getType()))
        maps.push_back(number);
      auto buffer = dyn_cast<tile::BufferType>(argument.getType());
      if (buffer && buffer.getElementType().isInteger(8))
        weights.push_back(number);
      if (buffer && buffer.getElementType().isInteger(32))
        semaphores.push_back(number);
    }
    // One semaphore for each token tile and each eighth (or sixteenth) of the
    // tiles.
    int64_t units = llvm::divideCeil(item.tokens, 128) * item.countTiles();
    bool isUneven = StringRef(item.more).contains("uneven_split_k") &&
                    units > item.blocks && units % item.blocks != 0;
    int64_t tiles = item.countTiles();
    int64_t tilesPerSemaphore = llvm::divideCeil(tiles, isUneven ? 16 : 8);
    int64_t semaphoresPerTile = llvm::divideCeil(tiles, tilesPerSemaphore);
    auto cluster = static_cast<int64_t>(kernel.getCluster());
    int64_t prepared =
        preparesRest(kernel) ? 128 * item.group * cluster : 1 << 20;
    // The last semaphore is that of the prepared rows.
    int64_t lastSemaphore =
        llvm::alignTo(llvm::divideCeil(item.tokens, 128), cluster) *
        semaphoresPerTile;
    if (StringRef(item.more).contains("stream_k"))
      lastSemaphore += 8 * item.blocks;
    simulation.isThere = [&](unsigned map, int64_t column, int64_t row) {
      // Rows of later groups are valid once all blocks have prepared theirs.
      if (map != maps[1])
        return row < prepared ||
               simulation.countArrivals(semaphores.back(), lastSemaphore) ==
                   2 * item.blocks;
      int64_t semaphore = column / 128 / tilesPerSemaphore;
      return simulation.countArrivals(semaphores.back(),
                                      row / 128 * semaphoresPerTile +
                                          semaphore) >=
             std::min(tilesPerSemaphore, tiles - semaphore * tilesPerSemaphore);
    };
    KernelSimulation::Result result = simulation.run(tokens);
    EXPECT_TRUE(result.hasEnded) << result.waiting;
    EXPECT_EQ(simulation.getEarlyCopies(), 0);
    EXPECT_EQ(simulation.getWrongReleases(), 0);

    std::map<KernelSimulation::Product, int64_t> all;
    int64_t tokenTiles = llvm::alignTo(llvm::divideCeil(tokens, 128), cluster);
    int64_t columns = item.getColumns();
    auto addAll = [&](size_t index, int64_t width, int64_t tiles) {
      int64_t steps = llvm::divideCeil(width, columns);
      for (int64_t token = 0; token < tokenTiles; ++token)
        for (int64_t step = 0; step < steps; ++step)
          for (int64_t tile = 0; tile < tiles; ++tile)
            all[{maps[index], weights[index], step * columns, token * 128,
                 (step * tiles + tile) * 32768 - 16384}] = 1;
    };
    addAll(0, item.width, tiles);
    addAll(1, item.hidden, llvm::divideCeil(item.width, 256));
    for (int64_t group : {0, 1}) {
      auto products = simulation.getProducts().find(128 * (group + 1));
      if (tokens == 0) {
        EXPECT_TRUE(products == simulation.getProducts().end());
        continue;
      }
      ASSERT_TRUE(products != simulation.getProducts().end());
      EXPECT_TRUE(products->second == all);
    }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace

/// A kernel of two blocks in which thread 32 consumes `taken` stages, of which
/// thread 0 fills two. Then the blocks wait for each other, before or after
/// they have arrived themselves.
static std::string getKernel(int64_t taken, bool arrivesFirst) {
  std::string arrive = "tile.semaphore.arrive %mine ";
  std::string wait = "tile.semaphore.wait %other epoch(%c0) arrivals(%c1) ";
  return llvm::formatv(R"mlir(
    gpu.module @kernels {{
      tile.kernel @k(%w: !tile.buffer<i8>, %semaphores: !tile.buffer<i32>,
                      %n: i32)
          blocks(2) threads(64) shared_bytes(32768) cooperative {{
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %c2 = arith.constant 2 : i32
        %taken = arith.constant {0} : i32
        %c0_i64 = arith.constant 0 : i64
        %ring = tile.ring.create at(0) consumers(1) : !tile.ring<2 x 16384>
        tile.barrier 0
        tile.specialize {{
          role "copy" warps(1) {{
            scf.for %i = %c0 to %c2 step %c1 : i32 {{
              %s = tile.ring.acquire %ring[%i] : !tile.ring<2 x 16384>
              tile.copy %w[%c0_i64] to %s normal
                : !tile.buffer<i8>, !tile.stage<16384>
            }
            %b = tile.id block
            %o = arith.subi %c1, %b : i32
            %mine = tile.semaphore %semaphores[%b] : !tile.buffer<i32>
            %other = tile.semaphore %semaphores[%o] : !tile.buffer<i32>
            {1}
          }
          role "take" warps(1) {{
            scf.for %i = %c0 to %taken step %c1 : i32 {{
              %s = tile.ring.wait %ring[%i] : !tile.ring<2 x 16384>
              tile.ring.release %ring[%i] : !tile.ring<2 x 16384>
            }
          }
        }
        tile.return
      }
    })mlir",
                       taken, arrivesFirst ? arrive + wait : wait + arrive);
}

TEST_F(PrefillWaitsTest, WhoeverWaitsIsNamed) {
  auto run = [&](int64_t taken, bool arrivesFirst) {
    module =
        parseSourceString<ModuleOp>(getKernel(taken, arrivesFirst), &context);
    tile::KernelOp kernel;
    module->walk([&](tile::KernelOp op) { kernel = op; });
    return KernelSimulation(kernel, {0, 32}).run(0);
  };
  EXPECT_TRUE(run(2, true).hasEnded);
  // A deadlock of two blocks.
  EXPECT_EQ(run(2, false).waiting,
            "block 0 thread 0: tile.semaphore.wait 1 0 1\n"
            "block 1 thread 0: tile.semaphore.wait 0 0 1\n");
  // Stages that no warp fills.
  EXPECT_EQ(run(3, true).waiting, "block 0 thread 32: tile.ring.wait 0 2\n"
                                  "block 1 thread 32: tile.ring.wait 0 2\n");
}

/// Three products on a ring of two stages. `pending` groups are in flight when
/// a stage is released, and each stage is released `releases` times.
static std::string getProducts(int64_t pending, int64_t releases) {
  std::string release = "tile.ring.release %ring[%i] : !tile.ring<2 x 16384>\n";
  return llvm::formatv(R"mlir(
    gpu.module @kernels {{
      tile.kernel @k(%w: !tile.buffer<i8>) blocks(1) threads(256)
          shared_bytes(32768) {{
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %c3 = arith.constant 3 : i32
        %half = arith.constant 8192 : i32
        %c0_i64 = arith.constant 0 : i64
        %ring = tile.ring.create at(0) consumers(1) : !tile.ring<2 x 16384>
        tile.barrier 0
        tile.specialize {{
          role "copy" warps(4) {{
            scf.for %i = %c0 to %c3 step %c1 : i32 {{
              %s = tile.ring.acquire %ring[%i] : !tile.ring<2 x 16384>
              tile.copy %w[%c0_i64] to %s normal
                : !tile.buffer<i8>, !tile.stage<16384>
            }
          }
          role "multiply" warps(4) {{
            %zero = tile.acc.zero : !tile.acc<64x8xf32>
            %sums = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %zero)
                -> (!tile.acc<64x8xf32>) : i32 {{
              %s = tile.ring.wait %ring[%i] : !tile.ring<2 x 16384>
              %a = tile.view %s[%c0] : !tile.stage<16384>
                -> !tile.shared<64x64xbf16, swizzle 128>
              %b = tile.view %s[%half] : !tile.stage<16384>
                -> !tile.shared<8x64xbf16, swizzle 128>
              %next = tile.mma %a, %b into %acc
                : !tile.shared<64x64xbf16, swizzle 128>,
                  !tile.shared<8x64xbf16, swizzle 128>, !tile.acc<64x8xf32>
              tile.mma.commit
              tile.mma.wait {0}
              {1}
              scf.yield %next : !tile.acc<64x8xf32>
            }
          }
        }
        tile.return
      }
    })mlir",
                       pending, releases == 1 ? release : release + release);
}

TEST_F(PrefillWaitsTest, WrongReleasesAreCounted) {
  auto count = [&](int64_t pending, int64_t releases) {
    module =
        parseSourceString<ModuleOp>(getProducts(pending, releases), &context);
    tile::KernelOp kernel;
    module->walk([&](tile::KernelOp op) { kernel = op; });
    KernelSimulation simulation(kernel, {0, 128});
    EXPECT_TRUE(simulation.run(0).hasEnded);
    return simulation.getWrongReleases();
  };
  EXPECT_EQ(count(/*pending=*/0, /*releases=*/1), 0);
  // Released while products read the stage.
  EXPECT_EQ(count(/*pending=*/1, /*releases=*/1), 3);
  // Released more often than the ring has consumers.
  EXPECT_EQ(count(/*pending=*/0, /*releases=*/2), 3);
}

/// A loop of math warps with a bound that `from` names, entered if `where` is
/// true.
static std::string getLoop(StringRef from, StringRef where) {
  return llvm::formatv(R"mlir(
    gpu.module @kernels {{
      tile.kernel @k(%n: i32) blocks(1) threads(256) shared_bytes(0) {{
        tile.specialize {{
          role "stream" warps(4) {{
            %thread = tile.id thread
            scf.for %i = %thread to %n step %thread : i32 {{
              tile.warp_sync
            }
          }
          role "multiply" warps(4) {{
            %block = tile.id block
            %warp = tile.id warp
            %lane = tile.id lane
            %thread = tile.id thread
            %sum = arith.addi %{0}, %warp : i32
            %enters = arith.cmpi ult, %{1}, %n : i32
            scf.if %enters {{
              %end = scf.for %i = %warp to %n step %block
                  iter_args(%at = %sum) -> (i32) : i32 {{
                %next = arith.addi %at, %i : i32
                scf.yield %next : i32
              }
              scf.for %i = %warp to %end step %block : i32 {{
                tile.warp_sync
              }
            }
          }
        }
        tile.return
      }
    })mlir",
                       from, where);
}

TEST_F(PrefillWaitsTest, DivergentLoopsAreCounted) {
  auto count = [&](StringRef from, StringRef where) {
    module = parseSourceString<ModuleOp>(getLoop(from, where), &context);
    tile::KernelOp kernel;
    module->walk([&](tile::KernelOp op) { kernel = op; });
    return countDivergentLoops(kernel);
  };
  EXPECT_EQ(count("block", "warp"), 0);
  // The first loop carries the bound of the second one.
  EXPECT_EQ(count("lane", "warp"), 1);
  EXPECT_EQ(count("thread", "warp"), 1);
  // Not all lanes enter these loops.
  EXPECT_EQ(count("block", "thread"), 2);
}

TEST_F(PrefillWaitsTest, Ranges) {
  for (int64_t blocks : {8, 12})
    for (int64_t hidden : {768, 1536, 4096})
      for (int64_t splitK : {2, 4})
        check({512, hidden, 128, blocks, splitK}, {0, 1, 128});
  check({512, 1536, 384, 16, 2}, {129, 300, 384});
}

TEST_F(PrefillWaitsTest, WholeTiles) {
  for (int64_t blocks : {5, 8, 12})
    for (int64_t hidden : {768, 1536, 4096})
      check({512, hidden, 384, blocks, 1}, {0, 1, 129, 384});
}

TEST_F(PrefillWaitsTest, UnevenSplitK) {
  std::string unevenSplitK = ", uneven_split_k = true";
  for (int64_t blocks : {8, 11, 12, 16})
    for (int64_t hidden : {1152, 1536, 2176, 4096})
      for (int64_t splitK : {2, 3, 4})
        check({512, hidden, 128, blocks, splitK, unevenSplitK}, {0, 1, 128});
  for (int64_t blocks : {12, 20, 31})
    for (int64_t hidden : {1536, 2176, 4096})
      for (int64_t splitK : {2, 3, 5})
        if (splitK * 4 <= blocks)
          check({512, hidden, 256, blocks, splitK, unevenSplitK},
                {1, 129, 256});
  check({512, 4096, 640, 132, 12, unevenSplitK}, {129, 300, 511, 640});
}

/// The schedule of the cost model for one of the measured widths.
TEST_F(PrefillWaitsTest, UnevenSplitKOfAllBlocks) {
  check({4096, 12288, 256, 132, 4, ", uneven_split_k = true"}, {1, 129, 256});
}

TEST_F(PrefillWaitsTest, StreamK) {
  for (int64_t blocks : {8, 13})
    for (int64_t hidden : {1536, 4096})
      check({512, hidden, 640, blocks, 1, ", stream_k = true"},
            {0, 1, 128, 300, 640});
  // CTA groups if there are few token tiles, single blocks if there are many.
  check({512, 768, 2048, 36, 1, ", stream_k = true"}, {640, 2048});
}

TEST_F(PrefillWaitsTest, Clusters) {
  check({512, 4096, 512, 8, 1, ", cluster = 2, stream_k = true"},
        {1, 128, 300, 512});
  check({512, 1536, 256, 8, 2, ", cluster = 2"}, {1, 128, 256});
}

/// If the first group takes long, rows of later groups of token tiles are
/// prepared in the same launch.
TEST_F(PrefillWaitsTest, LaterGroups) {
  std::string pairs = ", cluster = 2, stream_k = true";
  for (int64_t hidden : {3328, 3584, 4096}) {
    Case item = {512, hidden, 512, 8, 1, pairs};
    item.group = 1;
    check(item, {0, 1, 128, 256, 257, 512});
    EXPECT_EQ(preparesRest(compile(item)), hidden > 3328) << hidden;
  }
  check({512, 7168, 512, 12, 1, pairs, true, 1}, {257, 512});
}

/// With scales to multiply by, the second warpgroup also leaves the tensor
/// cores to the first one at the end of GEMM1 tiles.
TEST_F(PrefillWaitsTest, EightBits) {
  for (std::string more : {"", ", uneven_split_k = true", ", stream_k = true"})
    for (int64_t width : {1280, 1408, 1536})
      check({width, 4096, 256, 24, StringRef(more).contains("stream_k") ? 1 : 2,
             more, true},
            {1, 129, 256});
  check({1536, 4096, 512, 8, 1, ", cluster = 2, stream_k = true", true},
        {1, 128, 300, 512});
}

/// `--gtest_shuffle --gtest_random_seed=N` draws other schedules.
TEST_F(PrefillWaitsTest, RandomSchedules) {
  std::mt19937 random(::testing::UnitTest::GetInstance()->random_seed());
  auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % (most - least + 1));
  };
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  int64_t run = 0;
  while (run < 24) {
    Case item = {64 * draw(4, 20), 64 * draw(4, 64), 128 * draw(1, 5),
                 2 * draw(4, 24), draw(1, 6)};
    const char *const kinds[] = {"", ", uneven_split_k = true",
                                 ", stream_k = true", ", cluster = 2",
                                 ", cluster = 2, stream_k = true"};
    item.more = kinds[draw(0, std::size(kinds) - 1)];
    item.isF8 = draw(0, 2) == 0;
    item.group = draw(0, 1) ? draw(1, 3) : 16;
    if (!compile(item))
      continue;
    check(item, {draw(1, item.tokens), item.tokens});
    ++run;
  }
}
