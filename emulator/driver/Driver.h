//===- Driver.h - State behind the functions of CUDA ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions of the driver take handles and give codes. Behind them are the
// objects here, of the one device that there is, and exceptions.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_DRIVER_DRIVER_H
#define FUSE_EMULATOR_DRIVER_DRIVER_H

// Declares the functions as the runtime calls them; there is no second copy.
#include "fuse/Runtime/CUDA/CudaDriverApi.h"
#include "machine/Machine.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

namespace fuse::emulator::driver {

using runtime::cuda::Context;
using runtime::cuda::DevicePtr;
using runtime::cuda::Event;
using runtime::cuda::KernelFunction;
using runtime::cuda::LaunchAttribute;
using runtime::cuda::LaunchConfig;
using runtime::cuda::Module;
using runtime::cuda::Stream;
struct GraphTag;
struct GraphExecTag;
using Graph = GraphTag *;
using GraphExec = GraphExecTag *;

/// Codes of `CUresult` beside those of Fault.
enum Code : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  InvalidDevice = 101,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  InvalidPtx = 218,
  UnsupportedPtxVersion = 222,
  InvalidHandle = 400,
  IllegalState = 401,
  NotFound = 500,
  NotReady = 600,
  LaunchOutOfResources = 701,
  ContextIsDestroyed = 709,
  CooperativeLaunchTooLarge = 720,
  NotSupported = 801,
  CaptureUnsupported = 900,
  CaptureInvalidated = 901,
  CaptureImplicit = 906,
  CapturedEvent = 907,
  CaptureWrongThread = 908,
  InvalidClusterSize = 912,
  Unknown = 999,
};

/// What a function fails with; `cuGetErrorString` adds the detail to what
/// drivers say about the code, for the thread that it happened on.
struct Error {
  int code;
  std::string detail;
};

/// Objects by handle. A handle is never given twice, so that one of something
/// that is gone is found out.
template <typename Handle, typename T>
class Handles {
public:
  explicit Handles(const char *what) : what(what) {}

  Handle add(std::unique_ptr<T> object) {
    // Small numbers stand for streams that are always there.
    static uintptr_t last = 0x1000;
    auto handle = reinterpret_cast<Handle>(last += 0x10);
    objects.emplace(handle, std::move(object));
    return handle;
  }
  T &get(Handle handle) {
    auto found = objects.find(handle);
    if (found == objects.end())
      throw Error{InvalidHandle, std::string("there is no such ") + what};
    return *found->second;
  }
  void remove(Handle handle) {
    (void)get(handle);
    objects.erase(handle);
  }
  auto begin() { return objects.begin(); }
  auto end() { return objects.end(); }

private:
  const char *what;
  std::map<Handle, std::unique_ptr<T>> objects;
};

struct Kernel {
  std::shared_ptr<const Program> program;
  Module module;
  /// Without the attribute a launch has 48 KiB with what is static.
  uint32_t maxDynamicShared;
  bool mayHaveLargeClusters = false;
};

struct LoadedModule {
  std::map<std::string, std::shared_ptr<const Program>> programs;
  /// Handles of the kernels that were looked up.
  std::map<std::string, KernelFunction> kernels;
  std::vector<uint64_t> variables;
};

struct LaunchOperation {
  std::shared_ptr<const Program> program;
  LaunchShape shape;
  std::vector<uint8_t> parameters;
};

struct FillOperation {
  DevicePtr address;
  uint8_t value;
  size_t bytes;
};

using Operation = std::variant<LaunchOperation, FillOperation>;

/// What launches on a stream become instead of work.
struct Capture {
  enum Mode : int { Global, ThreadLocal, Relaxed };
  Mode mode;
  std::thread::id thread;
  std::vector<Operation> operations;
  bool isInvalid = false;
};

struct StreamState {
  uint64_t id = 0;
  /// Waits for the default stream, which waits for it.
  bool isBlocking = true;
  /// A launch may overlap only another launch, which goes before it.
  bool endsInLaunch = false;
  std::unique_ptr<Capture> capture;
};

struct EventState {
  bool hasTime;
  bool isCaptured = false;
  /// Where it was recorded.
  std::optional<uint64_t> stream;
  std::chrono::steady_clock::time_point time;
};

/// The primary context of the device.
struct DeviceContext {
  DeviceContext(const Limits &limits, uint64_t seed) : machine(limits, seed) {}

  /// The first, as what follows lies in it.
  Machine machine;
  Context handle = nullptr;
  /// What ended all launches.
  std::optional<Fault> fault;
  Handles<Module, LoadedModule> modules{"module"};
  Handles<KernelFunction, Kernel> kernels{"kernel"};
  Handles<Stream, StreamState> streams{"stream"};
  Handles<Event, EventState> events{"event"};
  Handles<Graph, std::vector<Operation>> graphs{"graph"};
  Handles<GraphExec, std::vector<Operation>> executables{"executable graph"};
  /// Stream zero, and those that each thread has of its own.
  StreamState legacy;
  std::map<std::thread::id, StreamState> ofThreads;
  uint64_t lastStream = 0;
};

/// The context that is current on this thread.
DeviceContext &getContext();

/// Runs `body` for a function of the driver, one at a time, and gives its code.
int run(const std::function<void()> &body);
/// The same with the context that is current, in which nothing has failed.
int runInContext(const std::function<void(DeviceContext &)> &body);

/// Throws Error unless `pointer` is there.
void require(const void *pointer, const char *what);
/// Throws Error unless that range of device memory is allocated.
void requireMemory(DeviceContext &context, DevicePtr address, size_t bytes);
/// Throws Error where a capture forbids what waits for the device, and makes
/// that capture invalid, as drivers do.
void requireNoCapture(DeviceContext &context);
/// Waits for all that the default stream waits for, and for that.
void synchronizeDefaultStream(DeviceContext &context);

/// A function by the name and from the version on by which it is asked for.
struct NamedFunction {
  const char *name;
  int version;
  void *address;
};
/// Those of Streams.cpp beside what the runtime calls; ends with a null name.
extern const NamedFunction kStreamFunctions[];

} // namespace fuse::emulator::driver

/// Of the functions that the library shows.
#define FUSE_CUDA_EXPORT extern "C" __attribute__((visibility("default")))

// As in cuda.h: functions that changed have new names for those who link them,
// and the old one for those who ask for a version.
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemsetD8 cuMemsetD8_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2

// What the runtime calls has the types that it declares, or does not compile.
namespace fuse::runtime::cuda {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define FUSE_CUDA_DECLARE(NAME, VERSION, PARAMETERS)                           \
  FUSE_CUDA_EXPORT int NAME PARAMETERS;
FUSE_CUDA_FUNCTIONS(FUSE_CUDA_DECLARE)
#undef FUSE_CUDA_DECLARE
} // namespace fuse::runtime::cuda

#endif // FUSE_EMULATOR_DRIVER_DRIVER_H
