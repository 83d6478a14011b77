//===- Driver.h - State of the emulated CUDA driver -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions of the driver take handles and return codes. Internally, handles
// are the objects declared here and errors are exceptions. There is one device.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_DRIVER_DRIVER_H
#define FUSE_EMULATOR_DRIVER_DRIVER_H

// The runtime and the emulator share these declarations.
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

/// Codes of `CUresult` in addition to those of Fault.
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

/// An error of a function. `cuGetErrorString` appends the detail to the text of
/// the code, on the thread on which it happened.
struct Error {
  int code;
  std::string detail;
};

/// Objects by handle. A handle is never reused, so that a stale handle is
/// detected.
template <typename Handle, typename T>
class Handles {
public:
  explicit Handles(const char *what) : what(what) {}

  Handle add(std::unique_ptr<T> object) {
    // Small numbers are handles of predefined streams.
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
  /// Limit of dynamic shared memory: 48 KiB minus static shared memory unless
  /// the attribute of the function is set.
  uint32_t maxDynamicShared;
  bool mayHaveLargeClusters = false;
};

struct LoadedModule {
  std::map<std::string, std::shared_ptr<const Program>> programs;
  /// Handles of kernels that were looked up.
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

/// Operations that a stream records instead of running them.
struct Capture {
  enum Mode : int { Global, ThreadLocal, Relaxed };
  Mode mode;
  std::thread::id thread;
  std::vector<Operation> operations;
  bool isInvalid = false;
};

struct StreamState {
  uint64_t id = 0;
  /// Whether it synchronizes with the default stream, in both directions.
  bool isBlocking = true;
  /// Whether the last operation is a launch. Only another launch may overlap
  /// it.
  bool endsInLaunch = false;
  std::unique_ptr<Capture> capture;
};

struct EventState {
  bool hasTime;
  bool isCaptured = false;
  /// The stream on which it was recorded.
  std::optional<uint64_t> stream;
  std::chrono::steady_clock::time_point time;
};

/// The primary context of the device.
struct DeviceContext {
  DeviceContext(const Limits &limits, uint64_t seed) : machine(limits, seed) {}

  /// Declared first, since later members refer to its memory.
  Machine machine;
  Context handle = nullptr;
  /// The fault that ended all launches.
  std::optional<Fault> fault;
  Handles<Module, LoadedModule> modules{"module"};
  Handles<KernelFunction, Kernel> kernels{"kernel"};
  Handles<Stream, StreamState> streams{"stream"};
  Handles<Event, EventState> events{"event"};
  Handles<Graph, std::vector<Operation>> graphs{"graph"};
  Handles<GraphExec, std::vector<Operation>> executables{"executable graph"};
  /// The default stream, and the per-thread streams.
  StreamState legacy;
  std::map<std::thread::id, StreamState> ofThreads;
  uint64_t lastStream = 0;
};

/// The current context of this thread.
DeviceContext &getContext();

/// Runs the body of a driver function under the lock and returns its code.
int run(const std::function<void()> &body);
/// The same with the current context. Fails if that context has a fault.
int runInContext(const std::function<void(DeviceContext &)> &body);

/// Throws Error if `pointer` is null.
void require(const void *pointer, const char *what);
/// Throws Error if the range of device memory is not allocated.
void requireMemory(DeviceContext &context, DevicePtr address, size_t bytes);
/// Throws Error if a capture forbids synchronization, and invalidates that
/// capture as drivers do.
void requireNoCapture(DeviceContext &context);
/// Synchronizes the default stream and the streams that it waits for.
void synchronizeDefaultStream(DeviceContext &context);

/// A driver function, with the first version that has it.
struct NamedFunction {
  const char *name;
  int version;
  void *address;
};
/// Functions of DriverStreams.cpp that the runtime does not call. Ends with a
/// null name.
extern const NamedFunction kStreamFunctions[];

} // namespace fuse::emulator::driver

/// Marks functions that the library exports.
#define FUSE_CUDA_EXPORT extern "C" __attribute__((visibility("default")))

// As in cuda.h: changed functions have new names for linking. Lookups by
// version use the old name.
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

// This redeclares the functions that the runtime calls, so a different
// signature does not compile.
namespace fuse::runtime::cuda {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define FUSE_CUDA_DECLARE(NAME, VERSION, PARAMETERS)                           \
  FUSE_CUDA_EXPORT int NAME PARAMETERS;
FUSE_CUDA_FUNCTIONS(FUSE_CUDA_DECLARE)
#undef FUSE_CUDA_DECLARE
} // namespace fuse::runtime::cuda

#endif // FUSE_EMULATOR_DRIVER_DRIVER_H
