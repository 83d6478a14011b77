//===- ScheduleTable.h - Measured schedules ------------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_SCHEDULETABLE_H
#define FUSE_ANALYSIS_SCHEDULETABLE_H

#include "fuse/Analysis/DecodeProblem.h"

namespace fuse {

/// Schedules of a JSON file, by what they depend on: family, widths, element
/// type and number of tokens.
class ScheduleTable {
public:
  /// Reads `path`; none with a reason in `error` when it can not be.
  static std::optional<ScheduleTable>
  read(llvm::StringRef path, mlir::MLIRContext *context, std::string &error);

  /// The schedule of `problem` whose tile is `tokens` rounded up to 8, or
  /// null. An exact kernel takes none with rounded partial sums.
  tile::ScheduleAttr find(const DecodeProblem &problem, int64_t tokens) const;

private:
  struct Row {
    std::string family, element;
    llvm::SmallVector<int64_t> widths;
    tile::ScheduleAttr schedule;
  };
  std::vector<Row> rows;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_SCHEDULETABLE_H
