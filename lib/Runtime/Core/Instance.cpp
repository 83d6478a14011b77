//===- Instance.cpp - Functions that can be launched ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Instance.h"
#include "fuse-c/Runtime.h"
#include "fuse/Runtime/Core/Failure.h"

#include <mutex>

using namespace fuse::runtime;

using ExclusiveLock = std::unique_lock<std::shared_mutex>;
using SharedLock = std::shared_lock<std::shared_mutex>;

Artifact::Artifact(std::string content, std::shared_ptr<const CodeSource> from)
    : bytes(std::move(content)), source(std::move(from)),
      sections(readContainer(bytes)),
      manifest(readManifest(sections, source != nullptr)) {}

CodeSource::~CodeSource() = default;

Workspace::~Workspace() = default;
Program::~Program() = default;
Device::~Device() = default;
Instance::~Instance() = default;

std::shared_ptr<void>
SharedWeights::find(DLDevice place, const PackedWeight &packed,
                    const std::vector<const char *> &sources) const {
  for (const Entry &entry : entries)
    if (entry.place.device_type == place.device_type &&
        entry.place.device_id == place.device_id &&
        entry.packed.recipe == packed.recipe &&
        entry.packed.tiles == packed.tiles &&
        entry.packed.steps == packed.steps &&
        entry.packed.bytes == packed.bytes &&
        entry.packed.columns == packed.columns && entry.sources == sources)
      if (std::shared_ptr<void> memory = entry.memory.lock())
        return memory;
  return nullptr;
}

std::string fuse::runtime::nameArgument(const Function &function,
                                        size_t index) {
  std::string text =
      "argument " + std::to_string(index) + " of " + function.name;
  const std::string &parameter = function.arguments[index].parameter;
  return parameter.empty() ? text : text + " (" + parameter + ")";
}

std::string fuse::runtime::nameResult(const Function &function, size_t index) {
  return "result " + std::to_string(index) + " of " + function.name;
}

void Instance::bind(size_t argument, const DLTensor *tensor,
                    std::function<void()> release) {
  if (argument >= function.arguments.size())
    throw Failure(
        FUSE_ERROR_INVALID_ARGUMENT,
        function.name + " has " + std::to_string(function.arguments.size()) +
            " arguments, there is none with index " + std::to_string(argument));
  std::string name = nameArgument(function, argument);
  TensorView view = checkTensor(tensor, function.arguments[argument], name);
  checkPlace(view, /*isBound=*/true, name);
  HeldTensor held(*tensor);
  ExclusiveLock lock(mutex);
  prepared = false;
  // Nothing throws from here on, so ownership passes to the instance. The
  // replaced tensor is released without the lock, because that runs the
  // caller's code.
  held.setRelease(std::move(release));
  std::swap(bound[argument], held);
  lock.unlock();
}

void Instance::setScales(const std::vector<float> &values) {
  if (values.size() != scales.scales.size())
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "the code of " + function.name + " has " +
                      std::to_string(scales.scales.size()) +
                      " static scales, got " + std::to_string(values.size()));
  // The range of the scales of ops: reciprocals are normal numbers, too.
  for (size_t i = 0; i < values.size(); ++i)
    if (!(values[i] >= 0x1p-126f && values[i] <= 0x1p126f))
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "scale " + std::to_string(i) + " of " + function.name +
                        " is " + std::to_string(values[i]) +
                        ", expected a number from 2^-126 to 2^126");
  std::vector<float> next = scales.evaluate(values);
  ExclusiveLock lock(mutex);
  scalars = std::move(next);
}

void Instance::prepare(SharedWeights *shared) {
  std::lock_guard<std::mutex> guard(loading);
  ExclusiveLock lock(mutex);
  if (prepared)
    return;
  Views views(bound.size());
  boundViews.clear();
  for (const HeldTensor &tensor : bound)
    boundViews.push_back(tensor.get());
  for (size_t i = 0; i < bound.size(); ++i) {
    if (bound[i])
      views[i] = checkTensor(&boundViews[i], function.arguments[i],
                             nameArgument(function, i));
    else if (!function.arguments[i].parameter.empty())
      throw Failure(FUSE_ERROR_STATE, nameArgument(function, i) +
                                          " is a parameter and is not "
                                          "bound");
  }
  prepareCode(views, shared);
  loadCode(limit)();
  prepared = true;
}

void Instance::limitTokens(int64_t tokens) {
  if (tokens < 1)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "a limit of " + std::to_string(tokens) +
                      " tokens: expected 1 or more");
  std::lock_guard<std::mutex> guard(loading);
  std::function<void()> publish;
  SharedLock reading(mutex);
  bool loads = prepared;
  reading.unlock();
  // Load without the lock, so that launches do not wait for a compiler.
  if (loads)
    publish = loadCode(tokens);
  ExclusiveLock lock(mutex);
  limit = tokens;
  // A concurrent bind may have reset it.
  if (publish && prepared)
    publish();
}

void Instance::requirePrepared() const {
  if (!prepared)
    throw Failure(FUSE_ERROR_STATE,
                  "the instance of " + function.name + " is not prepared");
}

size_t Instance::getNumInputs() const {
  SharedLock lock(mutex);
  size_t count = 0;
  for (const HeldTensor &tensor : bound)
    count += !tensor;
  return count;
}

void Instance::collectArguments(const DLTensor *const *inputs, size_t numInputs,
                                bool needsData, Views &views) const {
  if (numInputs > 0 && !inputs)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT, "the list of inputs is null");
  views.clear();
  size_t next = 0;
  for (size_t i = 0; i < bound.size(); ++i) {
    const DLTensor *tensor = nullptr;
    if (bound[i])
      tensor = &boundViews[i];
    else if (next < numInputs)
      tensor = inputs[next++];
    else
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT, nameArgument(function, i) +
                                                     " is neither bound nor an "
                                                     "input: there are " +
                                                     std::to_string(numInputs) +
                                                     " inputs");
    if (bound[i]) {
      // Bound tensors were checked when they were bound.
      views.push_back({static_cast<char *>(tensor->data) + tensor->byte_offset,
                       tensor->shape, tensor->device});
      continue;
    }
    // Build names for messages only, because that allocates.
    try {
      views.push_back(
          checkTensor(tensor, function.arguments[i], "", needsData));
      if (needsData)
        checkPlace(views.back(), /*isBound=*/false, "");
    } catch (const Failure &failure) {
      throw Failure(failure.getStatus(),
                    nameArgument(function, i) + failure.getMessage());
    }
  }
  if (next != numInputs)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  function.name + " takes " + std::to_string(next) +
                      " inputs, got " + std::to_string(numInputs));
}

/// Buffer for the symbols of a function, kept between calls.
static int64_t *getSymbolRoom(const Function &function) {
  thread_local std::vector<int64_t> values;
  values.resize(function.symbols.size() + 1);
  return values.data();
}

void Instance::getResultShape(const DLTensor *const *inputs, size_t numInputs,
                              size_t result, int64_t *shape) const {
  if (result >= function.results.size())
    throw Failure(
        FUSE_ERROR_INVALID_ARGUMENT,
        function.name + " has " + std::to_string(function.results.size()) +
            " results, there is none with index " + std::to_string(result));
  SharedLock lock(mutex);
  requirePrepared();
  thread_local Views views;
  collectArguments(inputs, numInputs, /*needsData=*/false, views);
  int64_t *symbols = getSymbolRoom(function);
  evaluateSymbols(function, views, symbols);
  const auto &sizes = function.resultSizes[result];
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (!sizes[dim])
      throw Failure(FUSE_ERROR_UNSUPPORTED,
                    "size " + std::to_string(dim) + " of " +
                        nameResult(function, result) +
                        " is only known when it has been computed");
    shape[dim] = sizes[dim]->evaluate(symbols);
  }
}

size_t Instance::getWorkspaceSize(const DLTensor *const *inputs,
                                  size_t numInputs) const {
  SharedLock lock(mutex);
  requirePrepared();
  thread_local Views views;
  collectArguments(inputs, numInputs, /*needsData=*/false, views);
  evaluateSymbols(function, views, getSymbolRoom(function));
  return computeWorkspaceSize(views);
}

/// Throws if a result overlaps another tensor: kernels read arguments while
/// they write results.
void Instance::checkOverlap(const Views &views) const {
  size_t numArguments = function.arguments.size();
  auto getEnd = [&](size_t i) {
    const TensorSpec &spec = i < numArguments
                                 ? function.arguments[i]
                                 : function.results[i - numArguments];
    return views[i].data + getNumBytes(spec, views[i].shape);
  };
  for (size_t i = numArguments; i < views.size(); ++i) {
    const char *begin = views[i].data, *end = getEnd(i);
    for (size_t j = 0; j < i; ++j) {
      const char *other = views[j].data, *otherEnd = getEnd(j);
      if (begin == end || other == otherEnd || end <= other ||
          otherEnd <= begin)
        continue;
      throw Failure(FUSE_ERROR_TENSOR,
                    nameResult(function, i - numArguments) + " overlaps " +
                        (j < numArguments
                             ? nameArgument(function, j)
                             : nameResult(function, j - numArguments)));
    }
  }
}

void Instance::launch(const DLTensor *const *inputs, size_t numInputs,
                      const LaunchOptions &options) {
  constexpr uint32_t known = FUSE_LAUNCH_OVERLAP | FUSE_LAUNCH_ORDERED;
  if (options.flags & ~known)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "'flags' has " + std::to_string(options.flags & ~known) +
                      ", which is not a flag of this version");
  SharedLock lock(mutex);
  requirePrepared();
  thread_local Views views;
  collectArguments(inputs, numInputs, /*needsData=*/true, views);
  int64_t *symbols = getSymbolRoom(function);
  evaluateSymbols(function, views, symbols);
  if (options.numOutputs > 0 && !options.outputs)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT, "the list of outputs is null");
  if (options.numOutputs != function.results.size())
    throw Failure(
        FUSE_ERROR_INVALID_ARGUMENT,
        function.name + " has " + std::to_string(function.results.size()) +
            " results, got " + std::to_string(options.numOutputs) + " outputs");
  for (size_t i = 0; i < options.numOutputs; ++i) {
    const TensorSpec &spec = function.results[i];
    try {
      views.push_back(checkTensor(options.outputs[i], spec, ""));
      checkPlace(views.back(), /*isBound=*/false, "");
      for (size_t dim = 0; dim < spec.shape.size(); ++dim) {
        const std::optional<Expression> &size = function.resultSizes[i][dim];
        if (!size)
          continue;
        int64_t expected = size->evaluate(symbols);
        if (expected != views.back().shape[dim])
          throw Failure(FUSE_ERROR_TENSOR,
                        " has size " + std::to_string(views.back().shape[dim]) +
                            " in dimension " + std::to_string(dim) +
                            ", the inputs make it " + std::to_string(expected));
      }
    } catch (const Failure &failure) {
      throw Failure(failure.getStatus(),
                    nameResult(function, i) + failure.getMessage());
    }
  }
  checkOverlap(views);
  // Kernels on no tokens have nothing to do, and their data may be null.
  bool isEmpty = options.numOutputs > 0;
  for (size_t i = 0; i < options.numOutputs; ++i)
    isEmpty &= getNumBytes(function.results[i],
                           views[function.arguments.size() + i].shape) == 0;
  if (!isEmpty)
    launchCode(views, options);
}
