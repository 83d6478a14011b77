//===- Measure.cpp - Measure the candidates of one op ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "fuse-c/Runtime.h"
#include "fuse/Measure/TuneFormat.h"
#include "fuse/Runtime/Core/Failure.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace fuse;
using namespace fuse::measure;
using nlohmann::json;
using runtime::Failure;

static double findMedian(std::vector<double> values) {
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Measurer::Candidate {
  size_t index;
  /// One call per layer with separate tensors.
  std::vector<std::unique_ptr<Call>> calls;
  std::optional<GpuGraph> graph;
  /// Results of all layers.
  std::vector<std::string> results;
  std::vector<double> times;
  /// Median time relative to the model's choice in the same rounds, if the
  /// candidate was measured again.
  std::optional<double> overChoice;

  std::vector<std::string> download() const {
    std::vector<std::string> all;
    for (const std::unique_ptr<Call> &call : calls)
      for (std::string &result : call->download())
        all.push_back(std::move(result));
    return all;
  }

  double getMedian() const { return findMedian(times); }
};

Measurer::Measurer(std::shared_ptr<Gpu> device, const TestBundle &file,
                   const MeasureOptions &options)
    : gpu(std::move(device)), file(file), options(options), store(file),
      stream(gpu->createStream()), flush(gpu, options.flushBytes) {
  // Everything is launched on this stream.
  if (kProtocols[options.protocol] == std::string_view("exclusive-chain"))
    gpu->getDevice().setExclusive(true);
}

/// Arguments of layers with separate tensors. Their number is chosen so that
/// the bytes read between two launches of one layer exceed L2.
static std::vector<std::vector<Argument>>
makeLayers(const std::vector<Argument> &arguments,
           const MeasureOptions &options) {
  size_t bytes = 1;
  for (const Argument &argument : arguments)
    bytes += argument.getCount() * getElementBytes(argument.element);
  size_t count = std::min(size_t(options.getLaunches()),
                          1 + (options.flushBytes + bytes - 1) / bytes);
  std::vector<std::vector<Argument>> layers(count, arguments);
  for (size_t layer = 0; layer < count; ++layer)
    for (Argument &argument : layers[layer])
      argument.seed += layer * arguments.size();
  return layers;
}

static json fail(const char *status, const std::string &detail) {
  return {{"status", status}, {"detail", detail}};
}

/// Whether the device is still usable after a failure.
static bool isLocal(const Failure &failure) {
  return failure.getStatus() != FUSE_ERROR_DEVICE_LOST &&
         failure.getStatus() != FUSE_ERROR_TIMEOUT;
}

static json describe(const Failure &failure) {
  return fail(failure.getStatus() == FUSE_ERROR_TIMEOUT ? kStatusTimeout
                                                        : kStatusFailed,
              failure.getMessage());
}

/// Loads a candidate, runs each layer once and captures the measured launches.
bool Measurer::load(Candidate &candidate, const json &op,
                    const std::vector<std::vector<Argument>> &layers,
                    const MeasureEvents &events) {
  const json &description = op.at("candidates").at(candidate.index);
  events.begins(candidate.index);
  try {
    for (const std::vector<Argument> &arguments : layers) {
      candidate.calls.push_back(
          candidate.calls.empty()
              ? std::make_unique<Call>(
                    gpu,
                    file.getSection(description.at("artifact").get<size_t>(),
                                    kArtifactSection),
                    "", arguments, store, &shared)
              : std::make_unique<Call>(*candidate.calls.front(), arguments,
                                       store, &shared));
      candidate.calls.back()->poison(stream);
      candidate.calls.back()->launch(stream);
      gpu->wait(stream, options.timeoutMs);
    }
    candidate.results = candidate.download();
    candidate.graph.emplace(gpu->capture(stream, [&] {
      for (int i = 0; i < options.getLaunches(); ++i)
        candidate.calls[size_t(i) % candidate.calls.size()]->launch(
            stream, i > 0 ? FUSE_LAUNCH_OVERLAP : 0);
    }));
    return true;
  } catch (const Failure &failure) {
    events.ends(candidate.index, describe(failure));
    if (!isLocal(failure))
      throw;
    return false;
  }
}

/// Whether two candidates compute the same. Another order of summation may
/// change a result by one rounding and a quantized value by one bin.
static bool agree(const Call &call, const std::vector<std::string> &actual,
                  const std::vector<std::string> &expected,
                  std::string &detail) {
  const std::vector<runtime::TensorSpec> &specs = call.getFunction().results;
  for (size_t i = 0; i < actual.size(); ++i) {
    const std::string &element = specs[i % specs.size()].element;
    Comparison comparison = compare(element, actual[i], expected[i]);
    bool isByte = getElementBytes(element) == 1;
    if (comparison.specials > 0 || comparison.energy > (isByte ? 1e-3 : 1e-4) ||
        comparison.maxElement > (isByte ? 0.25 : 0.05)) {
      detail = "result " + std::to_string(i) + " differs in " +
               std::to_string(comparison.different) + " of " +
               std::to_string(comparison.values) +
               " values from what most candidates compute, energy " +
               std::to_string(comparison.energy) + ", worst at " +
               std::to_string(comparison.place) + ", not numbers " +
               std::to_string(comparison.specials);
      return false;
    }
  }
  return true;
}

/// Drops candidates that disagree with the majority. The first candidate is not
/// trusted more than the others.
void Measurer::findWrong(std::vector<Candidate> &candidates,
                         const MeasureEvents &events) {
  const Candidate *reference = nullptr;
  std::string detail;
  for (const Candidate &candidate : candidates) {
    size_t agreeing = 0;
    for (const Candidate &other : candidates)
      agreeing += agree(*candidate.calls.front(), other.results,
                        candidate.results, detail);
    if (agreeing * 2 > candidates.size()) {
      reference = &candidate;
      break;
    }
  }
  std::vector<Candidate> kept;
  for (Candidate &candidate : candidates) {
    bool right = reference && agree(*candidate.calls.front(), candidate.results,
                                    reference->results, detail);
    if (!right)
      events.ends(candidate.index,
                  fail(kStatusWrong,
                       reference
                           ? detail
                           : "there is no majority of candidates that agree"));
  }
  if (!reference)
    return candidates.clear();
  std::vector<std::string> expected = reference->results;
  for (Candidate &candidate : candidates)
    if (agree(*candidate.calls.front(), candidate.results, expected, detail))
      kept.push_back(std::move(candidate));
  candidates = std::move(kept);
}

void Measurer::takeTimes(std::vector<Candidate *> chosen, int rounds,
                         const MeasureEvents &events) {
  std::vector<const GpuGraph *> graphs;
  for (Candidate *candidate : chosen)
    graphs.push_back(&*candidate->graph);
  auto times = gpu->time(
      graphs, rounds, flush, stream, options.timeoutMs, [&](size_t index) {
        events.ends(chosen[index]->index,
                    fail(kStatusTimeout, "a replay did not end or failed"));
      });
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (double &time : times[i])
      time /= options.getLaunches();
    chosen[i]->times = std::move(times[i]);
  }
}

/// Compares times within rounds. The clock drops while a GPU is busy and
/// affects all candidates of a round equally, so medians of different rounds
/// are not comparable.
void Measurer::compareTimes(const std::vector<Candidate *> &chosen,
                            const Candidate &reference) {
  for (Candidate *candidate : chosen) {
    std::vector<double> ratios;
    for (size_t i = 0; i < reference.times.size(); ++i)
      ratios.push_back(candidate->times[i] / reference.times[i]);
    candidate->overChoice = findMedian(std::move(ratios));
  }
}

/// Rounds microseconds to nanoseconds, the best resolution of events.
static double roundTime(double us) { return std::round(us * 1000) / 1000; }

/// Reports times. Candidates must also give the same bits every time.
void Measurer::reportTimes(std::vector<Candidate> &candidates,
                           const MeasureEvents &events) {
  for (Candidate &candidate : candidates) {
    if (candidate.download() != candidate.results) {
      events.ends(candidate.index,
                  fail(kStatusWrong, "replays do not give the same bits"));
      continue;
    }
    auto [least, most] =
        std::minmax_element(candidate.times.begin(), candidate.times.end());
    json result = {{"status", kStatusOk},
                   {"median_us", roundTime(candidate.getMedian())},
                   {"min_us", roundTime(*least)},
                   {"max_us", roundTime(*most)},
                   {"rounds", candidate.times.size()}};
    if (candidate.overChoice)
      result["over_choice"] = std::round(*candidate.overChoice * 1e5) / 1e5;
    events.ends(candidate.index, std::move(result));
  }
}

void Measurer::measure(const json &op, const std::set<size_t> &excluded,
                       const MeasureEvents &events) {
  std::vector<Argument> arguments;
  for (const json &object : op.at("arguments"))
    arguments.push_back(file.readArgument(object));
  const std::vector<std::vector<Argument>> layers =
      makeLayers(arguments, options);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < op.at("candidates").size(); ++i) {
    if (excluded.count(i))
      continue;
    const json &description = op.at("candidates").at(i);
    if (description.contains("error")) {
      events.ends(
          i, fail(kStatusFailed, description.at("error").get<std::string>()));
      continue;
    }
    Candidate candidate = {};
    candidate.index = i;
    if (load(candidate, op, layers, events))
      candidates.push_back(std::move(candidate));
  }
  previous.clear();
  findWrong(candidates, events);
  if (candidates.empty())
    return;
  std::vector<Candidate *> all;
  for (Candidate &candidate : candidates)
    all.push_back(&candidate);
  takeTimes(all, options.rounds, events);
  // The fastest candidates are close to each other and get more rounds. The
  // model's choice is their reference.
  std::sort(all.begin(), all.end(), [](Candidate *a, Candidate *b) {
    return std::pair(a->getMedian(), a->index) <
           std::pair(b->getMedian(), b->index);
  });
  std::vector<Candidate *> finalists;
  for (size_t i = 0; i < all.size(); ++i)
    if (i < options.finalists || all[i]->index == 0)
      finalists.push_back(all[i]);
  takeTimes(finalists, options.finalRounds, events);
  auto choice = std::find_if(finalists.begin(), finalists.end(),
                             [](Candidate *each) { return each->index == 0; });
  compareTimes(finalists,
               choice != finalists.end() ? **choice : *finalists.front());
  reportTimes(candidates, events);
  for (Candidate &candidate : candidates) {
    candidate.graph.reset();
    for (std::unique_ptr<Call> &call : candidate.calls)
      previous.push_back(std::move(call));
  }
}
