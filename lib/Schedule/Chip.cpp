//===- Chip.cpp - Supported GPUs ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/Chip.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fuse;

// Conversions of 8-bit floats came to sm_89 with PTX 8.1, later than the chip.
static constexpr int64_t kKilobyte = 1024;
static constexpr Chip kChips[] = {{"sm_80", 70, false, false, 163 * kKilobyte},
                                  {"sm_86", 71, false, false, 99 * kKilobyte},
                                  {"sm_87", 74, false, false, 163 * kKilobyte},
                                  {"sm_89", 81, true, true, 99 * kKilobyte},
                                  {"sm_90", 78, true, false, 227 * kKilobyte},
                                  {"sm_90a", 80, true, false, 227 * kKilobyte},
                                  {"sm_100", 86, true, false, 227 * kKilobyte},
                                  {"sm_100a", 86, true, false, 227 * kKilobyte},
                                  {"sm_103", 88, true, false, 227 * kKilobyte},
                                  {"sm_103a", 88, true, false, 227 * kKilobyte},
                                  {"sm_120", 87, true, true, 99 * kKilobyte},
                                  {"sm_120a", 87, true, true, 99 * kKilobyte},
                                  {"sm_121", 88, true, true, 99 * kKilobyte},
                                  {"sm_121a", 88, true, true, 99 * kKilobyte}};

std::string Chip::getFeatures() const {
  return ("+ptx" + llvm::Twine(ptxVersion)).str();
}

ArrayRef<Chip> fuse::getChips() { return kChips; }

FailureOr<Chip>
fuse::lookupChip(StringRef name,
                 function_ref<LogicalResult(const Twine &)> reportError) {
  const auto *it = llvm::find_if(
      kChips, [&](const Chip &chip) { return chip.name == name; });
  if (it != std::end(kChips))
    return *it;
  auto names = llvm::map_range(
      kChips, [](const Chip &chip) { return std::string(chip.name); });
  return reportError("unknown chip '" + name + "', expected one of " +
                     llvm::join(names, ", "));
}
