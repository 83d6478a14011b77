//===- DriverTest.cpp - The emulator as a CUDA driver ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads the library as the runtime does, and looks up each function by name.
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/CUDA/CudaDriverApi.h"
#include "gtest/gtest.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <dlfcn.h>

using namespace fuse::runtime::cuda;

namespace {

/// Functions that the runtime does not call.
#define FUSE_TEST_FUNCTIONS(F)                                                 \
  F(cuDeviceGetName, 2000, (char *, int, int))                                 \
  F(cuMemsetD8Async, 3020, (DevicePtr, unsigned char, size_t, Stream))         \
  F(cuStreamCreate, 2000, (Stream *, unsigned))                                \
  F(cuStreamDestroy, 4000, (Stream))                                           \
  F(cuStreamSynchronize, 2000, (Stream))                                       \
  F(cuStreamBeginCapture, 10010, (Stream, int))                                \
  F(cuStreamEndCapture, 10000, (Stream, void **))                              \
  F(cuGraphInstantiateWithFlags, 11040, (void **, void *, unsigned long long)) \
  F(cuGraphLaunch, 10000, (void *, Stream))                                    \
  F(cuGraphDestroy, 10000, (void *))                                           \
  F(cuGraphExecDestroy, 10000, (void *))                                       \
  F(cuEventElapsedTime, 2000, (float *, Event, Event))

using GetProcAddress = int (*)(const char *, void **, int, uint64_t, int *);

struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define MEMBER(NAME, VERSION, PARAMETERS) int(*NAME) PARAMETERS = nullptr;
  FUSE_CUDA_FUNCTIONS(MEMBER)
  FUSE_TEST_FUNCTIONS(MEMBER)
#undef MEMBER
  GetProcAddress getProcAddress = nullptr;

  Functions() {
    void *library = ::dlopen(FUSE_EMULATED_CUDA, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      std::abort();
    getProcAddress = reinterpret_cast<GetProcAddress>(
        ::dlsym(library, "cuGetProcAddress_v2"));
#define FIND(NAME, VERSION, PARAMETERS)                                        \
  NAME = reinterpret_cast<decltype(NAME)>(find(#NAME, VERSION));
    FUSE_CUDA_FUNCTIONS(FIND)
    FUSE_TEST_FUNCTIONS(FIND)
#undef FIND
  }

  void *find(const char *name, int version) const {
    void *address = nullptr;
    EXPECT_EQ(getProcAddress(name, &address, version, 0, nullptr), 0) << name;
    return address;
  }

  std::string describe(int code) const {
    const char *text = nullptr;
    EXPECT_EQ(cuGetErrorString(code, &text), 0);
    return text ? text : "";
  }
};

} // namespace

static const Functions &getCuda() {
  static const Functions functions;
  return functions;
}

/// Adds `value` to each integer at `p`, one per thread.
static constexpr const char *kAdd = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 p, .param .u32 value)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %tid.x;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %ntid.x;
  mad.lo.u32 %r2, %r4, %r5, %r2;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r3, [%rd3];
  add.s32 %r3, %r3, %r1;
  st.global.u32 [%rd3], %r3;
  ret;
}
)";

namespace {

class DriverTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(cuda.cuInit(0), 0);
    ASSERT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, 0), 0);
    ASSERT_EQ(cuda.cuCtxPushCurrent(context), 0);
  }
  /// The last release destroys the context and its fault.
  void TearDown() override {
    EXPECT_EQ(cuda.cuCtxPopCurrent(nullptr), 0);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease(0), 0);
  }

  KernelFunction loadAdd() {
    Module module = nullptr;
    EXPECT_EQ(cuda.cuModuleLoadDataEx(&module, kAdd, 0, nullptr, nullptr), 0);
    KernelFunction kernel = nullptr;
    EXPECT_EQ(cuda.cuModuleGetFunction(&kernel, module, "add"), 0);
    return kernel;
  }
  DevicePtr allocate(size_t bytes) {
    DevicePtr address = 0;
    EXPECT_EQ(cuda.cuMemAlloc(&address, bytes), 0);
    EXPECT_EQ(cuda.cuMemsetD8(address, 0, bytes), 0);
    return address;
  }
  static LaunchConfig makeConfig(unsigned threads, Stream stream = nullptr) {
    return {1, 1, 1, threads, 1, 1, 0, stream, nullptr, 0};
  }
  /// Adds `value` to `count` numbers.
  int add(KernelFunction kernel, DevicePtr address, int value,
          unsigned count = 4, Stream stream = nullptr) {
    LaunchConfig config = makeConfig(count, stream);
    void *parameters[] = {&address, &value};
    return cuda.cuLaunchKernelEx(&config, kernel, parameters, nullptr);
  }
  int read(DevicePtr address) {
    int value = -1;
    EXPECT_EQ(cuda.cuMemcpyDtoH(&value, address, sizeof(value)), 0);
    return value;
  }

  const Functions &cuda = getCuda();
  Context context = nullptr;
};

} // namespace

//===----------------------------------------------------------------------===//
// The library and the device
//===----------------------------------------------------------------------===//

TEST_F(DriverTest, FindsFunctionsByNameAndVersion) {
  void *address = this;
  int status = -1;
  EXPECT_EQ(cuda.getProcAddress("cuMemAlloc", &address, 3010, 0, &status), 500);
  EXPECT_EQ(status, 2);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(cuda.getProcAddress("cuMemAlloc", &address, 12000, 0, &status), 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(address, nullptr);
  EXPECT_EQ(cuda.getProcAddress("cuMemAlloc_v9", &address, 12000, 0, &status),
            500);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(cuda.describe(500),
            "named symbol not found: the emulator has no cuMemAlloc_v9");
}

TEST_F(DriverTest, DescribesTheDevice) {
  char name[64] = {}, start[5] = {};
  EXPECT_EQ(cuda.cuDeviceGetName(name, sizeof(name), 0), 0);
  EXPECT_STREQ(name, "fuse emulator");
  EXPECT_EQ(cuda.cuDeviceGetName(start, sizeof(start), 0), 0);
  EXPECT_STREQ(start, "fuse");
  int device = -1, value = -1;
  EXPECT_EQ(cuda.cuDeviceGet(&device, 1), 101);
  EXPECT_EQ(cuda.describe(101),
            "invalid device ordinal: there is no device 1, only device 0");
  EXPECT_EQ(cuda.cuDeviceGetAttribute(&value, kDeviceMajor, 0), 0);
  EXPECT_EQ(value, 9);
  EXPECT_EQ(cuda.cuDeviceGetAttribute(&value, kDeviceMultiprocessors, 0), 0);
  EXPECT_EQ(value, 132);
  EXPECT_EQ(cuda.cuDeviceGetAttribute(&value, 9999, 0), 1);
  EXPECT_EQ(cuda.describe(1),
            "invalid argument: the device has no attribute 9999");
  const char *text = "";
  EXPECT_EQ(cuda.cuGetErrorString(12345, &text), 1);
  EXPECT_EQ(text, nullptr);
}

/// Initializes with an environment variable, prints the result and exits.
static void initialize(const char *variable, const char *value) {
  ::setenv(variable, value, 1);
  const Functions &cuda = getCuda();
  int count = 0;
  if (cuda.cuDeviceGetCount(&count) != 3)
    std::_Exit(1);
  int code = cuda.cuInit(0);
  std::fprintf(stderr, "%s\n", cuda.describe(code).c_str());
  if (code == 0)
    code = cuda.cuDeviceGetAttribute(&count, kDeviceMultiprocessors, 0);
  std::_Exit(code == 0 && count == 8 ? 0 : 2);
}

TEST(DriverDeathTest, RefusesSettingsThatAreNotNumbers) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(initialize("FUSE_EMULATOR_MULTIPROCESSORS", "8"),
              testing::ExitedWithCode(0), "no error");
  EXPECT_EXIT(initialize("FUSE_EMULATOR_MULTIPROCESSORS", "0"),
              testing::ExitedWithCode(2),
              "FUSE_EMULATOR_MULTIPROCESSORS is '0', expected a number from 1 "
              "to 1024");
  EXPECT_EXIT(initialize("FUSE_EMULATOR_SEED", "-1"),
              testing::ExitedWithCode(2), "FUSE_EMULATOR_SEED is '-1'");
}

TEST_F(DriverTest, HasAContextForEachThread) {
  int code = -1;
  std::thread([&] { code = cuda.cuCtxSynchronize(); }).join();
  EXPECT_EQ(code, 201);
  EXPECT_EQ(cuda.cuCtxPushCurrent(Context(0x77)), 201);
  // A second retain, as by another part of the program.
  Context again = nullptr;
  EXPECT_EQ(cuda.cuDevicePrimaryCtxRetain(&again, 0), 0);
  EXPECT_EQ(again, context);
  EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease(0), 0);
  EXPECT_EQ(cuda.cuCtxSynchronize(), 0);
  // The last release frees all memory.
  DevicePtr address = allocate(16);
  EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease(0), 0);
  EXPECT_EQ(cuda.cuMemFree(address), 709);
  EXPECT_EQ(cuda.cuCtxPopCurrent(nullptr), 0);
  EXPECT_EQ(cuda.cuDevicePrimaryCtxRetain(&again, 0), 0);
  EXPECT_NE(again, context);
  EXPECT_EQ(cuda.cuCtxPushCurrent(again), 0);
  EXPECT_EQ(cuda.cuMemFree(address), 1);
}

//===----------------------------------------------------------------------===//
// Memory and modules
//===----------------------------------------------------------------------===//

TEST_F(DriverTest, RefusesUnallocatedMemory) {
  DevicePtr address = allocate(16), none = 0;
  char bytes[32] = {};
  EXPECT_EQ(cuda.cuMemAlloc(&none, 0), 1);
  EXPECT_EQ(cuda.cuMemAlloc(&none, size_t(1) << 50), 2);
  // The system would grant this much, and end the process when it is written.
  EXPECT_EQ(cuda.cuMemAlloc(&none, size_t(1) << 40), 2);
  EXPECT_EQ(cuda.cuMemcpyHtoD(address, bytes, 16), 0);
  EXPECT_EQ(cuda.cuMemcpyHtoD(address + 8, bytes, 9), 1);
  EXPECT_NE(cuda.describe(1).find("there are 8 bytes at"), std::string::npos);
  EXPECT_EQ(cuda.cuMemcpyDtoH(bytes, DevicePtr(uintptr_t(bytes)), 1), 1);
  EXPECT_NE(cuda.describe(1).find("is not an address of device memory"),
            std::string::npos);
  EXPECT_EQ(cuda.cuMemFree(address + 8), 1);
  EXPECT_EQ(cuda.cuMemFree(0), 0);
  EXPECT_EQ(cuda.cuMemFree(address), 0);
  EXPECT_EQ(cuda.cuMemFree(address), 1);
  EXPECT_EQ(cuda.cuMemsetD8(address, 0, 1), 1);
}

TEST_F(DriverTest, ExplainsRefusedModules) {
  auto load = [&](const std::string &text, std::string &message) {
    Module module = nullptr;
    char log[256] = "nothing";
    int options[] = {kJitErrorLog, kJitErrorLogBytes};
    void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
    int code =
        cuda.cuModuleLoadDataEx(&module, text.c_str(), 2, options, values);
    message = log;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(values[1]), message.size() + 1);
    return code;
  };
  std::string text = kAdd, log;
  auto with = [&](const std::string &from, const std::string &to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  EXPECT_EQ(load(text, log), 0);
  EXPECT_EQ(log, "");
  EXPECT_EQ(load("\x7f"
                 "ELF of a GPU",
                 log),
            209);
  EXPECT_NE(log.find("the emulator runs PTX"), std::string::npos);
  EXPECT_EQ(load("no PTX", log), 218);
  EXPECT_EQ(load(with(".version 8.0", ".version 9.9"), log), 222);
  EXPECT_EQ(log, "the emulator reads PTX up to version 9.0, the text has 9.9");
  EXPECT_EQ(load(with("sm_90", "sm_100a"), log), 218);
  EXPECT_EQ(log, "the text is for sm_100a, the emulator is sm_90a");
  EXPECT_EQ(load(with("mul.wide.u32", "frobnicate.u32"), log), 218);
  EXPECT_EQ(log, "line 15: the emulator does not know frobnicate.u32");
  // Without a log the error text has the reason.
  EXPECT_EQ(cuda.describe(218), "a PTX JIT compilation failed");
  Module module = nullptr;
  EXPECT_EQ(cuda.cuModuleLoadDataEx(&module, "", 0, nullptr, nullptr), 218);
  EXPECT_EQ(cuda.describe(218),
            "a PTX JIT compilation failed: the image is not "
            "PTX: it has no .version");
}

TEST_F(DriverTest, RefusesMissingKernels) {
  Module module = nullptr;
  KernelFunction kernel = nullptr;
  ASSERT_EQ(cuda.cuModuleLoadDataEx(&module, kAdd, 0, nullptr, nullptr), 0);
  EXPECT_EQ(cuda.cuModuleGetFunction(&kernel, module, "subtract"), 500);
  EXPECT_EQ(cuda.describe(500), "named symbol not found: the module has no "
                                "kernel 'subtract'; it has add");
  ASSERT_EQ(cuda.cuModuleGetFunction(&kernel, module, "add"), 0);
  EXPECT_EQ(cuda.cuModuleUnload(module), 0);
  EXPECT_EQ(cuda.cuModuleUnload(module), 400);
  EXPECT_EQ(cuda.cuFuncSetAttribute(kernel, kFunctionMaxDynamicShared, 0), 400);
  EXPECT_EQ(cuda.describe(400),
            "invalid resource handle: there is no such kernel");
}

TEST_F(DriverTest, LimitsSharedMemory) {
  KernelFunction kernel = loadAdd();
  DevicePtr address = allocate(16);
  int value = 1, blocks = 0;
  LaunchConfig config = makeConfig(4);
  config.sharedBytes = 49153;
  void *parameters[] = {&address, &value};
  EXPECT_EQ(cuda.cuLaunchKernelEx(&config, kernel, parameters, nullptr), 1);
  EXPECT_EQ(cuda.cuFuncSetAttribute(kernel, kFunctionMaxDynamicShared, 232449),
            1);
  EXPECT_EQ(cuda.cuFuncSetAttribute(kernel, kFunctionMaxDynamicShared, 232448),
            0);
  EXPECT_EQ(cuda.cuFuncSetAttribute(kernel, kFunctionPreferredCarveout, 101),
            1);
  EXPECT_EQ(cuda.cuFuncSetAttribute(kernel, kFunctionPreferredCarveout, 100),
            0);
  EXPECT_EQ(cuda.cuLaunchKernelEx(&config, kernel, parameters, nullptr), 0);
  EXPECT_EQ(cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel,
                                                             256, 49153),
            0);
  EXPECT_EQ(blocks, 4);
  EXPECT_EQ(read(address), 1);
}

TEST_F(DriverTest, RefusesInvalidLaunches) {
  KernelFunction kernel = loadAdd();
  DevicePtr address = allocate(256);
  int value = 1;
  void *parameters[] = {&address, &value};
  auto launch = [&](LaunchConfig config) {
    return cuda.cuLaunchKernelEx(&config, kernel, parameters, nullptr);
  };
  LaunchConfig good = makeConfig(4), config = good;
  config.gridY = 0;
  EXPECT_EQ(launch(config), 1);
  EXPECT_EQ(cuda.describe(1), "invalid argument: add: a grid of 1x0x1 blocks, "
                              "expected 1x1x1 to 2147483647x65535x65535");
  EXPECT_EQ(launch(makeConfig(1025)), 1);
  EXPECT_EQ(launch(makeConfig(4, Stream(0x1234567))), 400);
  LaunchAttribute attribute = {};
  config = good;
  config.attributes = &attribute;
  config.numAttributes = 1;
  attribute.id = kAttributeCluster;
  attribute.value.numbers[0] = 2;
  attribute.value.numbers[1] = attribute.value.numbers[2] = 1;
  EXPECT_EQ(launch(config), 1);
  config.gridX = 16;
  EXPECT_EQ(launch(config), 0);
  attribute.value.numbers[0] = 16;
  EXPECT_EQ(launch(config), 912);
  attribute.id = 77;
  EXPECT_EQ(launch(config), 801);
  attribute.id = kAttributeCooperative;
  attribute.value.numbers[0] = 1;
  config.gridX = 132 * 32 + 1;
  EXPECT_EQ(launch(config), 720);
  EXPECT_EQ(cuda.cuLaunchKernelEx(&good, kernel, nullptr, nullptr), 1);
  // The context is still usable.
  EXPECT_EQ(launch(good), 0);
  EXPECT_EQ(cuda.cuCtxSynchronize(), 0);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

TEST_F(DriverTest, RunsLaunchesInOrder) {
  KernelFunction kernel = loadAdd();
  DevicePtr address = allocate(16);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(add(kernel, address, 5), 0);
  EXPECT_EQ(read(address + 12), 15);
  Stream stream = nullptr;
  ASSERT_EQ(cuda.cuStreamCreate(&stream, 0), 0);
  EXPECT_EQ(add(kernel, address, 1, 4, stream), 0);
  EXPECT_EQ(cuda.cuMemsetD8Async(address, 0, 8, stream), 0);
  EXPECT_EQ(add(kernel, address, 2, 4, stream), 0);
  // The default stream waits for the other stream.
  EXPECT_EQ(add(kernel, address, 4), 0);
  EXPECT_EQ(read(address), 6);
  EXPECT_EQ(read(address + 12), 22);
  EXPECT_EQ(cuda.cuStreamDestroy(stream), 0);
  EXPECT_EQ(cuda.cuStreamDestroy(stream), 400);
}

TEST_F(DriverTest, RunsNonBlockingStreamsLazily) {
  KernelFunction kernel = loadAdd();
  DevicePtr address = allocate(16);
  Stream stream = nullptr;
  Event event = nullptr;
  ASSERT_EQ(cuda.cuStreamCreate(&stream, 1), 0);
  ASSERT_EQ(cuda.cuEventCreate(&event, kEventDisableTiming), 0);
  EXPECT_EQ(cuda.cuEventQuery(event), 0);
  EXPECT_EQ(add(kernel, address, 5, 4, stream), 0);
  EXPECT_EQ(cuda.cuEventRecord(event, stream), 0);
  // Without synchronization the old value is read.
  EXPECT_EQ(read(address), 0);
  EXPECT_EQ(cuda.cuEventQuery(event), 0);
  EXPECT_EQ(read(address), 5);
  float ms = 0;
  EXPECT_EQ(cuda.cuEventElapsedTime(&ms, event, event), 400);
  EXPECT_EQ(cuda.cuEventDestroy(event), 0);
  EXPECT_EQ(cuda.cuEventRecord(event, stream), 400);
}

TEST_F(DriverTest, ReplaysGraphs) {
  KernelFunction kernel = loadAdd();
  DevicePtr address = allocate(16);
  Stream stream = nullptr;
  void *graph = nullptr, *executable = nullptr;
  int status = -1;
  ASSERT_EQ(cuda.cuStreamCreate(&stream, 1), 0);
  EXPECT_EQ(cuda.cuStreamBeginCapture(nullptr, 1), 900);
  ASSERT_EQ(cuda.cuStreamBeginCapture(stream, 1), 0);
  EXPECT_EQ(cuda.cuStreamBeginCapture(stream, 1), 401);
  EXPECT_EQ(cuda.cuStreamIsCapturing(stream, &status), 0);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(cuda.cuMemsetD8Async(address, 0, 8, stream), 0);
  EXPECT_EQ(add(kernel, address, 3, 4, stream), 0);
  ASSERT_EQ(cuda.cuStreamEndCapture(stream, &graph), 0);
  EXPECT_EQ(read(address), 0);
  ASSERT_EQ(cuda.cuGraphInstantiateWithFlags(&executable, graph, 0), 0);
  EXPECT_EQ(cuda.cuGraphDestroy(graph), 0);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(cuda.cuGraphLaunch(executable, stream), 0);
  EXPECT_EQ(cuda.cuStreamSynchronize(stream), 0);
  EXPECT_EQ(read(address), 3);
  EXPECT_EQ(read(address + 12), 6);
  EXPECT_EQ(cuda.cuGraphExecDestroy(executable), 0);
  EXPECT_EQ(cuda.cuGraphLaunch(executable, stream), 400);
}

TEST_F(DriverTest, InvalidatesCapturesThatSynchronize) {
  Stream stream = nullptr;
  void *graph = nullptr;
  ASSERT_EQ(cuda.cuStreamCreate(&stream, 1), 0);
  ASSERT_EQ(cuda.cuStreamBeginCapture(stream, 1), 0);
  // Other threads are not affected.
  int code = -1;
  std::thread([&] {
    EXPECT_EQ(cuda.cuCtxPushCurrent(context), 0);
    code = cuda.cuCtxSynchronize();
  }).join();
  EXPECT_EQ(code, 0);
  EXPECT_EQ(cuda.cuCtxSynchronize(), 900);
  EXPECT_EQ(cuda.cuStreamEndCapture(stream, &graph), 901);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(cuda.cuStreamEndCapture(stream, &graph), 401);
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

TEST_F(DriverTest, ReportsAFaultUntilTheContextIsReleased) {
  KernelFunction kernel = loadAdd();
  DevicePtr address = allocate(16);
  EXPECT_EQ(add(kernel, address, 1, 5), 0);
  EXPECT_EQ(cuda.cuCtxSynchronize(), 700);
  std::string story = cuda.describe(700);
  for (const char *part :
       {"an illegal memory access was encountered: ", "add", "block (0, 0, 0)",
        "thread (4, 0, 0)", "line 17 (ld.global.u32)", "4 bytes at"})
    EXPECT_NE(story.find(part), std::string::npos) << part << "\n" << story;
  // Every call on every thread reports the fault.
  EXPECT_EQ(cuda.cuMemFree(address), 700);
  std::thread([&] {
    EXPECT_EQ(cuda.describe(700), story);
    EXPECT_EQ(cuda.cuCtxPushCurrent(context), 0);
    EXPECT_EQ(cuda.cuCtxSynchronize(), 700);
  }).join();
  // A new context does not have the fault.
  EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease(0), 0);
  EXPECT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, 0), 0);
  EXPECT_EQ(cuda.cuCtxPushCurrent(context), 0);
  EXPECT_EQ(cuda.cuCtxSynchronize(), 0);
}
