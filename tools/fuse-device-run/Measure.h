//===- Measure.h - Measure the candidates of one op -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_TUNE_RUN_MEASURE_H
#define FUSE_TOOLS_FUSE_TUNE_RUN_MEASURE_H

#include "fuse/Measure/TestBundle.h"

#include <functional>
#include <set>

namespace fuse::measure {

struct MeasureOptions {
  /// Number of replays of every candidate, and of those that are measured
  /// again.
  int rounds = 20, finalRounds = 60;
  /// Number of the fastest candidates that are measured again, with the first.
  size_t finalists = 5;
  /// Index into `kProtocols`, and number of launches in a replay of a chain.
  size_t protocol = 0;
  int chainedLaunches = 8;
  uint64_t timeoutMs = 5000;
  /// Bytes written between replays, more than L2 holds.
  size_t flushBytes = size_t(256) << 20;

  int getLaunches() const { return protocol == 0 ? 1 : chainedLaunches; }
};

/// Called before a candidate runs and with its outcome. The outcome is an
/// object with "status" and, if it is not "ok", "detail".
struct MeasureEvents {
  std::function<void(size_t candidate)> begins;
  std::function<void(size_t candidate, nlohmann::json result)> ends;
};

/// Measures the candidates of ops, one op after the other. Weights that
/// consecutive ops share are created and packed once.
class Measurer {
public:
  Measurer(std::shared_ptr<Gpu> gpu, const TestBundle &file,
           const MeasureOptions &options);

  /// Measures the candidates of an op except those in `excluded`. Throws if the
  /// device cannot be used any more; `events` has the candidate that was
  /// running.
  void measure(const nlohmann::json &op, const std::set<size_t> &excluded,
               const MeasureEvents &events);

private:
  struct Candidate;

  bool load(Candidate &candidate, const nlohmann::json &op,
            const std::vector<std::vector<Argument>> &layers,
            const MeasureEvents &events);
  void findWrong(std::vector<Candidate> &candidates,
                 const MeasureEvents &events);
  void takeTimes(std::vector<Candidate *> chosen, int rounds,
                 const MeasureEvents &events);
  static void compareTimes(const std::vector<Candidate *> &chosen,
                           const Candidate &reference);
  void reportTimes(std::vector<Candidate> &candidates,
                   const MeasureEvents &events);

  std::shared_ptr<Gpu> gpu;
  const TestBundle &file;
  MeasureOptions options;
  ArgumentStore store;
  runtime::SharedWeights shared;
  /// Calls of the previous op, which keep its weights alive.
  std::vector<std::unique_ptr<Call>> previous;
  void *stream;
  GpuBuffer flush;
};

} // namespace fuse::measure

#endif // FUSE_TOOLS_FUSE_TUNE_RUN_MEASURE_H
