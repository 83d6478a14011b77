//===- CpuCode.cpp - Machine code for this process ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/CPU/CpuCode.h"
#include "fuse/Runtime/Core/Failure.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

using namespace fuse::runtime;

//===----------------------------------------------------------------------===//
// The machine
//===----------------------------------------------------------------------===//

#if defined(__x86_64__)

static constexpr const char *kArch = "x86_64";

/// AMX bits in edx of leaf 7: bf16, tiles and 8-bit integers.
static constexpr uint32_t kTilesBits = 1u << 22 | 1u << 24 | 1u << 25;

bool fuse::runtime::hasTiles() {
  // Linux saves the 8 KiB of tile registers only for processes that requested
  // it: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). The permission
  // covers all threads.
  static const bool granted = [] {
    constexpr long kRequest = 0x1023, kTileData = 18;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        (d & kTilesBits) != kTilesBits)
      return false;
    const char *choice = std::getenv("FUSE_AMX");
    if (choice && std::string(choice) == "0")
      return false;
    return ::syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  }();
  return granted;
}

/// Bits that each stand for instructions or registers: leaves 1 and 7 of cpuid,
/// and the registers that the operating system saves.
static std::vector<uint32_t> getCpuid() {
  std::vector<uint32_t> words;
  unsigned a, b, c, d;
  bool hasXsave = false;
  if (__get_cpuid_count(1, 0, &a, &b, &c, &d)) {
    // Bit 27 (OSXSAVE): xgetbv is available.
    hasXsave = c >> 27 & 1;
    words.insert(words.end(), {c, d});
  } else {
    words.insert(words.end(), {0, 0});
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
    words.insert(words.end(), {b, c, hasTiles() ? d : d & ~kTilesBits});
  else
    words.insert(words.end(), {0, 0, 0});
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d))
    words.insert(words.end(), {a, d});
  else
    words.insert(words.end(), {0, 0});
  if (__get_cpuid_count(0x80000001, 0, &a, &b, &c, &d))
    words.insert(words.end(), {c, d});
  else
    words.insert(words.end(), {0, 0});
  uint32_t low = 0, high = 0;
  if (hasXsave)
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  words.push_back(low);
  return words;
}

static bool hasLevel(const std::string &level) {
  __builtin_cpu_init();
  if (level == "x86-64")
    return true;
  if (level == "x86-64-v2")
    return __builtin_cpu_supports("x86-64-v2");
  if (level == "x86-64-v3")
    return __builtin_cpu_supports("x86-64-v3");
  return level == "x86-64-v4" && __builtin_cpu_supports("x86-64-v4");
}

static const std::vector<std::string> kLevels = {"x86-64", "x86-64-v2",
                                                 "x86-64-v3", "x86-64-v4"};

#else

#if defined(__aarch64__)
static constexpr const char *kArch = "aarch64";
#else
static constexpr const char *kArch = "unknown";
#endif

bool fuse::runtime::hasTiles() { return false; }

static std::vector<uint32_t> getCpuid() { return {}; }
static bool hasLevel(const std::string &level) { return level == "generic"; }
static const std::vector<std::string> kLevels = {"generic"};

#endif

CpuTarget fuse::runtime::getThisCpu() { return {kArch, "native", getCpuid()}; }

std::vector<std::string> fuse::runtime::getCpuLevels(bool ofThisMachine) {
  std::vector<std::string> levels;
  for (const std::string &level : kLevels)
    if (!ofThisMachine || hasLevel(level))
      levels.push_back(level);
  return levels;
}

void fuse::runtime::checkCpu(const CpuTarget &target) {
  if (target.arch != kArch)
    throw Failure(FUSE_ERROR_TARGET, "the code is for " + target.arch +
                                         ", this machine is " + kArch);
  if (target.level != "native") {
    if (hasLevel(target.level))
      return;
    std::string all;
    for (const std::string &level : getCpuLevels(/*ofThisMachine=*/true))
      all += (all.empty() ? "" : ", ") + level;
    throw Failure(FUSE_ERROR_TARGET, "the code is for " + target.level +
                                         ", this machine has " + all);
  }
  std::vector<uint32_t> words = getCpuid();
  bool fits = words.size() == target.cpuid.size();
  for (size_t i = 0; fits && i < words.size(); ++i)
    fits = (target.cpuid[i] & ~words[i]) == 0;
  if (!fits)
    throw Failure(FUSE_ERROR_TARGET,
                  "the code was compiled for all instructions of another "
                  "processor, and this one lacks some of them");
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

LoadedCode::~LoadedCode() = default;

void *LoadedCode::lookup(const std::string &symbol) const {
  if (void *address = find(symbol.c_str()))
    return address;
  throw Failure(FUSE_ERROR_FORMAT, "the code has no '" + symbol + "'");
}

namespace {

/// A path to an open file that no other call has returned. Numbers of closed
/// files are reused, and dlopen treats equal paths as the same library while
/// the first is loaded.
static std::string uniquePath(int fd) {
  static std::atomic<uint32_t> count = 0;
  std::string path = "/proc/self/fd";
  for (uint32_t n = count++; n; n >>= 1)
    path += n & 1 ? "/." : "//.";
  return path + "/" + std::to_string(fd);
}

/// A shared object, which the system loads from an unnamed file.
class SharedObject : public LoadedCode {
public:
  explicit SharedObject(std::string_view image) {
    int fd = ::memfd_create("fuse", MFD_CLOEXEC);
    if (fd < 0)
      throw Failure(FUSE_ERROR_IO,
                    std::string("a file in memory: ") + std::strerror(errno));
    std::string path = uniquePath(fd);
    while (!image.empty()) {
      ssize_t count = ::write(fd, image.data(), image.size());
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0) {
        int code = errno;
        ::close(fd);
        throw Failure(FUSE_ERROR_IO,
                      std::string("a file in memory: ") + std::strerror(code));
      }
      image.remove_prefix(static_cast<size_t>(count));
    }
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char *reason = handle ? nullptr : ::dlerror();
    std::string message = reason ? reason : "no reason given";
    ::close(fd);
    if (!handle)
      throw Failure(FUSE_ERROR_TARGET,
                    "the system cannot load the code: " + message);
  }
  ~SharedObject() override { ::dlclose(handle); }

private:
  void *find(const char *symbol) const override {
    return ::dlsym(handle, symbol);
  }

  void *handle;
};

std::atomic<const fuse_object_linker *> objectLinker;

/// A relocatable object, which the compiler's linker loads.
class LinkedObject : public LoadedCode {
public:
  LinkedObject(const fuse_object_linker *linker, std::string_view image)
      : linker(linker) {
    fuse_status status = linker->link(image.data(), image.size(), &handle);
    if (status != FUSE_OK)
      throw Failure(status, fuse_last_error());
  }
  ~LinkedObject() override { linker->unlink(handle); }

private:
  void *find(const char *symbol) const override {
    fuse_set_last_error(FUSE_OK, "");
    void *address = linker->lookup(handle, symbol);
    if (!address && *fuse_last_error())
      throw Failure(FUSE_ERROR_TARGET, std::string("the code has no '") +
                                           symbol + "': " + fuse_last_error());
    return address;
  }

  const fuse_object_linker *linker;
  void *handle = nullptr;
};

} // namespace

void fuse::runtime::setObjectLinker(const fuse_object_linker *linker) {
  objectLinker = linker;
}

std::shared_ptr<LoadedCode> LoadedCode::load(const Section &section) {
  if (section.kind == FUSE_SECTION_HOST_LIBRARY)
    return std::make_shared<SharedObject>(section.data);
  const fuse_object_linker *linker = objectLinker;
  if (!linker)
    throw Failure(FUSE_ERROR_UNSUPPORTED,
                  "the code for the CPU is not linked; link it with "
                  "fuse-compile, or load it in a process with the compiler");
  return std::make_shared<LinkedObject>(linker, section.data);
}
