//===- DriverStreams.cpp - Streams, events, launches and graphs -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches are queued in the machine until a caller synchronizes. If the order
// of two streams matters, the earlier work is run at once. A program cannot
// distinguish this from a fast device.
//
//===----------------------------------------------------------------------===//

#include "driver/Driver.h"

#include <cstring>

using namespace fuse::emulator;
using namespace fuse::emulator::driver;
using namespace fuse::runtime::cuda;

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

static StreamState &getStream(DeviceContext &context, Stream handle) {
  // The handles CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
  constexpr uintptr_t legacy = 1, perThread = 2;
  auto number = reinterpret_cast<uintptr_t>(handle);
  if (number == 0 || number == legacy)
    return context.legacy;
  if (number != perThread)
    return context.streams.get(handle);
  auto [entry, isNew] =
      context.ofThreads.try_emplace(std::this_thread::get_id());
  if (isNew)
    entry->second.id = ++context.lastStream;
  return entry->second;
}

static void forEachStream(DeviceContext &context,
                          const std::function<void(StreamState &)> &body) {
  body(context.legacy);
  for (auto &[handle, stream] : context.streams)
    body(*stream);
  for (auto &[thread, stream] : context.ofThreads)
    body(stream);
}

void driver::requireNoCapture(DeviceContext &context) {
  bool isForbidden = false;
  forEachStream(context, [&](StreamState &stream) {
    Capture *capture = stream.capture.get();
    if (!capture || capture->mode == Capture::Relaxed ||
        (capture->mode == Capture::ThreadLocal &&
         capture->thread != std::this_thread::get_id()))
      return;
    capture->isInvalid = isForbidden = true;
  });
  if (isForbidden)
    throw Error{CaptureUnsupported,
                "a stream is capturing, and not in the relaxed mode"};
}

/// Runs work on other streams that must end before new work on this stream.
static void waitForOthers(DeviceContext &context, StreamState &stream) {
  if (!stream.isBlocking)
    return;
  forEachStream(context, [&](StreamState &other) {
    // Only the default stream orders work of different streams.
    bool isDefault = &stream == &context.legacy || &other == &context.legacy;
    if (!other.isBlocking || &other == &stream || !isDefault)
      return;
    if (other.capture) {
      other.capture->isInvalid = true;
      throw Error{CaptureImplicit, "a stream that waits for the default one "
                                   "captures"};
    }
    context.machine.synchronize(other.id);
  });
}

void driver::synchronizeDefaultStream(DeviceContext &context) {
  requireNoCapture(context);
  waitForOthers(context, context.legacy);
  context.machine.synchronize(context.legacy.id);
  context.legacy.endsInLaunch = false;
}

static void execute(DeviceContext &context, StreamState &stream,
                    const FillOperation &fill) {
  // The host fills the memory after all earlier work.
  context.machine.synchronize(stream.id);
  stream.endsInLaunch = false;
  requireMemory(context, fill.address, fill.bytes);
  std::memset(reinterpret_cast<void *>(fill.address), fill.value, fill.bytes);
}

static void execute(DeviceContext &context, StreamState &stream,
                    const LaunchOperation &launch) {
  LaunchShape shape = launch.shape;
  shape.isProgrammatic &= stream.endsInLaunch;
  try {
    context.machine.launch(launch.program, nullptr, shape, launch.parameters,
                           stream.id);
  } catch (const Fault &fault) {
    // The launch never ran, so the context stays usable.
    throw Error{InvalidValue, fault.what()};
  }
  stream.endsInLaunch = true;
}

static void enqueue(DeviceContext &context, StreamState &stream,
                    Operation operation) {
  if (stream.capture) {
    if (stream.capture->isInvalid)
      throw Error{CaptureInvalidated,
                  "an earlier call invalidated the capture"};
    stream.capture->operations.push_back(std::move(operation));
    return;
  }
  waitForOthers(context, stream);
  std::visit([&](const auto &one) { execute(context, stream, one); },
             operation);
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

FUSE_CUDA_EXPORT int cuStreamCreate(Stream *stream, unsigned flags) {
  return runInContext([&](DeviceContext &context) {
    constexpr unsigned nonBlocking = 1;
    require(stream, "the stream");
    if (flags > nonBlocking)
      throw Error{InvalidValue, "streams have no flags " +
                                    std::to_string(flags) + ", only 0 and 1"};
    auto state = std::make_unique<StreamState>();
    state->id = ++context.lastStream;
    state->isBlocking = flags != nonBlocking;
    *stream = context.streams.add(std::move(state));
  });
}

FUSE_CUDA_EXPORT int cuStreamDestroy(Stream stream) {
  return runInContext([&](DeviceContext &context) {
    context.machine.synchronize(context.streams.get(stream).id);
    context.streams.remove(stream);
  });
}

FUSE_CUDA_EXPORT int cuStreamSynchronize(Stream stream) {
  return runInContext([&](DeviceContext &context) {
    StreamState &state = getStream(context, stream);
    if (state.capture) {
      state.capture->isInvalid = true;
      throw Error{CaptureUnsupported, "the stream is capturing"};
    }
    waitForOthers(context, state);
    context.machine.synchronize(state.id);
  });
}

FUSE_CUDA_EXPORT int cuStreamQuery(Stream stream) {
  return cuStreamSynchronize(stream);
}

FUSE_CUDA_EXPORT int cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  return runInContext([&](DeviceContext &context) {
    StreamState &state = getStream(context, stream);
    EventState &waited = context.events.get(event);
    if (state.capture || waited.isCaptured)
      throw Error{NotSupported, "the emulator captures one stream at a time"};
    if (waited.stream)
      context.machine.synchronize(*waited.stream);
    state.endsInLaunch = false;
  });
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

FUSE_CUDA_EXPORT int cuEventCreate(Event *event, unsigned flags) {
  return runInContext([&](DeviceContext &context) {
    // Flags: blocking synchronization, no time, and interprocess.
    constexpr unsigned known = 1 | kEventDisableTiming, interprocess = 4;
    require(event, "the event");
    if (flags & interprocess)
      throw Error{NotSupported,
                  "the emulator does not know interprocess events"};
    if (flags & ~known)
      throw Error{InvalidValue, "events have no flags " +
                                    std::to_string(flags) + ", only 1 and 2"};
    auto state = std::make_unique<EventState>();
    state->hasTime = !(flags & kEventDisableTiming);
    *event = context.events.add(std::move(state));
  });
}

FUSE_CUDA_EXPORT int cuEventDestroy(Event event) {
  return runInContext(
      [&](DeviceContext &context) { context.events.remove(event); });
}

FUSE_CUDA_EXPORT int cuEventRecord(Event event, Stream stream) {
  return runInContext([&](DeviceContext &context) {
    EventState &state = context.events.get(event);
    StreamState &on = getStream(context, stream);
    state.isCaptured = on.capture != nullptr;
    if (state.isCaptured) {
      state.stream.reset();
      return;
    }
    waitForOthers(context, on);
    state.stream = on.id;
    // The time is that of the end of all earlier work.
    if (!state.hasTime)
      return;
    context.machine.synchronize(on.id);
    state.time = std::chrono::steady_clock::now();
  });
}

FUSE_CUDA_EXPORT int cuEventQuery(Event event) {
  return runInContext([&](DeviceContext &context) {
    EventState &state = context.events.get(event);
    if (state.isCaptured)
      throw Error{CapturedEvent, "there is nothing to wait for"};
    if (state.stream)
      context.machine.synchronize(*state.stream);
  });
}

FUSE_CUDA_EXPORT int cuEventSynchronize(Event event) {
  return cuEventQuery(event);
}

FUSE_CUDA_EXPORT int cuEventElapsedTime(float *ms, Event begin, Event end) {
  return runInContext([&](DeviceContext &context) {
    require(ms, "the time");
    EventState *events[] = {&context.events.get(begin),
                            &context.events.get(end)};
    for (EventState *event : events)
      if (!event->hasTime || !event->stream)
        throw Error{InvalidHandle, event->hasTime
                                       ? "an event was not recorded"
                                       : "an event was created without timing"};
    *ms = std::chrono::duration<float, std::milli>(events[1]->time -
                                                   events[0]->time)
              .count();
  });
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

static std::string print(const std::array<unsigned, 3> &sizes) {
  return std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]) + "x" +
         std::to_string(sizes[2]);
}

/// Reads launch attributes. Those that only affect speed are ignored.
static void readAttributes(const LaunchConfig &config, LaunchShape &shape) {
  // Attributes: none, cache preferences, cluster scheduling, priority, memory
  // domains.
  constexpr int ignored[] = {0, 1, 5, 8, 9, 10};
  if (config.numAttributes > 0)
    require(config.attributes, "the list of attributes");
  for (unsigned i = 0; i < config.numAttributes; ++i) {
    const LaunchAttribute &attribute = config.attributes[i];
    const unsigned *numbers = attribute.value.numbers;
    if (attribute.id == kAttributeCooperative)
      shape.isCooperative = numbers[0] != 0;
    else if (attribute.id == kAttributeProgrammatic)
      shape.isProgrammatic = numbers[0] != 0;
    else if (attribute.id == kAttributeCluster)
      shape.cluster = {numbers[0], numbers[1], numbers[2]};
    else if (std::find(std::begin(ignored), std::end(ignored), attribute.id) ==
             std::end(ignored))
      throw Error{NotSupported, "the emulator does not know launch attribute " +
                                    std::to_string(attribute.id) +
                                    ", only 2 (cooperative), 4 (cluster) and 6 "
                                    "(programmatic)"};
  }
}

/// Checks sizes of a launch, with the codes of a device.
static void checkShape(DeviceContext &context, const Kernel &kernel,
                       const LaunchShape &shape) {
  const ParsedKernel &header = kernel.program->header;
  auto refuse = [&](int code, const std::string &what) {
    throw Error{code, header.name + ": " + what};
  };
  constexpr std::array<unsigned, 3> mostBlocks{INT32_MAX, 65535, 65535},
      mostThreads{1024, 1024, 64};
  uint64_t threads = 1, blocks = 1, ranks = 1;
  for (unsigned i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.grid[i] > mostBlocks[i])
      refuse(InvalidValue, "a grid of " + print(shape.grid) +
                               " blocks, expected 1x1x1 to " +
                               print(mostBlocks));
    if (shape.block[i] == 0 || shape.block[i] > mostThreads[i])
      refuse(InvalidValue, "a block of " + print(shape.block) +
                               " threads, expected 1x1x1 to " +
                               print(mostThreads));
    if (shape.cluster[i] == 0 || shape.grid[i] % shape.cluster[i] != 0)
      refuse(InvalidValue, "a grid of " + print(shape.grid) +
                               " blocks has no clusters of " +
                               print(shape.cluster));
    threads *= shape.block[i];
    blocks *= shape.grid[i];
    ranks *= shape.cluster[i];
  }
  if (threads > 1024)
    refuse(InvalidValue, "a block of " + print(shape.block) +
                             " threads, which are more than 1024");
  if (header.requiredThreads[0] && header.requiredThreads != shape.block)
    refuse(InvalidValue, "a block of " + print(shape.block) +
                             " threads, the kernel requires " +
                             print(header.requiredThreads));
  if (header.maxThreads && threads > header.maxThreads)
    refuse(LaunchOutOfResources, "a block of " + std::to_string(threads) +
                                     " threads, the kernel was compiled for " +
                                     std::to_string(header.maxThreads));
  unsigned mostRanks = kernel.mayHaveLargeClusters ? 16 : 8;
  if (ranks > mostRanks)
    refuse(InvalidClusterSize, "clusters of " + std::to_string(ranks) +
                                   " blocks, expected at most " +
                                   std::to_string(mostRanks));
  if (header.requiredCluster[0] && header.requiredCluster != shape.cluster)
    refuse(InvalidClusterSize, "clusters of " + print(shape.cluster) +
                                   " blocks, the kernel requires " +
                                   print(header.requiredCluster));
  if (shape.dynamicShared > kernel.maxDynamicShared)
    refuse(InvalidValue, std::to_string(shape.dynamicShared) +
                             " bytes of dynamic shared memory, at most " +
                             std::to_string(kernel.maxDynamicShared) +
                             " were set");
  uint64_t resident = context.machine.getOccupancy(header, unsigned(threads),
                                                   shape.dynamicShared) *
                      uint64_t(context.machine.getLimits().multiprocessors);
  if (resident == 0)
    refuse(LaunchOutOfResources, "no multiprocessor has room for a block");
  if (shape.isCooperative && blocks > resident)
    refuse(CooperativeLaunchTooLarge,
           "a cooperative grid of " + std::to_string(blocks) +
               " blocks, the device holds " + std::to_string(resident));
}

FUSE_CUDA_EXPORT int cuLaunchKernelEx(const LaunchConfig *config,
                                      KernelFunction function,
                                      void **parameters, void **extra) {
  return runInContext([&](DeviceContext &context) {
    require(config, "the configuration");
    Kernel &kernel = context.kernels.get(function);
    const ParsedKernel &header = kernel.program->header;
    StreamState &stream = getStream(context, config->stream);
    LaunchOperation launch;
    launch.program = kernel.program;
    launch.shape.grid = {config->gridX, config->gridY, config->gridZ};
    launch.shape.block = {config->blockX, config->blockY, config->blockZ};
    launch.shape.dynamicShared = config->sharedBytes;
    if (header.requiredCluster[0])
      launch.shape.cluster = header.requiredCluster;
    readAttributes(*config, launch.shape);
    checkShape(context, kernel, launch.shape);
    if (extra)
      throw Error{NotSupported, "parameters in a buffer"};
    launch.parameters.resize(header.parameterBytes);
    if (!header.parameters.empty())
      require(parameters, "the list of parameters");
    for (size_t i = 0; i < header.parameters.size(); ++i) {
      const Parameter &parameter = header.parameters[i];
      require(parameters[i], parameter.name.c_str());
      std::memcpy(&launch.parameters[parameter.offset], parameters[i],
                  parameter.bytes);
    }
    enqueue(context, stream, std::move(launch));
  });
}

FUSE_CUDA_EXPORT int cuLaunchKernel(KernelFunction function, unsigned gridX,
                                    unsigned gridY, unsigned gridZ,
                                    unsigned blockX, unsigned blockY,
                                    unsigned blockZ, unsigned sharedBytes,
                                    Stream stream, void **parameters,
                                    void **extra) {
  LaunchConfig config = {gridX,  gridY,       gridZ,  blockX,  blockY,
                         blockZ, sharedBytes, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, function, parameters, extra);
}

FUSE_CUDA_EXPORT int cuMemsetD8Async(DevicePtr to, unsigned char value,
                                     size_t bytes, Stream stream) {
  return runInContext([&](DeviceContext &context) {
    StreamState &on = getStream(context, stream);
    if (bytes == 0)
      return;
    requireMemory(context, to, bytes);
    enqueue(context, on, FillOperation{to, value, bytes});
  });
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

FUSE_CUDA_EXPORT int cuStreamBeginCapture(Stream stream, int mode) {
  return runInContext([&](DeviceContext &context) {
    StreamState &state = getStream(context, stream);
    if (&state == &context.legacy)
      throw Error{CaptureUnsupported, "the default stream cannot capture"};
    if (mode < Capture::Global || mode > Capture::Relaxed)
      throw Error{InvalidValue,
                  "there is no capture mode " + std::to_string(mode) + ""};
    if (state.capture)
      throw Error{IllegalState, "the stream is already capturing"};
    state.capture = std::make_unique<Capture>();
    state.capture->mode = Capture::Mode(mode);
    state.capture->thread = std::this_thread::get_id();
  });
}

FUSE_CUDA_EXPORT int cuStreamIsCapturing(Stream stream, int *status) {
  return runInContext([&](DeviceContext &context) {
    require(status, "the status");
    const Capture *capture = getStream(context, stream).capture.get();
    *status = !capture ? 0 : capture->isInvalid ? 2 : 1;
  });
}

FUSE_CUDA_EXPORT int cuStreamEndCapture(Stream stream, Graph *graph) {
  return runInContext([&](DeviceContext &context) {
    require(graph, "the graph");
    *graph = nullptr;
    StreamState &state = getStream(context, stream);
    if (!state.capture)
      throw Error{IllegalState, "the stream is not capturing"};
    if (state.capture->mode != Capture::Relaxed &&
        state.capture->thread != std::this_thread::get_id())
      throw Error{CaptureWrongThread, "another thread began the capture"};
    std::unique_ptr<Capture> capture = std::move(state.capture);
    if (capture->isInvalid)
      throw Error{CaptureInvalidated,
                  "an earlier call invalidated the capture"};
    *graph = context.graphs.add(std::make_unique<std::vector<Operation>>(
        std::move(capture->operations)));
  });
}

FUSE_CUDA_EXPORT int cuGraphInstantiateWithFlags(GraphExec *executable,
                                                 Graph graph,
                                                 unsigned long long flags) {
  return runInContext([&](DeviceContext &context) {
    require(executable, "the executable graph");
    if (flags != 0)
      throw Error{NotSupported,
                  "flags are " + std::to_string(flags) + ", not 0"};
    *executable = context.executables.add(
        std::make_unique<std::vector<Operation>>(context.graphs.get(graph)));
  });
}

FUSE_CUDA_EXPORT int cuGraphLaunch(GraphExec executable, Stream stream) {
  return runInContext([&](DeviceContext &context) {
    StreamState &on = getStream(context, stream);
    if (on.capture)
      throw Error{NotSupported, "graphs in graphs"};
    // The first launch of a graph does not overlap earlier work.
    on.endsInLaunch = false;
    for (const Operation &operation : context.executables.get(executable))
      enqueue(context, on, operation);
    on.endsInLaunch = false;
  });
}

FUSE_CUDA_EXPORT int cuGraphDestroy(Graph graph) {
  return runInContext(
      [&](DeviceContext &context) { context.graphs.remove(graph); });
}

FUSE_CUDA_EXPORT int cuGraphExecDestroy(GraphExec executable) {
  return runInContext(
      [&](DeviceContext &context) { context.executables.remove(executable); });
}

#define ENTRY(NAME, VERSION) {#NAME, VERSION, reinterpret_cast<void *>(NAME)}
const NamedFunction driver::kStreamFunctions[] = {
    ENTRY(cuStreamCreate, 2000),      ENTRY(cuStreamDestroy, 4000),
    ENTRY(cuStreamSynchronize, 2000), ENTRY(cuStreamQuery, 2000),
    ENTRY(cuStreamWaitEvent, 3020),   ENTRY(cuStreamBeginCapture, 10010),
    ENTRY(cuStreamEndCapture, 10000), ENTRY(cuEventSynchronize, 2000),
    ENTRY(cuEventElapsedTime, 2000),  ENTRY(cuLaunchKernel, 4000),
    ENTRY(cuMemsetD8Async, 3020),     ENTRY(cuGraphInstantiateWithFlags, 11040),
    ENTRY(cuGraphLaunch, 10000),      ENTRY(cuGraphDestroy, 10000),
    ENTRY(cuGraphExecDestroy, 10000), {nullptr, 0, nullptr}};
#undef ENTRY
