//===- DeviceMemory.h - GPU memory without a toolkit ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A real server on a GPU has an allocator. This example has none and uses the
// driver instead.
//
//===----------------------------------------------------------------------===//

#ifndef EMBED_DEVICEMEMORY_H
#define EMBED_DEVICEMEMORY_H

#include <cstddef>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace embed {

/// Driver functions that the example calls directly.
struct Driver {
  using Ptr = unsigned long long;

  int (*getDevice)(int *, int);
  int (*retain)(void **, int);
  int (*release)(int);
  int (*setCurrent)(void *);
  int (*alloc)(Ptr *, size_t);
  int (*free)(Ptr);
  int (*upload)(Ptr, const void *, size_t);
  int (*download)(void *, Ptr, size_t);
  int (*streamCreate)(void **, unsigned);
  int (*streamDestroy)(void *);
  int (*beginCapture)(void *, int);
  int (*endCapture)(void *, void **);
  int (*instantiate)(void **, void *, unsigned long long);
  int (*graphLaunch)(void *, void *);
  int (*graphExecDestroy)(void *);
  int (*graphDestroy)(void *);
  int (*eventCreate)(void **, unsigned);
  int (*eventRecord)(void *, void *);
  int (*eventSynchronize)(void *);
  int (*eventElapsed)(float *, void *, void *);
  int (*eventDestroy)(void *);
  int (*streamSynchronize)(void *);

  static const Driver &get() {
    static const Driver driver = load();
    return driver;
  }
  static void check(int code, const char *what) {
    if (code != 0)
      throw std::runtime_error(std::string(what) + ": CUDA error " +
                               std::to_string(code));
  }

private:
  static Driver load() {
    void *library = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
      throw std::runtime_error("there is no CUDA driver");
    Driver driver;
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(
          ::dlsym(library, name));
      if (!function)
        throw std::runtime_error(std::string("the driver has no ") + name);
    };
    find(driver.getDevice, "cuDeviceGet");
    find(driver.retain, "cuDevicePrimaryCtxRetain");
    find(driver.release, "cuDevicePrimaryCtxRelease_v2");
    find(driver.setCurrent, "cuCtxSetCurrent");
    find(driver.alloc, "cuMemAlloc_v2");
    find(driver.free, "cuMemFree_v2");
    find(driver.upload, "cuMemcpyHtoD_v2");
    find(driver.download, "cuMemcpyDtoH_v2");
    find(driver.streamCreate, "cuStreamCreate");
    find(driver.streamDestroy, "cuStreamDestroy_v2");
    find(driver.beginCapture, "cuStreamBeginCapture_v2");
    find(driver.endCapture, "cuStreamEndCapture");
    find(driver.instantiate, "cuGraphInstantiateWithFlags");
    find(driver.graphLaunch, "cuGraphLaunch");
    find(driver.graphExecDestroy, "cuGraphExecDestroy");
    find(driver.graphDestroy, "cuGraphDestroy");
    find(driver.eventCreate, "cuEventCreate");
    find(driver.eventRecord, "cuEventRecord");
    find(driver.eventSynchronize, "cuEventSynchronize");
    find(driver.eventElapsed, "cuEventElapsedTime");
    find(driver.eventDestroy, "cuEventDestroy_v2");
    find(driver.streamSynchronize, "cuStreamSynchronize");
    return driver;
  }
};

/// Memory on the device whose context is current.
class DeviceMemory {
public:
  explicit DeviceMemory(size_t bytes) : bytes(bytes) {
    Driver::check(Driver::get().alloc(&address, bytes > 0 ? bytes : 16),
                  "allocating");
  }
  DeviceMemory(DeviceMemory &&other) noexcept
      : address(other.address), bytes(other.bytes) {
    other.address = 0;
  }
  ~DeviceMemory() {
    if (address)
      (void)Driver::get().free(address);
  }
  void *get() const { return reinterpret_cast<void *>(address); }
  void upload(const void *source) const {
    Driver::check(Driver::get().upload(address, source, bytes), "uploading");
  }
  void download(void *target) const {
    Driver::check(Driver::get().download(target, address, bytes),
                  "downloading");
  }

private:
  Driver::Ptr address = 0;
  size_t bytes;
};

} // namespace embed

#endif // EMBED_DEVICEMEMORY_H
