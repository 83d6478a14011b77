//===- ScheduleTable.h - Measured schedules ------------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_SCHEDULETABLE_H
#define FUSE_SCHEDULE_SCHEDULETABLE_H

#include "fuse/Schedule/CostModel.h"

namespace fuse {

/// What the schedule of an op depends on.
struct ScheduleKey {
  /// Name of the op, and the element type of its products.
  std::string family, element;
  /// Sizes of the input, of the hidden layer where there is one, and of the
  /// outputs.
  llvm::SmallVector<int64_t> widths;
  /// Most tokens that the kernel serves, 0 for any number.
  int64_t tokens = 0;
  /// Only a relaxed kernel may round partial sums.
  bool relaxed = false;

  bool operator==(const ScheduleKey &other) const;
};

/// The key of an op that the scheduled path has a kernel for. `tokens` is for
/// ops with a dynamic number of them. Otherwise says why there is none.
std::optional<ScheduleKey> getScheduleKey(mlir::Operation *op, int64_t tokens,
                                          std::string &reason);

/// Why `schedule` cannot be the schedule of `op` on `gpu`, or an empty string.
std::string getScheduleProblem(mlir::Operation *op, mlir::Attribute schedule,
                               int64_t tokens, const GpuModel &gpu);

/// Schedules that fuse-tune measured, as a JSON file.
class ScheduleTable {
public:
  struct Row {
    ScheduleKey key;
    mlir::Attribute schedule;
  };

  /// Version of the format.
  static constexpr int64_t kVersion = 1;
  /// The compiler whose kernels a table was measured with.
  static llvm::StringRef getCompiler();

  /// Reads a file that is for `chip` with `multiprocessors` SMs and that this
  /// compiler made; none with a reason in `error` when it cannot be.
  static std::optional<ScheduleTable>
  read(llvm::StringRef path, llvm::StringRef chip, int64_t multiprocessors,
       mlir::MLIRContext *context, std::string &error);

  /// The schedule that was measured for `key`, or null.
  mlir::Attribute find(const ScheduleKey &key) const;

private:
  std::vector<Row> rows;
};

} // namespace fuse

#endif // FUSE_SCHEDULE_SCHEDULETABLE_H
