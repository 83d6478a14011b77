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

/// The stream that something was last used on, and by which launch. Uses on one
/// stream come one after the other.
class LastUse {
public:
  /// Takes note of a use on a stream. False, and nothing is noted, if the last
  /// one was on another stream and may not have ended, unless the caller has
  /// ordered the two.
  bool enter(const CudaDevice &device, void *onStream, bool isOrdered);
  /// Called when the kernels are on the stream: a wait for it that begins now
  /// sees their end.
  void leave(const CudaDevice &device);
  bool isOn(void *someStream) const;
  void forget();

private:
  mutable std::mutex mutex;
  void *stream = nullptr;
  uint64_t lastLaunch = 0;
};

/// What waiting has shown of the launches on a device. All handles of the
/// device share it: what was launched through one of them may be waited for
/// through another.
class Progress {
public:
  /// That of the device with a number.
  static Progress &get(int ordinal);

  /// Counts a launch, and gives its number.
  uint64_t countLaunch() { return ++launches; }
  uint64_t getNumLaunches() const { return launches; }
  /// Launches on a stream up to this one have ended.
  void end(void *stream, uint64_t launch);
  bool hasEnded(void *stream, uint64_t launch) const;

private:
  std::atomic<uint64_t> launches = 0;
  mutable std::mutex mutex;
  /// The last launch that a wait for a stream has seen the end of.
  std::map<void *, uint64_t> ended;
};

/// The primary context of a device. All calls of the driver go through `call`,
/// which notices when the context has become unusable.
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
  /// Ten times the major plus the minor number.
  int getCapability() const { return capability; }
  const Driver &getDriver() const { return driver; }

  /// Waits for copies and fills of this thread, which the driver may leave
  /// under way: they are on the default stream, which others need not wait for.
  void settle() const;

  /// Throws `Failure` for a code that is not success. `what` is the function
  /// and what it was to do.
  void call(int code, const char *function, const std::string &what = "") const;

  Progress &getProgress() const { return *progress; }

  bool isExclusive() const { return exclusive; }
  /// Called before launches of blocks that wait for each other while the device
  /// is exclusive. Throws `Failure` where such launches may be running on
  /// another stream. Gives what to leave afterwards; null for a launch that a
  /// graph captures, which does not run now.
  LastUse *enterExclusive(void *stream, bool isOrdered) const;

  /// Whether handles may be given back. After a time-out the driver would wait
  /// for what still runs, and with it the host, so that they are abandoned.
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

/// Memory of a device. Made and destroyed with the context current or not.
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
  /// The code of a module, which is compiled and loaded if it has not been. May
  /// be called by several threads for different modules at the same time.
  const CudaModule &getModule(const KernelModule &module,
                              const std::string &chip);

private:
  struct Slot {
    /// Held while the module is loaded.
    std::mutex mutex;
    std::unique_ptr<CudaModule> module;
  };

  std::shared_ptr<const CudaDevice> device;
  std::mutex mutex;
  /// By the place of their code: sections, or numbers in the source.
  std::map<std::pair<bool, size_t>, Slot> modules;
};

std::unique_ptr<Instance>
createCudaInstance(std::shared_ptr<CudaProgram> program,
                   std::shared_ptr<const CudaDevice> device,
                   const Function &function);

} // namespace fuse::runtime::cuda

#endif // FUSE_RUNTIME_CUDA_CUDADEVICE_H
