//===- FakeCuda.cpp - A scripted fake of the CUDA driver ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "fuse/Runtime/CUDA/CudaDriver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

using namespace fuse::runtime::cuda;

namespace {

/// Handles of functions that only measuring programs call, as these declare
/// them.
using Graph = void *;
using GraphExec = void *;

/// Behavior of launches with a given grid, from the file that the environment
/// variable FAKE_CUDA_SCRIPT names. A line is `grid <blocks>` and one of
///   us <time>       duration in microseconds (default 10)
///   overlaps <time> duration if they may begin before their predecessor ends
///   joins <time>    duration if their blocks may then begin one by one
///   warms <time>    all later launches take this much longer
///   fails <code>    launching fails with this code
///   hangs           neither they nor any later work ends
///   dies            the process ends
///   writes <index>  they change the first bytes at the address in a parameter
struct Rule {
  double us = 10, warms = 0;
  std::optional<double> overlapping, joining;
  int failCode = 0;
  bool hangs = false, dies = false;
  int writes = -1;
};

/// A captured launch, and the bytes that it changes.
struct Captured {
  Rule rule;
  void *target = nullptr;
};

/// Rules by grid. Without a script, only declared kernels exist.
struct Script {
  bool active = false;
  std::map<unsigned, Rule> rules;

  Script() {
    const char *path = std::getenv("FAKE_CUDA_SCRIPT");
    if (!path)
      return;
    active = true;
    std::ifstream file(path);
    std::string word, action;
    for (unsigned grid; file >> word >> grid >> action;) {
      Rule &rule = rules[grid];
      if (action == "us")
        file >> rule.us;
      else if (action == "overlaps")
        file >> rule.overlapping.emplace();
      else if (action == "joins")
        file >> rule.joining.emplace();
      else if (action == "warms")
        file >> rule.warms;
      else if (action == "fails")
        file >> rule.failCode;
      else if (action == "writes")
        file >> rule.writes;
      rule.hangs |= action == "hangs";
      rule.dies |= action == "dies";
    }
  }
};

struct State {
  Script script;
  /// Microseconds by which launches now take longer than at first.
  double warmth = 0;
  /// Time of the only queue in microseconds since the start.
  double clock = 0;
  bool hangs = false;
  std::optional<void *> capturing;
  std::vector<Captured> captured;
  std::map<void *, std::vector<Captured>> graphs;
  /// Times at which events were recorded, or nothing for events after a hang.
  std::map<void *, double> recorded;
  int streams = 0;
  /// Whether a copy or a fill on the default stream may be pending, because no
  /// call has synchronized.
  bool copiesInFlight = false;
  std::set<void *> settling;
  std::mutex mutex;
  std::map<std::string, int> calls;
  std::string failing;
  int failAt = 0, failCode = 0;
  std::string hidden;
  std::map<std::string, int> settings = {
      {"devices", 1},     {"capability", 90}, {"multiprocessors", 132},
      {"version", 12040}, {"blocks", 1},      {"ready", 1},
      {"cubin", 1},       {"ptx", 990},       {"capturing", 0}};
  std::set<uint64_t> memory;
  int contexts = 0, modules = 0, events = 0;
  std::map<std::string, std::vector<int>> kernels;
  /// The device of each module, and the kernels that were looked up in it.
  std::map<void *, int> moduleDevices;
  std::set<std::pair<std::string, int>> functions;
  /// Preferred carveouts of kernels.
  std::map<KernelFunction, int> carveouts;
  std::vector<FakeLaunch> launches;
};

} // namespace

static State &get() {
  // Never destroyed, so that resources that were not released are still
  // counted.
  static State &state = *new State;
  return state;
}

static thread_local std::vector<int> contexts;

/// An opaque handle.
template <typename Handle>
static Handle makeHandle() {
  static uintptr_t last = 0;
  return reinterpret_cast<Handle>(++last);
}

/// Counts a call and returns the code with which it fails.
static int enter(const char *function, bool needsContext = false) {
  State &state = get();
  std::lock_guard<std::mutex> lock(state.mutex);
  ++state.calls[function];
  if (state.failing == function && --state.failAt == 0) {
    state.failing.clear();
    return state.failCode;
  }
  // CUDA_ERROR_INVALID_CONTEXT
  return needsContext && contexts.empty() ? 201 : 0;
}

/// Runs `body` unless the function has to fail.
template <typename Body>
static int run(const char *function, bool needsContext, Body body) {
  if (int code = enter(function, needsContext))
    return code;
  std::lock_guard<std::mutex> lock(get().mutex);
  return body(get());
}

static int cuInit(unsigned) {
  return run("cuInit", false, [](State &) { return 0; });
}
static int cuDriverGetVersion(int *version) {
  return run("cuDriverGetVersion", false, [&](State &state) {
    *version = state.settings["version"];
    return 0;
  });
}
static int cuGetErrorString(int code, const char **text) {
  static thread_local std::string message;
  message = "fake error " + std::to_string(code);
  *text = message.c_str();
  return 0;
}
static int cuDeviceGetCount(int *count) {
  return run("cuDeviceGetCount", false, [&](State &state) {
    *count = state.settings["devices"];
    return 0;
  });
}
static int cuDeviceGet(int *device, int ordinal) {
  return run("cuDeviceGet", false, [&](State &) {
    *device = ordinal;
    return 0;
  });
}
static int cuDeviceGetAttribute(int *value, int attribute, int) {
  return run("cuDeviceGetAttribute", false, [&](State &state) {
    int capability = state.settings["capability"];
    *value = attribute == 16   ? state.settings["multiprocessors"]
             : attribute == 75 ? capability / 10
             : attribute == 76 ? capability % 10
                               : 0;
    return 0;
  });
}
static int cuDevicePrimaryCtxRetain(Context *context, int device) {
  return run("cuDevicePrimaryCtxRetain", false, [&](State &state) {
    ++state.contexts;
    *context = reinterpret_cast<Context>(intptr_t(device) + 1);
    return 0;
  });
}
static int cuDevicePrimaryCtxRelease(int) {
  return run("cuDevicePrimaryCtxRelease", false, [](State &state) {
    --state.contexts;
    return 0;
  });
}
static int cuCtxPushCurrent(Context context) {
  return run("cuCtxPushCurrent", false, [&](State &) {
    contexts.push_back(int(reinterpret_cast<intptr_t>(context)) - 1);
    return 0;
  });
}
static int cuCtxPopCurrent(Context *) {
  return run("cuCtxPopCurrent", true, [](State &) {
    contexts.pop_back();
    return 0;
  });
}
static int cuCtxSynchronize() {
  return run("cuCtxSynchronize", true, [](State &) { return 0; });
}
static int cuModuleLoadDataEx(Module *module, const void *image, unsigned count,
                              int *options, void **values) {
  return run("cuModuleLoadDataEx", true, [&](State &state) {
    const char *text = static_cast<const char *>(image);
    // Cubins are ELF files; CUDA_ERROR_NO_BINARY_FOR_GPU.
    if (std::strncmp(text,
                     "\x7f"
                     "ELF",
                     4) == 0 &&
        !state.settings["cubin"])
      return 209;
    // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    int major, minor;
    if (std::sscanf(text, ".version %d.%d", &major, &minor) == 2 &&
        10 * major + minor > state.settings["ptx"])
      return 222;
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 5)
        std::strcpy(static_cast<char *>(values[i]), "log of the assembler\n");
    ++state.modules;
    *module = makeHandle<Module>();
    state.moduleDevices[*module] = contexts.back();
    return 0;
  });
}
static int cuModuleUnload(Module) {
  return run("cuModuleUnload", true, [&](State &state) {
    --state.modules;
    return 0;
  });
}
static int cuModuleGetFunction(KernelFunction *function, Module module,
                               const char *name) {
  return run("cuModuleGetFunction", true, [&](State &state) {
    if (state.script.active)
      state.kernels.try_emplace(name);
    auto it = state.kernels.find(name);
    // CUDA_ERROR_NOT_FOUND
    if (it == state.kernels.end())
      return 500;
    // Each device has separate functions for its kernels.
    auto entry =
        state.functions.emplace(it->first, state.moduleDevices[module]).first;
    *function = reinterpret_cast<KernelFunction>(
        const_cast<std::pair<std::string, int> *>(&*entry));
    state.carveouts.erase(*function);
    return 0;
  });
}
static int cuFuncSetAttribute(KernelFunction function, int attribute,
                              int value) {
  return run("cuFuncSetAttribute", true, [&](State &state) {
    if (attribute == kFunctionPreferredCarveout)
      state.carveouts[function] = value;
    return 0;
  });
}
static int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                       KernelFunction, int,
                                                       size_t) {
  return run("cuOccupancyMaxActiveBlocksPerMultiprocessor", true,
             [&](State &state) {
               *blocks = state.settings["blocks"];
               return 0;
             });
}
static int cuMemAlloc(DevicePtr *address, size_t bytes) {
  return run("cuMemAlloc", true, [&](State &state) {
    void *memory = bytes > size_t(1) << 30
                       ? nullptr
                       : std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!memory)
      return 2;
    *address = reinterpret_cast<DevicePtr>(memory);
    state.memory.insert(*address);
    return 0;
  });
}
static int cuMemFree(DevicePtr address) {
  return run("cuMemFree", true, [&](State &state) {
    if (state.memory.erase(address) == 0)
      return 1;
    std::free(reinterpret_cast<void *>(address));
    return 0;
  });
}
static int cuMemcpyHtoD(DevicePtr to, const void *from, size_t bytes) {
  return run("cuMemcpyHtoD", true, [&](State &state) {
    state.copiesInFlight = true;
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return 0;
  });
}
static int cuMemcpyDtoH(void *to, DevicePtr from, size_t bytes) {
  return run("cuMemcpyDtoH", true, [&](State &) {
    std::memcpy(to, reinterpret_cast<void *>(from), bytes);
    return 0;
  });
}
static int cuMemsetD8(DevicePtr to, unsigned char value, size_t bytes) {
  return run("cuMemsetD8", true, [&](State &state) {
    state.copiesInFlight = true;
    std::memset(reinterpret_cast<void *>(to), value, bytes);
    return 0;
  });
}
static int cuEventCreate(Event *event, unsigned) {
  return run("cuEventCreate", true, [&](State &state) {
    ++state.events;
    *event = makeHandle<Event>();
    return 0;
  });
}
static int cuEventRecord(Event event, Stream stream) {
  return run("cuEventRecord", true, [&](State &state) {
    state.settling.erase(event);
    if (!stream)
      state.settling.insert(event);
    state.recorded.erase(event);
    if (!state.hangs)
      state.recorded[event] = state.clock;
    return 0;
  });
}
static int cuEventQuery(Event event) {
  // CUDA_ERROR_NOT_READY
  return run("cuEventQuery", true, [&](State &state) {
    if (!state.settings["ready"] || !state.recorded.count(event))
      return 600;
    if (state.settling.count(event))
      state.copiesInFlight = false;
    return 0;
  });
}
static int cuEventElapsedTime(float *ms, Event begin, Event end) {
  return run("cuEventElapsedTime", true, [&](State &state) {
    *ms = float((state.recorded[end] - state.recorded[begin]) / 1000);
    return 0;
  });
}
static int cuEventDestroy(Event) {
  return run("cuEventDestroy", true, [&](State &state) {
    --state.events;
    return 0;
  });
}
static int cuDeviceGetName(char *name, int bytes, int) {
  return run("cuDeviceGetName", false, [&](State &) {
    std::strncpy(name, "Fake GPU", size_t(bytes));
    return 0;
  });
}
static int cuMemsetD8Async(DevicePtr to, unsigned char value, size_t bytes,
                           Stream) {
  return run("cuMemsetD8Async", true, [&](State &) {
    std::memset(reinterpret_cast<void *>(to), value, bytes);
    return 0;
  });
}
static int cuStreamCreate(Stream *stream, unsigned) {
  return run("cuStreamCreate", true, [&](State &state) {
    ++state.streams;
    *stream = makeHandle<Stream>();
    return 0;
  });
}
static int cuStreamDestroy(Stream) {
  return run("cuStreamDestroy", false, [](State &state) {
    --state.streams;
    return 0;
  });
}
static int cuStreamBeginCapture(Stream stream, int) {
  return run("cuStreamBeginCapture", true, [&](State &state) {
    state.capturing = stream;
    state.captured.clear();
    return 0;
  });
}
static int cuStreamIsCapturing(Stream stream, int *status) {
  return run("cuStreamIsCapturing", true, [&](State &state) {
    uintptr_t scripted = state.settings["capturing"];
    *status =
        state.capturing == stream ||
        (scripted != 0 && reinterpret_cast<uintptr_t>(stream) == scripted);
    return 0;
  });
}
static int cuStreamEndCapture(Stream, Graph *graph) {
  return run("cuStreamEndCapture", true, [&](State &state) {
    state.capturing.reset();
    *graph = makeHandle<Graph>();
    state.graphs[*graph] = state.captured;
    return 0;
  });
}
static int cuGraphInstantiateWithFlags(GraphExec *executable, Graph graph,
                                       unsigned long long) {
  return run("cuGraphInstantiateWithFlags", true, [&](State &state) {
    *executable = makeHandle<GraphExec>();
    state.graphs[*executable] = state.graphs[graph];
    return 0;
  });
}

/// Executes a kernel.
static void execute(State &state, const Captured &kernel) {
  state.clock += kernel.rule.us + state.warmth;
  state.warmth += kernel.rule.warms;
  state.hangs |= kernel.rule.hangs;
  if (kernel.target)
    std::memset(kernel.target, 0x11, 4);
}

static int cuGraphLaunch(GraphExec executable, Stream) {
  return run("cuGraphLaunch", true, [&](State &state) {
    for (const Captured &kernel : state.graphs[executable])
      execute(state, kernel);
    return 0;
  });
}
static int cuGraphDestroy(Graph graph) {
  return run("cuGraphDestroy", false, [&](State &state) {
    state.graphs.erase(graph);
    return 0;
  });
}
static int cuGraphExecDestroy(GraphExec executable) {
  return run("cuGraphExecDestroy", false, [&](State &state) {
    state.graphs.erase(executable);
    return 0;
  });
}
static int cuTensorMapEncodeTiled(TensorMap *map, int type, unsigned rank,
                                  void *address, const uint64_t *,
                                  const uint64_t *, const unsigned *,
                                  const unsigned *, int, int, int, int) {
  return run("cuTensorMapEncodeTiled", true, [&](State &) {
    // The driver requires maps to be aligned to 64 bytes.
    if (rank != 2 || reinterpret_cast<uintptr_t>(map) % 64 != 0)
      return 1;
    *map = {};
    map->words[0] = reinterpret_cast<uint64_t>(address);
    map->words[1] = type;
    return 0;
  });
}

static int cuLaunchKernelEx(const LaunchConfig *config, KernelFunction function,
                            void **parameters, void **) {
  return run("cuLaunchKernelEx", true, [&](State &state) {
    const auto &[name, moduleDevice] =
        *reinterpret_cast<std::pair<std::string, int> *>(function);
    FakeLaunch launch = {};
    launch.device = contexts.back();
    launch.moduleDevice = moduleDevice;
    std::strncpy(launch.kernel, name.c_str(), sizeof(launch.kernel) - 1);
    unsigned grid[] = {config->gridX, config->gridY, config->gridZ};
    unsigned block[] = {config->blockX, config->blockY, config->blockZ};
    std::memcpy(launch.grid, grid, sizeof(grid));
    std::memcpy(launch.block, block, sizeof(block));
    launch.sharedBytes = config->sharedBytes;
    launch.copiesInFlight = config->stream && state.copiesInFlight;
    launch.stream = config->stream;
    launch.cooperative = launch.programmatic = launch.cluster[0] = -1;
    for (unsigned i = 0; i < config->numAttributes; ++i) {
      const LaunchAttribute &attribute = config->attributes[i];
      if (attribute.id == kAttributeCooperative)
        launch.cooperative = int(attribute.value.numbers[0]);
      else if (attribute.id == kAttributeProgrammatic)
        launch.programmatic = int(attribute.value.numbers[0]);
      else if (attribute.id == kAttributeCluster)
        std::memcpy(launch.cluster, attribute.value.numbers,
                    sizeof(launch.cluster));
      else
        return 1;
    }
    auto carveout = state.carveouts.find(function);
    launch.carveout = carveout == state.carveouts.end() ? -1 : carveout->second;
    const std::vector<int> &sizes = state.kernels[name];
    launch.numParameters = int(sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i)
      std::memcpy(&launch.parameters[i], parameters[i],
                  sizes[i] > 8 ? 8 : sizes[i]);
    state.launches.push_back(launch);
    if (!state.script.active)
      return 0;
    Captured kernel;
    auto rule = state.script.rules.find(config->gridX);
    if (rule != state.script.rules.end())
      kernel.rule = rule->second;
    if (launch.programmatic == 1) {
      if (kernel.rule.joining && launch.cooperative != 1)
        kernel.rule.us = *kernel.rule.joining;
      else
        kernel.rule.us = kernel.rule.overlapping.value_or(kernel.rule.us);
    }
    if (kernel.rule.dies)
      std::_Exit(7);
    if (kernel.rule.writes >= 0)
      std::memcpy(&kernel.target, parameters[kernel.rule.writes],
                  sizeof(kernel.target));
    if (kernel.rule.failCode != 0)
      return kernel.rule.failCode;
    if (state.capturing)
      state.captured.push_back(kernel);
    else
      execute(state, kernel);
    return 0;
  });
}

namespace {

struct Entry {
  const char *name;
  void *address;
};

} // namespace

#define ENTRY(NAME) {#NAME, reinterpret_cast<void *>(NAME)}
static const Entry entries[] = {
    ENTRY(cuInit),
    ENTRY(cuDriverGetVersion),
    ENTRY(cuGetErrorString),
    ENTRY(cuDeviceGetCount),
    ENTRY(cuDeviceGet),
    ENTRY(cuDeviceGetAttribute),
    ENTRY(cuDevicePrimaryCtxRetain),
    ENTRY(cuDevicePrimaryCtxRelease),
    ENTRY(cuCtxPushCurrent),
    ENTRY(cuCtxPopCurrent),
    ENTRY(cuCtxSynchronize),
    ENTRY(cuModuleLoadDataEx),
    ENTRY(cuModuleUnload),
    ENTRY(cuModuleGetFunction),
    ENTRY(cuFuncSetAttribute),
    ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor),
    ENTRY(cuMemAlloc),
    ENTRY(cuMemFree),
    ENTRY(cuMemcpyHtoD),
    ENTRY(cuMemcpyDtoH),
    ENTRY(cuMemsetD8),
    ENTRY(cuEventCreate),
    ENTRY(cuEventRecord),
    ENTRY(cuEventQuery),
    ENTRY(cuEventDestroy),
    ENTRY(cuEventElapsedTime),
    ENTRY(cuDeviceGetName),
    ENTRY(cuMemsetD8Async),
    ENTRY(cuStreamCreate),
    ENTRY(cuStreamDestroy),
    ENTRY(cuStreamBeginCapture),
    ENTRY(cuStreamIsCapturing),
    ENTRY(cuStreamEndCapture),
    ENTRY(cuGraphInstantiateWithFlags),
    ENTRY(cuGraphLaunch),
    ENTRY(cuGraphDestroy),
    ENTRY(cuGraphExecDestroy),
    ENTRY(cuTensorMapEncodeTiled),
    ENTRY(cuLaunchKernelEx)};
#undef ENTRY

// Checks that every function of fuse's list is here with the same parameters.
#define CHECK(NAME, VERSION, PARAMETERS)                                       \
  static_assert(std::is_same_v<decltype(NAME), int PARAMETERS>);
FUSE_CUDA_FUNCTIONS(CHECK)
#undef CHECK

//===----------------------------------------------------------------------===//
// What the library shows
//===----------------------------------------------------------------------===//

#define EXPORT extern "C" __attribute__((visibility("default")))

// NOLINTNEXTLINE(readability-identifier-naming): the name in the driver.
EXPORT int cuGetProcAddress_v2(const char *name, void **address, int, uint64_t,
                               int *) {
  *address = nullptr;
  for (const Entry &entry : entries)
    if (std::strcmp(entry.name, name) == 0 && get().hidden != name)
      *address = entry.address;
  return *address ? 0 : 500;
}

EXPORT const FakeCuda *getFakeCuda() {
  static const FakeCuda fake = {
      [] {
        State &state = get();
        state.calls.clear();
        state.failing.clear();
        state.launches.clear();
      },
      [](const char *function, int nth, int code) {
        get().failing = function;
        get().failAt = nth;
        get().failCode = code;
      },
      [](const char *name, int value) { get().settings[name] = value; },
      [](const char *function) { get().hidden = function ? function : ""; },
      [](const char *function) { return get().calls[function]; },
      [] {
        State &state = get();
        return int(state.memory.size()) + state.contexts + state.modules +
               state.events + state.streams + int(state.graphs.size());
      },
      [] { return int(get().launches.size()); },
      [](int index) -> const FakeLaunch * { return &get().launches[index]; },
      [](const char *name, int count, const int *bytes) {
        get().kernels[name] = std::vector<int>(bytes, bytes + count);
      }};
  return &fake;
}
