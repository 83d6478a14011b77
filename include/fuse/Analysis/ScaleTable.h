//===- ScaleTable.h - Static scales from a file -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_SCALETABLE_H
#define FUSE_ANALYSIS_SCALETABLE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>

namespace fuse {

/// The scales of one linear. `real value = scale * stored value`.
struct LinearScales {
  /// Empty if the table omits it, where that is allowed.
  std::optional<double> input;
  /// One number for the whole weight. Empty if the weight has one scale per
  /// output channel, which the model stores as a parameter.
  std::optional<double> weight;
  /// The storage type that the scales were made for, such as "f8E4M3FN".
  std::optional<std::string> storage;
};

using ScaleTable = std::map<std::string, LinearScales>;

/// Reads a table of scales by linear in the format of calibration:
///
/// \code
///   {"mlp.up_proj": {"input_scale": 0.021, "weight_scale": 0.0013,
///                    "storage": "f8E4M3FN"},
///    "mlp.down_proj": {"input_scale": 0.04, "weight_scale": "per_channel",
///                      "storage": "f8E4M3FN"}}
/// \endcode
///
/// `storage` is optional. Without `needsInput`, `input_scale` is optional too.
/// The error of an invalid file names the file and the reason.
llvm::Expected<ScaleTable> readScaleTable(llvm::StringRef path,
                                          bool needsInput = true);

} // namespace fuse

#endif // FUSE_ANALYSIS_SCALETABLE_H
