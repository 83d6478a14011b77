//===- TuneFormat.h - Names in the files of fuse-tune -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidates are a test bundle from the compiler:
//
//   {"format": "fuse-tune-candidates", "version": 2, "compiler", "chip",
//    "multiprocessors", "ops": [
//      {"family", "element", "widths", "tokens", "relaxed", "text",
//       "arguments": [...],
//       "candidates": [{"schedule", "model_us", "artifact": section}
//                      or {"schedule", "model_us", "error"}]}]}
//
// Measurements are JSON that the machine with the GPU writes. They have the
// fields above without arguments and sections, and
//
//   "device": {"name", "driver", "multiprocessors"},
//   "protocol": {"name": one of kProtocols, "launches", ...},
//   in each candidate "status", "median_us", "min_us" and "max_us" of a launch
//   in microseconds, and "rounds" or "detail",
//   in candidates that were among the fastest and measured again, "over_choice"
//
// "over_choice" is the median ratio of a candidate's time to that of the
// model's choice in the same round. If the choice is out, the fastest candidate
// before takes its place.
//
// The first candidate of an op is the choice of the compiler's cost model.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_TUNEFORMAT_H
#define FUSE_MEASURE_TUNEFORMAT_H

#include "fuse/Runtime/Core/Failure.h"

#include "nlohmann/json.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace fuse::measure {

constexpr const char *kCandidatesFormat = "fuse-tune-candidates";
constexpr const char *kMeasurementsFormat = "fuse-tune-measurements";
constexpr int kTuneVersion = 2;

/// Protocols for measuring launches. `single` measures launches alone. A chain
/// has several launches with different weights, and each may begin while its
/// predecessor ends. In exclusive chains blocks begin one by one, see
/// `fuse_device_set_exclusive`.
constexpr const char *kProtocols[] = {"single", "chain", "exclusive-chain"};

/// Index of a protocol in the list. Throws `Failure` for an unknown name.
inline size_t readProtocol(std::string_view name) {
  const auto *place =
      std::find(std::begin(kProtocols), std::end(kProtocols), name);
  if (place == std::end(kProtocols))
    throw runtime::Failure(
        FUSE_ERROR_INVALID_ARGUMENT,
        "--protocol: expected single, chain or exclusive-chain, got '" +
            std::string(name) + "'");
  return size_t(place - kProtocols);
}

/// Values of "status".
constexpr const char *kStatusOk = "ok";
/// The result differs from that of most candidates.
constexpr const char *kStatusWrong = "wrong";
/// The compiler, the driver or the device refused the candidate.
constexpr const char *kStatusFailed = "failed";
/// The launch did not end in time.
constexpr const char *kStatusTimeout = "timeout";

/// The fastest candidate among those that were measured again, or null. Times
/// of different rounds are not comparable: the clock drops while a GPU is busy.
inline const nlohmann::json *findFastest(const nlohmann::json &candidates) {
  const nlohmann::json *fastest = nullptr;
  auto getRatio = [](const nlohmann::json &candidate) {
    return candidate.at("over_choice").get<double>();
  };
  for (const nlohmann::json &candidate : candidates)
    if (candidate.at("status") == kStatusOk &&
        candidate.contains("over_choice") &&
        (!fastest || getRatio(candidate) < getRatio(*fastest)))
      fastest = &candidate;
  return fastest;
}

} // namespace fuse::measure

#endif // FUSE_MEASURE_TUNEFORMAT_H
