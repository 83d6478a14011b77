//===- TuneFormat.h - Names in the files of fuse-tune -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidates, a test bundle of the compiler:
//
//   {"format": "fuse-tune-candidates", "version": 2, "compiler", "chip",
//    "multiprocessors", "ops": [
//      {"family", "element", "widths", "tokens", "relaxed", "text",
//       "arguments": [...],
//       "candidates": [{"schedule", "model_us", "artifact": section}
//                      or {"schedule", "model_us", "error"}]}]}
//
// Measurements, JSON of the GPU's machine: the same without arguments and
// sections, and with
//
//   "device": {"name", "driver", "multiprocessors"},
//   "protocol": {"name": one of kProtocols, "launches", ...},
//   and in each candidate "status", and "median_us", "min_us", "max_us" of a
//   launch, "rounds" or "detail"; where it was among the fastest and measured
//   again, "over_choice", the median ratio of its time to that of the model's
//   choice in the same round, or of whatever was fastest before if that is out
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

/// How launches are measured: alone, or several with weights of their own, each
/// of which may begin while the one before it ends. In exclusive chains blocks
/// begin one by one, see `fuse_device_set_exclusive`.
constexpr const char *kProtocols[] = {"single", "chain", "exclusive-chain"};

/// The place of a protocol in the list. Throws `Failure` where there is none of
/// that name.
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
/// Its result differs from what most candidates compute.
constexpr const char *kStatusWrong = "wrong";
/// The compiler, the driver or the device refused it.
constexpr const char *kStatusFailed = "failed";
/// It did not end.
constexpr const char *kStatusTimeout = "timeout";

/// The fastest candidate of those that were measured again, or null. Times of
/// other rounds do not compare: the clock falls while a GPU is busy.
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
