//===- CudaDevice.cpp - One CUDA device -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/CUDA/CudaDevice.h"
#include "fuse/Runtime/CUDA/PackKernel.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Packing.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

using namespace fuse::runtime;
using namespace fuse::runtime::cuda;

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

/// Identity of a stream. One handle stands for the default stream of each
/// thread, and two handles stand for the legacy default stream.
static void *identify(void *stream) {
  static thread_local char ofThread;
  constexpr uintptr_t legacy = 1, perThread = 2;
  if (reinterpret_cast<uintptr_t>(stream) == legacy)
    return nullptr;
  return reinterpret_cast<uintptr_t>(stream) == perThread ? &ofThread : stream;
}

bool LastUse::enter(const CudaDevice &device, void *onStream, bool isOrdered) {
  void *next = identify(onStream);
  std::lock_guard<std::mutex> lock(mutex);
  if (!isOrdered && lastLaunch > 0 && stream != next &&
      !device.getProgress().hasEnded(stream, lastLaunch))
    return false;
  stream = next;
  lastLaunch = UINT64_MAX;
  return true;
}

void LastUse::leave(const CudaDevice &device) {
  std::lock_guard<std::mutex> lock(mutex);
  lastLaunch = device.getProgress().countLaunch();
}

bool LastUse::isOn(void *someStream) const {
  std::lock_guard<std::mutex> lock(mutex);
  return lastLaunch > 0 && stream == identify(someStream);
}

void LastUse::forget() {
  std::lock_guard<std::mutex> lock(mutex);
  lastLaunch = 0;
}

Progress &Progress::get(int ordinal) {
  // Never destroyed: threads may wait while the process ends.
  static auto &all = *new std::map<int, Progress>;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  return all[ordinal];
}

void Progress::end(void *stream, uint64_t launch) {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t &seen = ended[stream];
  seen = std::max(seen, launch);
}

bool Progress::hasEnded(void *stream, uint64_t launch) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = ended.find(stream);
  return it != ended.end() && it->second >= launch;
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

CudaDevice::CudaDevice(int ordinal) : driver(Driver::get()), ordinal(ordinal) {
  int count = 0;
  call(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0)
    throw Failure(FUSE_ERROR_NO_DRIVER, "the CUDA driver has no device");
  if (ordinal < 0 || ordinal >= count)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "there is no CUDA device " + std::to_string(ordinal) +
                      "; there are " + std::to_string(count));
  progress = &Progress::get(ordinal);
  call(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  int major = 0, minor = 0;
  auto getAttribute = [&](int *value, int attribute) {
    call(driver.cuDeviceGetAttribute(value, attribute, device),
         "cuDeviceGetAttribute");
  };
  getAttribute(&multiprocessors, kDeviceMultiprocessors);
  getAttribute(&major, kDeviceMajor);
  getAttribute(&minor, kDeviceMinor);
  capability = 10 * major + minor;
  call(driver.cuDevicePrimaryCtxRetain(&context, device),
       "cuDevicePrimaryCtxRetain");
  packKernel = std::make_unique<PackKernel>(*this);
}

CudaDevice::~CudaDevice() {
  // Its module is in the context.
  packKernel.reset();
  // A destructor has no caller to report an error to.
  if (canRelease())
    (void)driver.cuDevicePrimaryCtxRelease(device);
}

void CudaDevice::call(int code, const char *function,
                      const std::string &what) const {
  if (code == kSuccess)
    return;
  std::string message = std::string(function) +
                        (what.empty() ? "" : " (" + what + ")") + ": " +
                        driver.describe(code);
  if (isSticky(code)) {
    poison = code;
    message += "; the process has to be started again";
  }
  throw Failure(getStatus(code), message);
}

void CudaDevice::check() const {
  int code = poison;
  if (code == -1)
    throw Failure(FUSE_ERROR_TIMEOUT,
                  "an earlier launch did not finish in time");
  if (code != 0)
    throw Failure(FUSE_ERROR_DEVICE_LOST,
                  "an earlier call failed with " + driver.describe(code) +
                      "; the process has to be started again");
}

void CudaDevice::waitFor(void *stream, uint64_t timeoutMs) const {
  check();
  CurrentContext current(*this);
  struct OwnedEvent {
    ~OwnedEvent() {
      if (event)
        (void)driver.cuEventDestroy(event);
    }
    const Driver &driver;
    Event event = nullptr;
  } owned{driver};
  call(driver.cuEventCreate(&owned.event, kEventDisableTiming),
       "cuEventCreate");
  // Launches up to this number precede the event or are on another stream.
  uint64_t last = progress->getNumLaunches();
  call(driver.cuEventRecord(owned.event, static_cast<Stream>(stream)),
       "cuEventRecord");
  using Clock = std::chrono::steady_clock;
  // Larger values mean no time-out: the clock counts in signed nanoseconds.
  constexpr uint64_t most = INT64_MAX / 1000000;
  std::chrono::milliseconds timeout(std::min(timeoutMs, most));
  Clock::time_point begin = Clock::now();
  auto elapsed = [&] { return Clock::now() - begin; };
  while (true) {
    int code = driver.cuEventQuery(owned.event);
    if (code == kSuccess) {
      progress->end(identify(stream), last);
      return;
    }
    if (code != kNotReady)
      call(code, "cuEventQuery");
    if (elapsed() >= timeout) {
      poison = -1;
      throw Failure(FUSE_ERROR_TIMEOUT, "the stream did not finish in " +
                                            std::to_string(timeoutMs) + " ms");
    }
    // Spin at first to keep the latency low, then sleep to free the processor.
    if (elapsed() < std::chrono::microseconds(200))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void CudaDevice::wait(void *stream, uint64_t timeoutMs) {
  waitFor(stream, timeoutMs);
}

void CudaDevice::waitForDefaultStream() const {
  // In milliseconds. Far longer than any copy, after all other work on the
  // stream.
  constexpr uint64_t timeoutMs = 60000;
  waitFor(/*stream=*/nullptr, timeoutMs);
}

void CudaDevice::setExclusive(bool isExclusive) {
  check();
  exclusiveUse.forget();
  exclusive = isExclusive;
}

LastUse *CudaDevice::enterExclusive(void *stream, bool isOrdered) const {
  // Query only for another stream, because the driver call is slow.
  if (!exclusiveUse.isOn(stream)) {
    int isCapturing = 0;
    call(driver.cuStreamIsCapturing(static_cast<Stream>(stream), &isCapturing),
         "cuStreamIsCapturing");
    if (isCapturing != 0)
      return nullptr;
  }
  if (!exclusiveUse.enter(*this, stream, isOrdered))
    throw Failure(FUSE_ERROR_STATE,
                  "device " + std::to_string(ordinal) +
                      " is exclusive, and kernels whose blocks wait for each "
                      "other may be running on another stream; wait for that "
                      "stream, or do not make the device exclusive");
  return &exclusiveUse;
}

CurrentContext::CurrentContext(const CudaDevice &device) : device(device) {
  device.call(device.driver.cuCtxPushCurrent(device.context),
              "cuCtxPushCurrent");
}

CurrentContext::~CurrentContext() {
  Context popped;
  (void)device.driver.cuCtxPopCurrent(&popped);
}

std::shared_ptr<Device> fuse::runtime::openCuda(int ordinal) {
  return std::make_shared<CudaDevice>(ordinal);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

DeviceMemory::DeviceMemory(std::shared_ptr<const CudaDevice> owner, size_t size,
                           const std::string &what)
    : device(std::move(owner)), bytes(size) {
  CurrentContext current(*device);
  // The driver refuses allocations of zero bytes.
  device->call(
      device->getDriver().cuMemAlloc(&address, std::max<size_t>(size, 16)),
      "cuMemAlloc", std::to_string(size) + " bytes for " + what);
}

DeviceMemory::~DeviceMemory() {
  if (!address || !device->canRelease())
    return;
  try {
    CurrentContext current(*device);
    (void)device->getDriver().cuMemFree(address);
  } catch (const Failure &) {
    // The memory is gone together with its context.
  }
}

void DeviceMemory::upload(const void *source, size_t count) const {
  if (count == 0)
    return;
  CurrentContext current(*device);
  device->call(device->getDriver().cuMemcpyHtoD(address, source, count),
               "cuMemcpyHtoD", std::to_string(count) + " bytes");
}

void DeviceMemory::zero(size_t count) const {
  if (count == 0)
    return;
  CurrentContext current(*device);
  device->call(device->getDriver().cuMemsetD8(address, 0, count), "cuMemsetD8");
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

static std::string printPTXVersion(unsigned version) {
  return std::to_string(version / 10) + "." + std::to_string(version % 10);
}

int CudaModule::load(std::string_view image, std::string &log) {
  // The driver requires text to end with a zero byte.
  std::string terminated(image);
  log.assign(8192, '\0');
  int options[] = {kJitErrorLog, kJitErrorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  CurrentContext current(*device);
  int code = device->getDriver().cuModuleLoadDataEx(&handle, terminated.c_str(),
                                                    2, options, values);
  log.resize(log.find_last_not_of(std::string("\0\n ", 3)) + 1);
  return code;
}

/// Loads PTX. If the driver does not know its version, retries with the lowest
/// version that has all used features.
int CudaModule::loadPTX(std::string text, const KernelModule &module,
                        std::string &log) {
  int result = load(text, log);
  constexpr int unsupportedVersion = 222;
  if (result != unsupportedVersion || module.ptxMinimum == module.ptxVersion)
    return result;
  static constexpr std::string_view directive = ".version ";
  size_t begin = text.find(directive);
  if (begin == std::string::npos)
    return result;
  begin += directive.size();
  size_t end = text.find_first_not_of("0123456789.", begin);
  if (end == std::string::npos)
    return result;
  text.replace(begin, end - begin, printPTXVersion(module.ptxMinimum));
  handle = nullptr;
  return load(text, log);
}

CudaModule::CudaModule(std::shared_ptr<const CudaDevice> owner,
                       const Artifact &artifact, const KernelModule &module,
                       const std::string &chip)
    : device(std::move(owner)) {
  std::string log;
  std::string of = module.source.empty() ? "" : " of '" + module.source + "'";
  // A cubin may require a newer driver than its PTX does.
  if (module.cubin) {
    int result = load(artifact.sections[*module.cubin].data, log);
    if (result == kSuccess)
      return;
    if (isSticky(result) || result == 2 || !module.ptx)
      device->call(result, "cuModuleLoadDataEx", "cubin" + of + " for " + chip);
    handle = nullptr;
  }
  std::string_view text = module.deferred
                              ? artifact.source->getModule(*module.deferred)
                              : artifact.sections[*module.ptx].data;
  int result = loadPTX(std::string(text), module, log);
  if (result == kSuccess)
    return;
  handle = nullptr;
  std::string what = "PTX " + printPTXVersion(module.ptxVersion);
  if (module.ptxMinimum != module.ptxVersion)
    what += " (at least " + printPTXVersion(module.ptxMinimum) + ")";
  what += of + " for " + chip + " on a driver of CUDA " +
          printVersion(device->getDriver().version);
  if (!log.empty())
    what += ", " + log;
  device->call(result, "cuModuleLoadDataEx", what);
}

CudaModule::~CudaModule() {
  if (!handle || !device->canRelease())
    return;
  try {
    CurrentContext current(*device);
    (void)device->getDriver().cuModuleUnload(handle);
  } catch (const Failure &) {
    // The module is gone together with its context.
  }
}

KernelFunction CudaModule::getKernel(const std::string &name) const {
  KernelFunction function = nullptr;
  CurrentContext current(*device);
  device->call(
      device->getDriver().cuModuleGetFunction(&function, handle, name.c_str()),
      "cuModuleGetFunction", name);
  return function;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Throws unless code for `chip` runs on the device. Code for an
/// architecture-specific chip such as sm_90a runs on that one only. Other code
/// also runs on all later ones.
static void checkChip(const std::string &chip, const CudaDevice &device) {
  char *end = nullptr;
  long number =
      chip.rfind("sm_", 0) == 0 ? std::strtol(chip.c_str() + 3, &end, 10) : -1;
  if (number <= 0 || (*end != '\0' && std::string(end) != "a"))
    throw Failure(FUSE_ERROR_FORMAT,
                  "the code is for an unknown chip '" + chip + "'");
  bool fits = *end == 'a' ? number == device.getCapability()
                          : number <= device.getCapability();
  if (!fits)
    throw Failure(FUSE_ERROR_TARGET,
                  "the code is for " + chip + ", device " +
                      std::to_string(device.getOrdinal()) + " is sm_" +
                      std::to_string(device.getCapability()));
}

CudaProgram::CudaProgram(std::shared_ptr<const Artifact> source,
                         std::shared_ptr<const CudaDevice> owner)
    : Program(std::move(source)), device(std::move(owner)) {
  for (const Function &function : getArtifact().manifest.functions) {
    if (!function.device)
      continue;
    checkChip(function.device->chip, *device);
    for (const PackedWeight &packed : function.device->packed)
      checkPacking(packed, function);
    functions.push_back(&function);
  }
  if (functions.empty())
    throw Failure(FUSE_ERROR_TARGET, "the artifact has no code for a GPU");
}

std::unique_ptr<Instance> CudaProgram::instantiate(const Function &function) {
  return createCudaInstance(
      std::static_pointer_cast<CudaProgram>(shared_from_this()), device,
      function);
}

const CudaModule &CudaProgram::getModule(const KernelModule &module,
                                         const std::string &chip) {
  std::pair<bool, size_t> key = {module.deferred.has_value(),
                                 module.deferred ? *module.deferred
                                 : module.ptx    ? *module.ptx
                                                 : *module.cubin};
  std::unique_lock<std::mutex> lock(mutex);
  Slot &slot = modules[key];
  lock.unlock();
  std::lock_guard<std::mutex> loading(slot.mutex);
  if (!slot.module)
    slot.module =
        std::make_unique<CudaModule>(device, getArtifact(), module, chip);
  return *slot.module;
}

DevicePtr CudaProgram::getConstant(const Constant &constant) {
  std::string_view data = getArtifact().sections[constant.section].data;
  // Tensors without elements have no address.
  if (data.empty())
    return 0;
  std::lock_guard<std::mutex> lock(mutex);
  DeviceMemory &memory = constants[constant.section];
  if (!memory.get()) {
    DeviceMemory uploaded(device, data.size(), "constants");
    uploaded.upload(data.data(), data.size());
    memory = std::move(uploaded);
  }
  return memory.get() + constant.offset;
}

std::shared_ptr<Program>
CudaDevice::load(std::shared_ptr<const Artifact> artifact) {
  check();
  return std::make_shared<CudaProgram>(
      std::move(artifact),
      std::static_pointer_cast<CudaDevice>(shared_from_this()));
}
