//===- CudaDevice.h - One CUDA device ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CUDA_CUDADEVICE_H
#define FUSE_RUNTIME_CUDA_CUDADEVICE_H

#include "fuse/Runtime/CUDA/CudaDriver.h"
#include "fuse/Runtime/Core/Instance.h"

#include <atomic>
#include <map>
#include <mutex>

namespace fuse::runtime::cuda {

class CudaDevice;

/// The stream and the launch of the last use of a resource. Uses on one stream
/// are ordered.
class LastUse {
public:
  /// Records a use on a stream. Returns false and records nothing if the last
  /// use was on another stream and may still be running. `isOrdered` states
  /// that the caller has ordered the two uses.
  bool enter(const CudaDevice &device, void *onStream, bool isOrdered);
  /// Called when the kernels are on the stream. A wait for the stream that
  /// begins after this call includes them.
  void leave(const CudaDevice &device);
  bool isOn(void *someStream) const;
  void forget();

private:
  mutable std::mutex mutex;
  void *stream = nullptr;
  uint64_t lastLaunch = 0;
};

/// Launches on a device that are known to have ended. All handles of the device
/// share it, since a launch through one handle may be waited for through
/// another.
class Progress {
public:
  /// The progress of the device with this ordinal.
  static Progress &get(int ordinal);

  /// Counts a launch and returns its number.
  uint64_t countLaunch() { return ++launches; }
  uint64_t getNumLaunches() const { return launches; }
  /// Records that launches on a stream up to this one have ended.
  void end(void *stream, uint64_t launch);
  bool hasEnded(void *stream, uint64_t launch) const;

private:
  std::atomic<uint64_t> launches = 0;
  mutable std::mutex mutex;
  /// Last launch of each stream that is known to have ended.
  std::map<void *, uint64_t> ended;
};

class PackKernel;

/// The primary context of a device. All driver calls go through `call`, which
/// notices when the context has become unusable.
class CudaDevice : public Device {
public:
  explicit CudaDevice(int ordinal);
  ~CudaDevice() override;

  std::shared_ptr<Program>
  load(std::shared_ptr<const Artifact> artifact) override;
  void check() const override;
  void wait(void *stream, uint64_t timeoutMs) override;
  void setExclusive(bool isExclusive) override;

  int getOrdinal() const { return ordinal; }
  int getMultiprocessors() const { return multiprocessors; }
  /// Ten times the major plus the minor number of the compute capability.
  int getCapability() const { return capability; }
  const Driver &getDriver() const { return driver; }

  /// Waits for copies and fills that the driver has started for this thread and
  /// may not have completed. They are on the default stream, with which other
  /// streams need not synchronize.
  void waitForDefaultStream() const;

  /// Throws `Failure` if `code` is not success. `what` names the function and
  /// its purpose.
  void call(int code, const char *function, const std::string &what = "") const;

  Progress &getProgress() const { return *progress; }

  PackKernel &getPackKernel() const { return *packKernel; }

  bool isExclusive() const { return exclusive; }
  /// Called before launches whose blocks wait for each other while the device
  /// is exclusive. Throws `Failure` if such launches may be running on another
  /// stream. Returns the use that the caller has to leave afterwards. Returns
  /// null for a launch that a graph captures, which does not run now.
  LastUse *enterExclusive(void *stream, bool isOrdered) const;

  /// Whether handles may be released. After a time-out, a release would block
  /// the host until the running work ends, so handles are abandoned.
  bool canRelease() const { return poison != -1; }

private:
  const Driver &driver;
  int ordinal;
  int device = 0;
  int multiprocessors = 0;
  int capability = 0;
  Context context = nullptr;
  /// The code that made the context unusable; -1 after a time-out.
  mutable std::atomic<int> poison = 0;
  Progress *progress = nullptr;
  std::unique_ptr<PackKernel> packKernel;

  std::atomic<bool> exclusive = false;
  mutable LastUse exclusiveUse;

  void waitFor(void *stream, uint64_t timeoutMs) const;

  friend class CurrentContext;
};

/// Makes the context of a device the current one of the thread.
class CurrentContext {
public:
  explicit CurrentContext(const CudaDevice &device);
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;
  ~CurrentContext();

private:
  const CudaDevice &device;
};

/// Device memory. Its owner may be made and destroyed with or without the
/// context current.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(std::shared_ptr<const CudaDevice> device, size_t bytes,
               const std::string &what);
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();

  DevicePtr get() const { return address; }
  size_t size() const { return bytes; }
  void upload(const void *source, size_t count) const;
  void zero(size_t count) const;

private:
  void swap(DeviceMemory &other) noexcept {
    std::swap(device, other.device);
    std::swap(address, other.address);
    std::swap(bytes, other.bytes);
  }

  std::shared_ptr<const CudaDevice> device;
  DevicePtr address = 0;
  size_t bytes = 0;
};

/// The kernels of one module of an artifact.
class CudaModule {
public:
  CudaModule(std::shared_ptr<const CudaDevice> device, const Artifact &artifact,
             const KernelModule &module, const std::string &chip);
  CudaModule(const CudaModule &) = delete;
  CudaModule &operator=(const CudaModule &) = delete;
  ~CudaModule();

  KernelFunction getKernel(const std::string &name) const;

private:
  int load(std::string_view image, std::string &log);
  int loadPTX(std::string text, const KernelModule &module, std::string &log);

  std::shared_ptr<const CudaDevice> device;
  Module handle = nullptr;
};

/// An artifact whose modules are loaded when they are first needed.
class CudaProgram : public Program {
public:
  CudaProgram(std::shared_ptr<const Artifact> artifact,
              std::shared_ptr<const CudaDevice> device);

  std::unique_ptr<Instance> instantiate(const Function &function) override;
  const ScaleTable &getScales(const Function &function) const override {
    return function.device->scales;
  }
  /// The code of a module, compiled and loaded on first use. Several threads
  /// may call this for different modules at the same time.
  const CudaModule &getModule(const KernelModule &module,
                              const std::string &chip);
  /// The address of a constant, whose section is uploaded on first use.
  DevicePtr getConstant(const Constant &constant);

private:
  struct Slot {
    /// Held while the module is loaded.
    std::mutex mutex;
    std::unique_ptr<CudaModule> module;
  };

  std::shared_ptr<const CudaDevice> device;
  std::mutex mutex;
  /// Keyed by the location of the code: the section, or the number in the
  /// source.
  std::map<std::pair<bool, size_t>, Slot> modules;
  /// Sections of constants by their number.
  std::map<size_t, DeviceMemory> constants;
};

std::unique_ptr<Instance>
createCudaInstance(std::shared_ptr<CudaProgram> program,
                   std::shared_ptr<const CudaDevice> device,
                   const Function &function);

} // namespace fuse::runtime::cuda

#endif // FUSE_RUNTIME_CUDA_CUDADEVICE_H
