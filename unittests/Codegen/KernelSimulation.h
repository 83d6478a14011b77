//===- KernelSimulation.h - What threads of a kernel wait for - -*- C++ -*-===//
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

/// The kernels of a gated MLP in bf16, or with 8-bit weights and activations,
/// with a schedule, or null where it does not fit.
mlir::OwningOpRef<mlir::ModuleOp> compileMLP(mlir::MLIRContext &context,
                                             int64_t width, int64_t hidden,
                                             llvm::StringRef schedule,
                                             bool isF8 = false);

/// Runs a `tile.kernel` without its data: integers, branches, rings, semaphores
/// and barriers are those of the kernel, floats are left out. Every thread that
/// can go on goes on until all have ended or wait. A wait is for a count that
/// only grows, so that what is left does not depend on the order in which
/// threads run: if some of them wait for each other, they do so in every order.
///
/// Of a warp only lane 0 is run, and lane 1 where it releases stages for the
/// other block of a cluster. Copies have landed at once.
class KernelSimulation {
public:
  /// Each waiting thread is named with its block, its thread and the op.
  struct Result {
    bool hasEnded;
    std::string waiting;
  };

  /// What a warpgroup multiplies: a box of a tensor by bytes of a buffer, both
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

  /// `threads` are those of a block that run, first those that run ahead of
  /// the others as far as they can.
  KernelSimulation(tile::KernelOp kernel, llvm::ArrayRef<int64_t> threads);

  /// Runs all blocks; the integer argument of the kernel, its number of tokens,
  /// is `tokens`. Semaphores are zero.
  Result run(int64_t tokens);

  /// Products of the last run by the thread that began them, and how often.
  const std::map<int64_t, std::map<Product, int64_t>> &getProducts() const {
    return products;
  }
  /// Reads of a tensor, by its argument, that ran ahead of the announcement of
  /// `isThere`.
  std::function<bool(unsigned argument, int64_t column, int64_t row)> isThere;
  int64_t getEarlyCopies() const { return earlyCopies; }
  /// Copies of more bytes into a stage than it was acquired with.
  int64_t getExcessCopies() const { return excessCopies; }
  /// Releases of a stage that products of the releasing thread may still read,
  /// or by more than its consumers.
  int64_t getWrongReleases() const { return wrongReleases; }
  /// Semaphores that were waited for with another count than arrived in the
  /// end, by a `tile.semaphore.wait`.
  int64_t countInexactWaits() const;
  /// Arrivals at a semaphore of a buffer, by the argument of the kernel.
  int64_t countArrivals(unsigned argument, int64_t index) const;
  /// Places of buffers that marked values were stored to in the last run, by
  /// argument and index, and how often each was collected.
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
    Word,
    Arrive,
    AwaitWord,
    Meet,
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
    /// Where a jump ends.
    size_t target = 0;
    /// A constant, or what else the code has.
    int64_t value = 0, other = 0;
  };
  struct Ring {
    int64_t stages, bytes, consumers;
  };
  /// One use of a ring of a block.
  struct Use {
    /// Bytes that it was acquired with, or -1 before.
    int64_t announced = -1, landed = 0, released = 0;
    Product content = {};
  };
  struct Meeting {
    int64_t arrived = 0, passed = 0;
  };
  struct Block {
    std::vector<std::deque<Use>> rings;
    std::map<std::pair<int64_t, int64_t>, int64_t> scratch;
    /// Barriers by their number, and the cluster's.
    std::map<int64_t, Meeting> barriers;
    Meeting clusterBarrier;
  };
  struct Thread {
    int64_t block = 0, index = 0;
    size_t at = 0;
    /// Whether it has arrived where it waits, and at which count it goes on.
    bool hasArrived = false;
    int64_t goal = 0;
    /// At which barriers it has arrived, and how often.
    std::map<const Meeting *, int64_t> meetings;
    std::vector<int64_t> values;
    /// Uses that its products read, by groups, the last of which is not
    /// committed.
    std::deque<llvm::SmallVector<int64_t, 2>> maxInFlight = {{}};
    /// What it has stored to scratch itself: the lanes of a warp store the same
    /// there, one after the other only because they are in step.
    std::map<std::pair<int64_t, int64_t>, int64_t> scratch;
  };

  // What the kernel is compiled to.
  unsigned slotOf(mlir::Value value);
  void compile(mlir::Block &block);
  void compile(mlir::Operation &op);
  Step &add(Code code, mlir::Operation &op, mlir::ValueRange operands = {},
            mlir::Value result = {}, int64_t value = 0, int64_t other = 0);
  void move(mlir::Operation &op, mlir::ValueRange from, mlir::ValueRange to);
  static bool isTracked(mlir::Value value);

  /// Threads of the warps that are run.
  int64_t countThreads() const {
    return 32 * llvm::count_if(threadIndices,
                               [](int64_t index) { return index % 32 == 0; });
  }
  /// Whether the thread has gone on.
  bool advance(Thread &thread);
  /// One step, or false when it has to wait.
  bool execute(Thread &thread, const Step &step);
  Use &getUse(int64_t block, int64_t handle);
  /// A thread stands for its warp, of which lane 1 is none.
  static void arrive(Thread &thread, Meeting &meeting, int64_t count);
  static bool meet(Thread &thread, Meeting &meeting, int64_t count);

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
