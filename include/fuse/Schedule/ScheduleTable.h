//===- ScheduleTable.h - Tables of measured schedules -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_SCHEDULETABLE_H
#define FUSE_SCHEDULE_SCHEDULETABLE_H

#include "fuse/Schedule/CostModel.h"

namespace fuse {

/// The properties of an op that determine its schedule.
struct ScheduleKey {
  /// Name of the op, and the element type of its products.
  std::string family, element;
  /// Sizes of the input, of the hidden layer if there is one, and of the
  /// outputs.
  llvm::SmallVector<int64_t> widths;
  /// Maximum number of tokens of the kernel; 0 for any number.
  int64_t tokens = 0;
  /// A relaxed kernel may round partial sums.
  bool relaxed = false;

  bool operator==(const ScheduleKey &other) const;
};

/// Describes `op` for the kernels of `gpu`. If they do not support it, sets
/// `reason`.
std::optional<MlpProblem>
describeProducts(mlir::Operation *op, const GpuModel &gpu, std::string &reason);

/// The key of an op that the scheduled path supports. `tokens` is used for ops
/// with a dynamic number of tokens. On failure, sets `reason`.
std::optional<ScheduleKey> getScheduleKey(mlir::Operation *op, int64_t tokens,
                                          std::string &reason,
                                          const GpuModel &gpu = GpuModel());

/// The reason why `schedule` is invalid for `op` on `gpu`, or an empty string.
std::string getScheduleProblem(mlir::Operation *op, mlir::Attribute schedule,
                               int64_t tokens, const GpuModel &gpu);

/// A JSON file of schedules that fuse-tune measured.
class ScheduleTable {
public:
  struct Row {
    ScheduleKey key;
    mlir::Attribute schedule;
  };

  /// Version of the file format.
  static constexpr int64_t kVersion = 1;
  /// Identifies the compiler that built the measured kernels.
  static llvm::StringRef getCompiler();

  /// Reads a file for `chip` with `multiprocessors` SMs that was made with this
  /// compiler. Returns nothing and sets `error` on failure.
  static std::optional<ScheduleTable>
  read(llvm::StringRef path, llvm::StringRef chip, int64_t multiprocessors,
       mlir::MLIRContext *context, std::string &error);

  /// The measured schedule for `key`, or null.
  mlir::Attribute find(const ScheduleKey &key) const;

private:
  std::vector<Row> rows;
};

} // namespace fuse

#endif // FUSE_SCHEDULE_SCHEDULETABLE_H
