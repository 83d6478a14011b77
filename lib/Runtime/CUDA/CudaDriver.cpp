//===- CudaDriver.cpp - The CUDA driver, found at run time ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/CUDA/CudaDriver.h"
#include "fuse/Runtime/Core/Failure.h"

#include <cstdlib>
#include <memory>
#include <mutex>

#include <dlfcn.h>

using namespace fuse::runtime;
using namespace fuse::runtime::cuda;

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

fuse_status cuda::getStatus(int code) {
  if (isSticky(code))
    return FUSE_ERROR_DEVICE_LOST;
  switch (code) {
  case kSuccess:
    return FUSE_OK;
  case 1: // CUDA_ERROR_INVALID_VALUE
    return FUSE_ERROR_INVALID_ARGUMENT;
  case 2: // CUDA_ERROR_OUT_OF_MEMORY
    return FUSE_ERROR_DEVICE_MEMORY;
  case 34:  // CUDA_ERROR_STUB_LIBRARY
  case 100: // CUDA_ERROR_NO_DEVICE
  case 803: // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
  case 804: // CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
    return FUSE_ERROR_NO_DRIVER;
  case 101: // CUDA_ERROR_INVALID_DEVICE
    return FUSE_ERROR_INVALID_ARGUMENT;
  case 209: // CUDA_ERROR_NO_BINARY_FOR_GPU
    return FUSE_ERROR_TARGET;
  case 222: // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    return FUSE_ERROR_DRIVER_TOO_OLD;
  }
  return FUSE_ERROR_DEVICE;
}

bool cuda::isSticky(int code) {
  switch (code) {
  case 214: // CUDA_ERROR_ECC_UNCORRECTABLE
  case 220: // CUDA_ERROR_NVLINK_UNCORRECTABLE
  case 226: // CUDA_ERROR_CONTAINED
  case 700: // CUDA_ERROR_ILLEGAL_ADDRESS
  case 702: // CUDA_ERROR_LAUNCH_TIMEOUT
  case 709: // CUDA_ERROR_CONTEXT_IS_DESTROYED
  case 710: // CUDA_ERROR_ASSERT
  case 714: // CUDA_ERROR_HARDWARE_STACK_ERROR
  case 715: // CUDA_ERROR_ILLEGAL_INSTRUCTION
  case 716: // CUDA_ERROR_MISALIGNED_ADDRESS
  case 717: // CUDA_ERROR_INVALID_ADDRESS_SPACE
  case 718: // CUDA_ERROR_INVALID_PC
  case 719: // CUDA_ERROR_LAUNCH_FAILED
  case 721: // CUDA_ERROR_TENSOR_MEMORY_LEAK
    return true;
  }
  return false;
}

std::string cuda::printVersion(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

static Failure noDriver(const std::string &why) {
  return Failure(FUSE_ERROR_NO_DRIVER,
                 "there is no usable CUDA driver: " + why);
}

/// cuGetProcAddress of CUDA 12 or, before that, of CUDA 11.3.
using GetProcAddress = int (*)(const char *, void **, int, uint64_t, int *);
using GetProcAddressOld = int (*)(const char *, void **, int, uint64_t);

static void *findFunction(void *library, const char *name, int version) {
  void *address = nullptr;
  if (void *symbol = ::dlsym(library, "cuGetProcAddress_v2")) {
    auto get = reinterpret_cast<GetProcAddress>(symbol);
    if (get(name, &address, version, /*flags=*/0, nullptr) != kSuccess)
      address = nullptr;
  } else if (void *symbol = ::dlsym(library, "cuGetProcAddress")) {
    auto get = reinterpret_cast<GetProcAddressOld>(symbol);
    if (get(name, &address, version, /*flags=*/0) != kSuccess)
      address = nullptr;
  }
  return address;
}

/// Opens the driver, which stays loaded because it does not survive unloading.
/// On a machine without a GPU, an environment variable may name another library
/// that defines its functions.
static void *openLibrary() {
  const char *named = std::getenv("FUSE_CUDA_LIBRARY");
  std::string name = named && *named ? named : "libcuda.so.1";
  void *library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = ::dlerror();
    throw noDriver(reason ? reason : name + " cannot be loaded");
  }
  return library;
}

static void *getFunction(void *library, const char *name, int version) {
  if (void *address = findFunction(library, name, version))
    return address;
  throw Failure(FUSE_ERROR_DRIVER_TOO_OLD,
                std::string("the CUDA driver has no ") + name +
                    ", which came with CUDA " + printVersion(version));
}

void *cuda::findFunction(const char *name, int version) {
  return getFunction(openLibrary(), name, version);
}

static std::unique_ptr<Driver> loadDriver() {
  void *library = openLibrary();
  auto driver = std::make_unique<Driver>();
#define FUSE_CUDA_LOAD(NAME, VERSION, PARAMETERS)                              \
  driver->NAME = reinterpret_cast<decltype(driver->NAME)>(                     \
      getFunction(library, #NAME, VERSION));
  FUSE_CUDA_FUNCTIONS(FUSE_CUDA_LOAD)
#undef FUSE_CUDA_LOAD
  if (int code = driver->cuInit(0))
    throw noDriver("cuInit: " + driver->describe(code));
  if (int code = driver->cuDriverGetVersion(&driver->version))
    throw noDriver("cuDriverGetVersion: " + driver->describe(code));
  return driver;
}

const Driver &Driver::get() {
  static std::mutex mutex;
  static std::unique_ptr<Driver> driver;
  std::lock_guard<std::mutex> lock(mutex);
  if (!driver)
    driver = loadDriver();
  return *driver;
}

std::string Driver::describe(int code) const {
  const char *text = nullptr;
  if (cuGetErrorString(code, &text) != kSuccess || !text)
    text = "unknown error";
  return std::string(text) + " (" + std::to_string(code) + ")";
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

namespace {

struct RangeFunctions {
  int (*push)(const char *) = nullptr;
  int (*pop)() = nullptr;
};

} // namespace

static const RangeFunctions &getRangeFunctions() {
  static const RangeFunctions functions = [] {
    RangeFunctions found;
    if (void *library =
            ::dlopen("libnvToolsExt.so.1", RTLD_LAZY | RTLD_LOCAL)) {
      found.push = reinterpret_cast<int (*)(const char *)>(
          ::dlsym(library, "nvtxRangePushA"));
      found.pop = reinterpret_cast<int (*)()>(::dlsym(library, "nvtxRangePop"));
    }
    if (!found.push || !found.pop)
      found = {};
    return found;
  }();
  return functions;
}

ProfilerRange::ProfilerRange(const std::string &name) {
  if (getRangeFunctions().push)
    getRangeFunctions().push(name.c_str());
}

ProfilerRange::~ProfilerRange() {
  if (getRangeFunctions().pop)
    getRangeFunctions().pop();
}
