//===- KernelSimulation.h - Simulate the waits of a kernel ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_UNITTESTS_CODEGEN_KERNELSIMULATION_H
#define FUSE_UNITTESTS_CODEGEN_KERNELSIMULATION_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tile/IR/TileOps.h"

#include <deque>
#include <map>

namespace fuse {

/// The kernels of a gated MLP with a schedule, in bf16 or with 8-bit weights
/// and activations. Null if the schedule does not fit.
mlir::OwningOpRef<mlir::ModuleOp> compileMLP(mlir::MLIRContext &context,
                                             int64_t width, int64_t hidden,
                                             llvm::StringRef schedule,
                                             bool isF8 = false);

/// Simulates a `tile.kernel` without its data. Integers, branches, rings,
/// semaphores and barriers behave as in the kernel; floats are ignored. Every
/// thread runs until all threads have ended or wait. Counts that threads wait
/// for only grow, so the final state does not depend on the order of threads. A
/// deadlock thus occurs in every order or in none.
///
/// Of each warp only lane 0 is simulated, and lane 1 if it releases stages for
/// the other block of a cluster. Copies complete immediately.
class KernelSimulation {
public:
  /// Lists each waiting thread with its block, its thread and the op.
  struct Result {
    bool hasEnded;
    std::string waiting;
  };

  /// Operands of a product: a box of a tensor and bytes of a buffer. Both are
  /// named by the argument of the kernel.
  struct Product {
    unsigned tokens, weights;
    int64_t column, row, offset;
    auto asTuple() const {
      return std::make_tuple(tokens, weights, column, row, offset);
    }
    bool operator<(const Product &other) const {
      return asTuple() < other.asTuple();
    }
    bool operator==(const Product &other) const {
      return asTuple() == other.asTuple();
    }
  };

  /// `threads` are the simulated threads of a block. Those that run ahead of
  /// the others come first.
  KernelSimulation(tile::KernelOp kernel, llvm::ArrayRef<int64_t> threads);

  /// Runs all blocks. `tokens` is the value of the integer argument, the number
  /// of tokens. Semaphores start at zero.
  Result run(int64_t tokens);

  /// Number of times that each thread issued each product in the last run.
  const std::map<int64_t, std::map<Product, int64_t>> &getProducts() const {
    return products;
  }
  /// Checks whether a copy of a tensor, named by its argument, may read a
  /// place. Copies that read too early are counted.
  std::function<bool(unsigned argument, int64_t column, int64_t row)> isThere;
  int64_t getEarlyCopies() const { return earlyCopies; }
  /// Number of copies that exceed the bytes for which a stage was acquired.
  int64_t getExcessCopies() const { return excessCopies; }
  /// Number of releases of a stage that pending products of the thread may
  /// still read, or that exceed its number of consumers.
  int64_t getWrongReleases() const { return wrongReleases; }
  /// Number of semaphores for which the count awaited by a
  /// `tile.semaphore.wait` differs from the final count.
  int64_t countInexactWaits() const;
  /// Number of arrivals at a semaphore of a buffer, which the argument names.
  int64_t countArrivals(unsigned argument, int64_t index) const;
  /// Places of buffers at which tagged values were stored in the last run, by
  /// argument and index. The value is the number of times that each was
  /// collected.
  const std::map<std::pair<int64_t, int64_t>, int64_t> &getMarked() const {
    return marked;
  }

private:
  enum class Code {
    Constant,
    Binary,
    Compare,
    Select,
    Move,
    Jump,
    JumpUnless,
    JumpUnlessWarp,
    Id,
    Acquire,
    Wait,
    Release,
    Copy,
    CopyTensor,
    Multiply,
    Commit,
    AwaitProducts,
    Semaphore,
    Arrive,
    AwaitSemaphore,
    ArriveAndWait,
    Load,
    Store,
    StoreMarked,
    Collect,
    Barrier,
    BarrierArrive,
    ClusterBarrier,
    End
  };
  struct Step {
    Code code = Code::End;
    mlir::Operation *op = nullptr;
    unsigned result = 0;
    llvm::SmallVector<unsigned, 4> operands;
    /// Target of a jump.
    size_t target = 0;
    /// A constant, or other parameters of the step.
    int64_t value = 0, other = 0;
  };
  struct Ring {
    int64_t stages, bytes, consumers;
  };
  /// A use of a ring in a block.
  struct Use {
    /// Number of bytes for which it was acquired, or -1 before that.
    int64_t announced = -1, landed = 0, released = 0;
    Product content = {};
  };
  struct BarrierState {
    int64_t arrived = 0, passed = 0;
  };
  struct Block {
    std::vector<std::deque<Use>> rings;
    std::map<std::pair<int64_t, int64_t>, int64_t> scratch;
    /// Barriers by number, and the cluster barrier.
    std::map<int64_t, BarrierState> barriers;
    BarrierState clusterBarrier;
  };
  struct Thread {
    int64_t block = 0, index = 0;
    size_t at = 0;
    /// Whether the thread has arrived where it waits, and the count at which it
    /// continues.
    bool hasArrived = false;
    int64_t goal = 0;
    /// Number of arrivals at each barrier.
    std::map<const BarrierState *, int64_t> arrivals;
    std::vector<int64_t> values;
    /// Uses that pending products read, by group. The last group is not
    /// committed.
    std::deque<llvm::SmallVector<int64_t, 2>> pendingProducts = {{}};
    /// Values that the thread itself has stored to scratch. Lanes of a warp
    /// store to the same place, in order only because they run in lockstep.
    std::map<std::pair<int64_t, int64_t>, int64_t> scratch;
  };

  // Compilation of the kernel to steps.
  unsigned slotOf(mlir::Value value);
  void compile(mlir::Block &block);
  void compile(mlir::Operation &op);
  Step &add(Code code, mlir::Operation &op, mlir::ValueRange operands = {},
            mlir::Value result = {}, int64_t value = 0, int64_t other = 0);
  void move(mlir::Operation &op, mlir::ValueRange from, mlir::ValueRange to);
  static bool isTracked(mlir::Value value);

  /// Number of threads in the simulated warps.
  int64_t countThreads() const {
    return 32 * llvm::count_if(threadIndices,
                               [](int64_t index) { return index % 32 == 0; });
  }
  /// Runs a thread. Returns whether it made progress.
  bool advance(Thread &thread);
  /// Executes one step. Returns false if the thread has to wait.
  bool execute(Thread &thread, const Step &step);
  Use &getUse(int64_t block, int64_t handle);
  /// Lane 0 arrives for its whole warp, and lane 1 does not count.
  static void arrive(Thread &thread, BarrierState &barrier, int64_t count);
  static bool arriveAndWait(Thread &thread, BarrierState &barrier,
                            int64_t count);

  tile::KernelOp kernel;
  llvm::SmallVector<int64_t> threadIndices;
  int64_t cluster;
  std::vector<Step> steps;
  llvm::DenseMap<mlir::Value, unsigned> slots;
  std::vector<Ring> rings;

  std::vector<Block> blocks;
  std::vector<Thread> threads;
  std::map<std::pair<int64_t, int64_t>, int64_t> semaphores, goals, marked;
  std::map<int64_t, std::map<Product, int64_t>> products;
  int64_t earlyCopies = 0, excessCopies = 0, wrongReleases = 0;
  std::string error;
};

} // namespace fuse

#endif // FUSE_UNITTESTS_CODEGEN_KERNELSIMULATION_H
