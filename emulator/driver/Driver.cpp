//===- Driver.cpp - The device, contexts, modules and memory --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// DriverStreams.cpp has streams, events, launches and graphs.
//
//===----------------------------------------------------------------------===//

#include "driver/Driver.h"
#include "instructions/Decoder.h"
#include "machine/TensorMap.h"

#include <cerrno>
#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <utility>

using namespace fuse::emulator;
using namespace fuse::emulator::driver;
// For the names of attributes.
using namespace fuse::runtime::cuda;

/// The CUDA version whose PTX version the emulator reads.
static constexpr int kDriverVersion = 13000;
static constexpr unsigned kPtxVersion = 90;
static constexpr int kCapability = 90;
static constexpr const char *kName = "fuse emulator";
/// Bytes of shared memory of a block unless the kernel has an attribute for
/// more.
static constexpr uint32_t kSharedWithoutAttribute = 48 * 1024;

namespace {

struct State {
  std::mutex mutex;
  bool isInitialized = false;
  Limits limits;
  int references = 0;
  std::unique_ptr<DeviceContext> context;
  uintptr_t lastContext = 0;
};

} // namespace

static State &getState() {
  // Never destroyed, since programs call the driver until they end.
  static State &state = *new State;
  return state;
}

/// Stack of contexts of this thread, the current one last.
static thread_local std::vector<Context> current;

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// The last error of this thread. Its detail belongs to its code.
static thread_local Error lastError{Success, ""};

static const char *getText(int code) {
  switch (code) {
  case Success:
    return "no error";
  case InvalidValue:
    return "invalid argument";
  case OutOfMemory:
    return "out of memory";
  case NotInitialized:
    return "initialization error";
  case InvalidDevice:
    return "invalid device ordinal";
  case InvalidContext:
    return "invalid device context";
  case NoBinaryForGpu:
    return "no kernel image is available for execution on the device";
  case InvalidPtx:
    return "a PTX JIT compilation failed";
  case UnsupportedPtxVersion:
    return "the provided PTX was compiled with an unsupported toolchain.";
  case InvalidHandle:
    return "invalid resource handle";
  case IllegalState:
    return "the operation cannot be performed in the present state";
  case NotFound:
    return "named symbol not found";
  case NotReady:
    return "device not ready";
  case Fault::IllegalAddress:
    return "an illegal memory access was encountered";
  case LaunchOutOfResources:
    return "too many resources requested for launch";
  case Fault::Timeout:
    return "the launch timed out and was terminated";
  case ContextIsDestroyed:
    return "context is destroyed";
  case Fault::IllegalInstruction:
    return "an illegal instruction was encountered";
  case Fault::Misaligned:
    return "misaligned address";
  case Fault::LaunchFailed:
    return "unspecified launch failure";
  case CooperativeLaunchTooLarge:
    return "too many blocks in cooperative launch";
  case NotSupported:
    return "operation not supported";
  case CaptureUnsupported:
    return "operation not permitted when stream is capturing";
  case CaptureInvalidated:
    return "operation failed due to a previous error during capture";
  case CaptureImplicit:
    return "operation would make the legacy stream depend on a capturing "
           "blocking stream";
  case CapturedEvent:
    return "operation not permitted on an event last recorded in a capturing "
           "stream";
  case CaptureWrongThread:
    return "attempt to terminate a thread-local capture sequence from another "
           "thread";
  case InvalidClusterSize:
    return "invalid cluster size";
  case Unknown:
    return "unknown error";
  }
  return nullptr;
}

namespace {

/// Sets the default floating-point environment. The host may have other
/// roundings, flush subnormals or trap.
class DeviceFloats {
public:
  DeviceFloats() {
    std::fegetenv(&before);
    std::fesetenv(FE_DFL_ENV);
  }
  DeviceFloats(const DeviceFloats &) = delete;
  ~DeviceFloats() { std::fesetenv(&before); }

private:
  std::fenv_t before;
};

} // namespace

/// Runs `body` under the lock and records its error.
static int guard(const std::function<void()> &body) {
  std::lock_guard<std::mutex> lock(getState().mutex);
  DeviceFloats floats;
  try {
    body();
    return Success;
  } catch (const Error &error) {
    lastError = error;
  } catch (const Fault &fault) {
    lastError = {fault.code, fault.what()};
  } catch (const std::bad_alloc &) {
    lastError = {OutOfMemory, "the host has no memory left"};
  } catch (const std::exception &error) {
    lastError = {Unknown, error.what()};
  }
  return lastError.code;
}

int driver::run(const std::function<void()> &body) {
  return guard([&] {
    if (!getState().isInitialized)
      throw Error{NotInitialized, "cuInit must be called first"};
    body();
  });
}

int driver::runInContext(const std::function<void(DeviceContext &)> &body) {
  return run([&] {
    DeviceContext &context = getContext();
    // A fault of a launch is reported by every later call.
    if (context.fault)
      throw Fault(*context.fault);
    try {
      body(context);
    } catch (const Fault &fault) {
      context.fault = fault;
      throw;
    }
  });
}

DeviceContext &driver::getContext() {
  State &state = getState();
  if (current.empty())
    throw Error{InvalidContext, "no context is current on this thread"};
  if (!state.context || state.context->handle != current.back())
    throw Error{ContextIsDestroyed, "the primary context was released"};
  return *state.context;
}

void driver::require(const void *pointer, const char *what) {
  if (!pointer)
    throw Error{InvalidValue, std::string(what) + " is a null pointer"};
}

static std::string printBytes(uint64_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

static std::string printAddress(uint64_t address) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", (unsigned long long)address);
  return text;
}

void driver::requireMemory(DeviceContext &context, DevicePtr address,
                           size_t bytes) {
  uint64_t extent = context.machine.getExtent(address);
  if (extent == 0)
    throw Error{InvalidValue,
                printAddress(address) + " is not an address of device memory"};
  if (extent < bytes)
    throw Error{InvalidValue, "there are " + printBytes(extent) + " at " +
                                  printAddress(address) + ", not " +
                                  std::to_string(bytes)};
}

//===----------------------------------------------------------------------===//
// Initialization
//===----------------------------------------------------------------------===//

/// Reads a number from an environment variable.
static uint64_t readVariable(const char *name, uint64_t least, uint64_t most,
                             uint64_t otherwise) {
  const char *text = std::getenv(name);
  if (!text)
    return otherwise;
  char *end = nullptr;
  errno = 0;
  unsigned long long value = std::strtoull(text, &end, 10);
  // strtoull also accepts signs and blanks.
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno == ERANGE ||
      value < least || value > most)
    throw Error{InvalidValue, std::string(name) + " is '" + text +
                                  "', expected a number from " +
                                  std::to_string(least) + " to " +
                                  std::to_string(most)};
  return value;
}

/// Read for each context, so that one process can try several seeds.
static uint64_t readSeed() {
  return readVariable("FUSE_EMULATOR_SEED", 0, UINT64_MAX, 0);
}

FUSE_CUDA_EXPORT int cuInit(unsigned flags) {
  return guard([&] {
    if (flags != 0)
      throw Error{InvalidValue,
                  "flags are " + std::to_string(flags) + ", not 0"};
    State &state = getState();
    if (state.isInitialized)
      return;
    state.limits.multiprocessors = unsigned(readVariable(
        "FUSE_EMULATOR_MULTIPROCESSORS", 1, 1024, Limits().multiprocessors));
    (void)readSeed();
    state.isInitialized = true;
  });
}

FUSE_CUDA_EXPORT int cuDriverGetVersion(int *version) {
  return guard([&] {
    require(version, "the version");
    *version = kDriverVersion;
  });
}

FUSE_CUDA_EXPORT int cuGetErrorString(int code, const char **text) {
  if (!text)
    return InvalidValue;
  *text = getText(code);
  if (!*text)
    return InvalidValue;
  static thread_local std::string message;
  message = *text;
  std::string detail;
  if (lastError.code == code)
    detail = lastError.detail;
  {
    // The fault of a launch is reported on every thread.
    std::lock_guard<std::mutex> lock(getState().mutex);
    const auto &context = getState().context;
    if (context && context->fault && context->fault->code == code)
      detail = context->fault->what();
  }
  if (!detail.empty())
    message += ": " + detail;
  *text = message.c_str();
  return Success;
}

//===----------------------------------------------------------------------===//
// The device and its context
//===----------------------------------------------------------------------===//

static void requireDevice(int device) {
  if (device != 0)
    throw Error{InvalidDevice, "there is no device " + std::to_string(device) +
                                   ", only device 0"};
}

FUSE_CUDA_EXPORT int cuDeviceGetCount(int *count) {
  return run([&] {
    require(count, "the count");
    *count = 1;
  });
}

FUSE_CUDA_EXPORT int cuDeviceGet(int *device, int ordinal) {
  return run([&] {
    require(device, "the device");
    requireDevice(ordinal);
    *device = ordinal;
  });
}

FUSE_CUDA_EXPORT int cuDeviceGetName(char *name, int bytes, int device) {
  return run([&] {
    require(name, "the name");
    requireDevice(device);
    if (bytes <= 0)
      throw Error{InvalidValue,
                  "the name has room for " + std::to_string(bytes) + " bytes"};
    std::snprintf(name, size_t(bytes), "%s", kName);
  });
}

FUSE_CUDA_EXPORT int cuDeviceGetAttribute(int *value, int attribute,
                                          int device) {
  return run([&] {
    require(value, "the value");
    requireDevice(device);
    const Limits &limits = getState().limits;
    // Numbers of CUdevice_attribute. Attributes of caches and clocks are
    // missing, since the emulator has neither.
    const std::map<int, int> attributes = {
        {1, 1024},                         // threads of a block
        {2, 1024},                         // in x
        {3, 1024},                         // in y
        {4, 64},                           // in z
        {5, INT32_MAX},                    // blocks of a grid in x
        {6, 65535},                        // in y
        {7, 65535},                        // in z
        {8, int(kSharedWithoutAttribute)}, // shared memory of a block
        {9, 65536},                        // constant memory
        {10, int(kWarpSize)},              // threads of a warp
        {12, int(limits.registersPerMultiprocessor)}, // of a block
        {kDeviceMultiprocessors, int(limits.multiprocessors)},
        {31, 1}, // kernels beside each other
        {39, int(limits.threadsPerMultiprocessor)},
        {41, 1}, // one address space
        {kDeviceMajor, kCapability / 10},
        {kDeviceMinor, kCapability % 10},
        {81, int(limits.sharedPerMultiprocessor)},
        {82, int(limits.registersPerMultiprocessor)},
        {95, 1}, // cooperative launches
        {97, int(limits.sharedPerBlock)},
        {106, int(limits.blocksPerMultiprocessor)},
        {111, int(kSharedBase)}, // shared memory of the system
        {120, 1},                // clusters
    };
    auto found = attributes.find(attribute);
    if (found == attributes.end())
      throw Error{InvalidValue,
                  "the device has no attribute " + std::to_string(attribute)};
    *value = found->second;
  });
}

FUSE_CUDA_EXPORT int cuDevicePrimaryCtxRetain(Context *context, int device) {
  return run([&] {
    require(context, "the context");
    requireDevice(device);
    State &state = getState();
    if (!state.context) {
      state.context = std::make_unique<DeviceContext>(state.limits, readSeed());
      state.context->handle =
          reinterpret_cast<Context>((++state.lastContext) << 4);
    }
    ++state.references;
    *context = state.context->handle;
  });
}

FUSE_CUDA_EXPORT int cuDevicePrimaryCtxRelease(int device) {
  return run([&] {
    requireDevice(device);
    State &state = getState();
    if (state.references == 0)
      throw Error{InvalidContext, "the primary context is not retained"};
    if (--state.references > 0)
      return;
    // Launches must end before their memory is released.
    std::unique_ptr<DeviceContext> last = std::move(state.context);
    if (!last->fault)
      last->machine.synchronize();
  });
}

FUSE_CUDA_EXPORT int cuCtxPushCurrent(Context context) {
  return run([&] {
    State &state = getState();
    if (!state.context || state.context->handle != context)
      throw Error{InvalidContext, "there is no such context"};
    current.push_back(context);
  });
}

FUSE_CUDA_EXPORT int cuCtxPopCurrent(Context *context) {
  return run([&] {
    if (current.empty())
      throw Error{InvalidContext, "no context is current on this thread"};
    if (context)
      *context = current.back();
    current.pop_back();
  });
}

FUSE_CUDA_EXPORT int cuCtxSetCurrent(Context context) {
  return run([&] {
    State &state = getState();
    if (context && (!state.context || state.context->handle != context))
      throw Error{InvalidContext, "there is no such context"};
    if (!current.empty())
      current.pop_back();
    if (context)
      current.push_back(context);
  });
}

FUSE_CUDA_EXPORT int cuCtxGetCurrent(Context *context) {
  return run([&] {
    require(context, "the context");
    *context = current.empty() ? nullptr : current.back();
  });
}

FUSE_CUDA_EXPORT int cuCtxSynchronize() {
  return runInContext([](DeviceContext &context) {
    requireNoCapture(context);
    context.machine.synchronize();
  });
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

namespace {

/// The buffer for messages about a module.
struct Log {
  char *text = nullptr;
  size_t bytes = 0;
  void **filled = nullptr;

  void write(const std::string &message) const {
    size_t count = std::min(message.size() + 1, bytes);
    if (text && count > 0) {
      std::memcpy(text, message.data(), count - 1);
      text[count - 1] = '\0';
    }
    // The size option returns the number of bytes written.
    if (filled)
      *filled = reinterpret_cast<void *>(text ? count : 0);
  }
};

} // namespace

static Log readJitOptions(unsigned count, const int *options, void **values) {
  // The options end with CU_JIT_MIN_CTA_PER_SM and
  // CU_JIT_MAX_THREADS_PER_BLOCK.
  constexpr int lastOption = 34;
  Log log;
  if (count > 0) {
    require(options, "the list of options");
    require(values, "the list of their values");
  }
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] > lastOption)
      throw Error{InvalidValue,
                  "there is no option " + std::to_string(options[i])};
    if (options[i] == kJitErrorLog)
      log.text = static_cast<char *>(values[i]);
    if (options[i] == kJitErrorLogBytes) {
      log.bytes = reinterpret_cast<uintptr_t>(values[i]);
      log.filled = &values[i];
    }
  }
  return log;
}

/// Whether code for `target` runs on this device. A target with a suffix, such
/// as sm_90a, must be the same; others may be older.
static bool isForDevice(const std::string &target) {
  char *end = nullptr;
  if (target.rfind("sm_", 0) != 0)
    return false;
  long number = std::strtol(target.c_str() + 3, &end, 10);
  return *end == '\0' ? number <= kCapability
                      : std::strcmp(end, "a") == 0 && number == kCapability;
}

namespace {

/// Allocates the variables of a module, and releases them again unless they are
/// kept.
class Variables {
public:
  explicit Variables(Machine &machine) : machine(machine) {}
  ~Variables() {
    for (uint64_t address : addresses)
      (void)machine.release(address);
  }
  uint64_t add(const std::vector<uint8_t> &bytes, unsigned alignment) {
    uint64_t address = machine.allocate(std::max<size_t>(bytes.size(), 1),
                                        std::max(alignment, 16u));
    if (address == 0)
      throw Error{OutOfMemory,
                  "no memory for a variable of " + printBytes(bytes.size())};
    addresses.push_back(address);
    if (!bytes.empty())
      std::memcpy(machine.global(address, bytes.size(), 1), bytes.data(),
                  bytes.size());
    return address;
  }
  std::vector<uint64_t> keep() { return std::exchange(addresses, {}); }

private:
  Machine &machine;
  std::vector<uint64_t> addresses;
};

} // namespace

static std::unique_ptr<LoadedModule> loadPtx(DeviceContext &context,
                                             const char *text, const Log &log) {
  // The message goes to the log, or to the error if there is no log.
  auto fail = [&](int code, const std::string &what) {
    log.write(what);
    throw Error{code, log.text ? "" : what};
  };
  int major = 0, minor = 0;
  const char *version = std::strstr(text, ".version");
  if (!version || std::sscanf(version, ".version %d.%d", &major, &minor) != 2)
    fail(InvalidPtx, "the image is not PTX: it has no .version");
  if (10 * major + minor > int(kPtxVersion))
    fail(UnsupportedPtxVersion,
         "the emulator reads PTX up to version 9.0, the text has " +
             std::to_string(major) + "." + std::to_string(minor));
  Variables variables(context.machine);
  auto module = std::make_unique<LoadedModule>();
  try {
    ParsedModule parsed = parsePtx(
        text, [&](const std::vector<uint8_t> &bytes, unsigned alignment) {
          return variables.add(bytes, alignment);
        });
    // Removes options, as in `sm_90a, debug`.
    std::string target = parsed.target.substr(0, parsed.target.find(','));
    if (!isForDevice(target))
      fail(InvalidPtx,
           "the text is for " + target + ", the emulator is sm_90a");
    for (auto &[name, kernel] : parsed.kernels)
      module->programs[name] = decode(std::move(kernel));
  } catch (const std::runtime_error &error) {
    fail(InvalidPtx, error.what());
  }
  module->variables = variables.keep();
  log.write("");
  return module;
}

FUSE_CUDA_EXPORT int cuModuleLoadDataEx(Module *module, const void *image,
                                        unsigned count, int *options,
                                        void **values) {
  return runInContext([&](DeviceContext &context) {
    require(module, "the module");
    require(image, "the image");
    Log log = readJitOptions(count, options, values);
    // Cubins are ELF files. Fat binaries begin with this number.
    constexpr uint32_t fatBinary = 0xba55ed50;
    uint32_t first;
    std::memcpy(
        &first, image,
        std::strlen(static_cast<const char *>(image)) < 4 ? 0 : sizeof(first));
    bool isELF = std::memcmp(&first,
                             "\x7f"
                             "ELF",
                             4) == 0;
    if (isELF || first == fatBinary) {
      std::string what = "the emulator runs PTX, and this is assembled code; "
                         "leave it out (fuse-compile --assemble=never) or keep "
                         "the PTX beside it";
      log.write(what);
      throw Error{NoBinaryForGpu, log.text ? "" : what};
    }
    *module = context.modules.add(
        loadPtx(context, static_cast<const char *>(image), log));
  });
}

FUSE_CUDA_EXPORT int cuModuleLoadData(Module *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

FUSE_CUDA_EXPORT int cuModuleUnload(Module module) {
  return runInContext([&](DeviceContext &context) {
    LoadedModule &loaded = context.modules.get(module);
    // A pending launch may still need it.
    context.machine.synchronize();
    for (const auto &[name, kernel] : loaded.kernels)
      context.kernels.remove(kernel);
    for (uint64_t variable : loaded.variables)
      (void)context.machine.release(variable);
    context.modules.remove(module);
  });
}

FUSE_CUDA_EXPORT int cuModuleGetFunction(KernelFunction *function,
                                         Module module, const char *name) {
  return runInContext([&](DeviceContext &context) {
    require(function, "the kernel");
    require(name, "its name");
    LoadedModule &loaded = context.modules.get(module);
    auto found = loaded.programs.find(name);
    if (found == loaded.programs.end()) {
      std::string what =
          std::string("the module has no kernel '") + name + "'; it has ";
      for (const auto &[known, program] : loaded.programs)
        what += (known == loaded.programs.begin()->first ? "" : ", ") + known;
      throw Error{NotFound, loaded.programs.empty() ? what + "none" : what};
    }
    auto [entry, isNew] = loaded.kernels.try_emplace(name);
    if (isNew) {
      uint32_t isStatic = found->second->header.dynamicShared - kSharedBase;
      auto kernel = std::make_unique<Kernel>();
      kernel->program = found->second;
      kernel->module = module;
      kernel->maxDynamicShared =
          kSharedWithoutAttribute - std::min(kSharedWithoutAttribute, isStatic);
      entry->second = context.kernels.add(std::move(kernel));
    }
    *function = entry->second;
  });
}

FUSE_CUDA_EXPORT int cuFuncSetAttribute(KernelFunction function, int attribute,
                                        int value) {
  return runInContext([&](DeviceContext &context) {
    constexpr int nonPortableClusterSize = 14;
    Kernel &kernel = context.kernels.get(function);
    const ParsedKernel &header = kernel.program->header;
    switch (attribute) {
    case kFunctionMaxDynamicShared: {
      uint32_t isStatic = header.dynamicShared - kSharedBase;
      uint32_t most = context.machine.getLimits().sharedPerBlock;
      if (value < 0 || isStatic > most || uint32_t(value) > most - isStatic)
        throw Error{InvalidValue,
                    header.name + " has " + printBytes(isStatic) +
                        " of static shared memory, and a block has at most " +
                        std::to_string(most) + ", so it cannot have " +
                        std::to_string(value) + " more"};
      kernel.maxDynamicShared = uint32_t(value);
      return;
    }
    case kFunctionPreferredCarveout:
      if (value < -1 || value > 100)
        throw Error{InvalidValue, "a carveout of " + std::to_string(value) +
                                      ", expected -1 to 100 per cent"};
      return;
    case nonPortableClusterSize:
      kernel.mayHaveLargeClusters = value != 0;
      return;
    }
    throw Error{InvalidValue, "the emulator cannot set attribute " +
                                  std::to_string(attribute) +
                                  " of a kernel, only 8, 9 and 14"};
  });
}

FUSE_CUDA_EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, KernelFunction function, int threads, size_t dynamicShared) {
  return runInContext([&](DeviceContext &context) {
    require(blocks, "the number of blocks");
    Kernel &kernel = context.kernels.get(function);
    if (threads <= 0)
      throw Error{InvalidValue,
                  "a block has " + std::to_string(threads) + " threads"};
    *blocks = dynamicShared > UINT32_MAX
                  ? 0
                  : int(context.machine.getOccupancy(kernel.program->header,
                                                     unsigned(threads),
                                                     uint32_t(dynamicShared)));
  });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

FUSE_CUDA_EXPORT int cuMemAlloc(DevicePtr *address, size_t bytes) {
  return runInContext([&](DeviceContext &context) {
    require(address, "the address");
    if (bytes == 0)
      throw Error{InvalidValue, "memory of 0 bytes"};
    requireNoCapture(context);
    *address = context.machine.allocate(bytes);
    if (*address == 0)
      throw Error{OutOfMemory, "no memory for " + printBytes(bytes)};
  });
}

FUSE_CUDA_EXPORT int cuMemFree(DevicePtr address) {
  return runInContext([&](DeviceContext &context) {
    if (address == 0)
      return;
    requireNoCapture(context);
    // Pending launches may still use it. Drivers synchronize here too.
    context.machine.synchronize();
    if (!context.machine.release(address))
      throw Error{InvalidValue,
                  printAddress(address) +
                      " is not where memory begins that was allocated"};
  });
}

FUSE_CUDA_EXPORT int cuMemcpyHtoD(DevicePtr to, const void *from,
                                  size_t bytes) {
  return runInContext([&](DeviceContext &context) {
    if (bytes == 0)
      return;
    require(from, "the source");
    requireMemory(context, to, bytes);
    synchronizeDefaultStream(context);
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  });
}

FUSE_CUDA_EXPORT int cuMemcpyDtoH(void *to, DevicePtr from, size_t bytes) {
  return runInContext([&](DeviceContext &context) {
    if (bytes == 0)
      return;
    require(to, "the target");
    requireMemory(context, from, bytes);
    synchronizeDefaultStream(context);
    std::memcpy(to, reinterpret_cast<void *>(from), bytes);
  });
}

FUSE_CUDA_EXPORT int cuMemsetD8(DevicePtr to, unsigned char value,
                                size_t bytes) {
  return runInContext([&](DeviceContext &context) {
    if (bytes == 0)
      return;
    requireMemory(context, to, bytes);
    synchronizeDefaultStream(context);
    std::memset(reinterpret_cast<void *>(to), value, bytes);
  });
}

FUSE_CUDA_EXPORT int
cuTensorMapEncodeTiled(fuse::runtime::cuda::TensorMap *map, int type,
                       unsigned rank, void *address, const uint64_t *sizes,
                       const uint64_t *strides, const unsigned *box,
                       const unsigned *steps, int interleave, int swizzle,
                       int promotion, int fill) {
  return run([&] {
    std::string what;
    int code = encodeTensorMap(
        map, type, rank, reinterpret_cast<uint64_t>(address), sizes, strides,
        box, steps, interleave, swizzle, promotion, fill, what);
    if (code != Success)
      throw Error{code, what};
  });
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

#define ENTRY(NAME, VERSION, ...)                                              \
  {#NAME, VERSION, reinterpret_cast<void *>(NAME)},
// clang-format off
static const NamedFunction kFunctions[] = {
    FUSE_CUDA_FUNCTIONS(ENTRY)
    ENTRY(cuCtxSetCurrent, 4000)
    ENTRY(cuCtxGetCurrent, 4000)
    ENTRY(cuDeviceGetName, 2000)
    ENTRY(cuModuleLoadData, 2000)
    {nullptr, 0, nullptr}};
// clang-format on
#undef ENTRY

FUSE_CUDA_EXPORT int
// NOLINTNEXTLINE(readability-identifier-naming): the name in the driver.
cuGetProcAddress_v2(const char *name, void **address, int version,
                    uint64_t flags, int *status) {
  // Values of CUdriverProcAddressQueryResult.
  enum { Found, NoSymbol, NoVersion };
  return guard([&] {
    require(name, "the name");
    require(address, "the address");
    *address = nullptr;
    int result = NoSymbol;
    for (const NamedFunction *table : {kFunctions, kStreamFunctions})
      for (; table->name; ++table)
        if (std::strcmp(table->name, name) == 0) {
          result = version >= table->version ? Found : NoVersion;
          if (result == Found)
            *address = table->address;
        }
    if (status)
      *status = result;
    if (result != Found)
      throw Error{NotFound, std::string("the emulator has no ") + name};
  });
}

FUSE_CUDA_EXPORT int cuGetProcAddress(const char *name, void **address,
                                      int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, address, version, flags, nullptr);
}
