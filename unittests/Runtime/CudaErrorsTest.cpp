//===- CudaErrorsTest.cpp - Every driver error at every call --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"

#include <map>

using namespace fuse;
using namespace fuse::test;

namespace {

/// A driver code and the status to which it is mapped.
struct Code {
  int code;
  fuse_status status;
  bool isSticky;
};

const Code kCodes[] = {
    {1, FUSE_ERROR_INVALID_ARGUMENT, false},
    {2, FUSE_ERROR_DEVICE_MEMORY, false},
    {3, FUSE_ERROR_DEVICE, false},
    {4, FUSE_ERROR_DEVICE, false},
    {34, FUSE_ERROR_NO_DRIVER, false},
    {100, FUSE_ERROR_NO_DRIVER, false},
    {101, FUSE_ERROR_INVALID_ARGUMENT, false},
    {200, FUSE_ERROR_DEVICE, false},
    {201, FUSE_ERROR_DEVICE, false},
    {209, FUSE_ERROR_TARGET, false},
    {214, FUSE_ERROR_DEVICE_LOST, true},
    {218, FUSE_ERROR_DEVICE, false},
    {222, FUSE_ERROR_DRIVER_TOO_OLD, false},
    {500, FUSE_ERROR_DEVICE, false},
    {700, FUSE_ERROR_DEVICE_LOST, true},
    {702, FUSE_ERROR_DEVICE_LOST, true},
    {709, FUSE_ERROR_DEVICE_LOST, true},
    {715, FUSE_ERROR_DEVICE_LOST, true},
    {719, FUSE_ERROR_DEVICE_LOST, true},
    {803, FUSE_ERROR_NO_DRIVER, false},
    {804, FUSE_ERROR_NO_DRIVER, false},
    {999, FUSE_ERROR_DEVICE, false},
};

/// Functions whose failure has to reach the caller.
const char *const kFunctions[] = {"cuDeviceGetCount",
                                  "cuDeviceGet",
                                  "cuDeviceGetAttribute",
                                  "cuDevicePrimaryCtxRetain",
                                  "cuCtxPushCurrent",
                                  "cuModuleLoadDataEx",
                                  "cuModuleGetFunction",
                                  "cuFuncSetAttribute",
                                  "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                                  "cuMemAlloc",
                                  "cuMemcpyHtoD",
                                  "cuMemsetD8",
                                  "cuStreamIsCapturing",
                                  "cuTensorMapEncodeTiled",
                                  "cuLaunchKernelEx",
                                  "cuEventCreate",
                                  "cuEventRecord",
                                  "cuEventQuery"};

} // namespace

// Runs first, since the driver stays loaded afterwards.
TEST(CudaDriverTest, SaysWhatIsWrongWithTheDriver) {
  const FakeCuda &fake = getFake();
  int before = fake.countHandles();
  auto open = [] { CudaSession().open(); };
  for (const Code &code : kCodes) {
    fake.fail("cuInit", 1, code.code);
    auto [status, message] = getStatus(open);
    EXPECT_EQ(status, FUSE_ERROR_NO_DRIVER);
    EXPECT_EQ(message, "there is no usable CUDA driver: cuInit: fake error " +
                           std::to_string(code.code) + " (" +
                           std::to_string(code.code) + ")");
  }
  fake.hide("cuLaunchKernelEx");
  auto [status, message] = getStatus(open);
  EXPECT_EQ(status, FUSE_ERROR_DRIVER_TOO_OLD);
  EXPECT_EQ(message, "the CUDA driver has no cuLaunchKernelEx, which came with "
                     "CUDA 11.6");
  fake.hide(nullptr);
  fake.fail("cuDriverGetVersion", 1, 999);
  EXPECT_EQ(getStatus(open).first, FUSE_ERROR_NO_DRIVER);
  // A failed attempt can be repeated.
  EXPECT_EQ(getStatus(open).first, FUSE_OK);

  fake.set("devices", 0);
  std::tie(status, message) = getStatus(open);
  EXPECT_EQ(status, FUSE_ERROR_NO_DRIVER);
  EXPECT_EQ(message, "the CUDA driver has no device");
  fake.set("devices", 1);
  std::tie(status, message) = getStatus([] { cxx::Device::cuda(5); });
  EXPECT_EQ(status, FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(message, "there is no CUDA device 5; there are 1");
  EXPECT_EQ(fake.countHandles(), before);
}

/// Like `runAll`, on an exclusive device, which calls more driver functions.
static void runExclusive(CudaSession &session) {
  session.open();
  session.device.setExclusive(true);
  session.prepare();
  session.launch();
  session.wait();
}

TEST(CudaErrorsTest, GivesEveryCodeAtEveryCall) {
  const FakeCuda &fake = getFake();
  fake.reset();
  {
    CudaSession session;
    runExclusive(session);
  }
  ASSERT_EQ(fake.countHandles(), 0);
  std::map<std::string, int> counts;
  for (const char *function : kFunctions) {
    counts[function] = fake.countCalls(function);
    EXPECT_GT(counts[function], 0) << function;
  }
  int runs = 0;
  for (const char *function : kFunctions)
    for (int nth = 1; nth <= counts[function]; ++nth)
      for (const Code &code : kCodes) {
        // After a cubin that does not load, the PTX is tried, except after
        // sticky errors and out of memory.
        bool isRetried = std::string(function) == "cuModuleLoadDataEx" &&
                         !code.isSticky && code.code != 2;
        fake.reset();
        fake.fail(function, nth, code.code);
        int before = fake.countHandles();
        bool isSwallowed = false;
        {
          CudaSession session;
          auto [status, message] = getStatus([&] { runExclusive(session); });
          ++runs;
          if (isRetried) {
            EXPECT_EQ(status, FUSE_OK) << message;
          } else {
            // Without a current context a handle cannot be released, and there
            // is no caller to report to.
            isSwallowed = status == FUSE_OK &&
                          std::string(function) == "cuCtxPushCurrent";
            EXPECT_TRUE(status == code.status || isSwallowed)
                << function << " " << nth << " " << code.code << ": "
                << message;
            if (!isSwallowed) {
              EXPECT_NE(message.find(function), std::string::npos) << message;
              EXPECT_NE(message.find(std::to_string(code.code)),
                        std::string::npos)
                  << message;
            }
          }
          // A lost context stays lost, and no driver call uses it.
          if (session.device && code.isSticky && status != FUSE_OK) {
            EXPECT_EQ(fuse_device_check(session.device.get()),
                      FUSE_ERROR_DEVICE_LOST);
            if (session.workspace) {
              fake.reset();
              auto [again, why] = getStatus([&] { session.launch(); });
              EXPECT_EQ(again, FUSE_ERROR_DEVICE_LOST);
              EXPECT_NE(why.find("started again"), std::string::npos);
              EXPECT_EQ(fake.countLaunches(), 0);
            }
          }
        }
        EXPECT_LE(fake.countHandles(), before + isSwallowed)
            << function << " " << nth << " " << code.code;
      }
  EXPECT_GT(runs, 500);
}

TEST(CudaErrorsTest, NamesBothVersionsWhenTheDriverIsTooOld) {
  const FakeCuda &fake = getFake();
  fake.set("cubin", 0);
  fake.fail("cuModuleLoadDataEx", 2, 222);
  CudaSession session;
  session.open();
  auto [status, message] = getStatus([&] { session.prepare(); });
  fake.set("cubin", 1);
  EXPECT_EQ(status, FUSE_ERROR_DRIVER_TOO_OLD);
  EXPECT_EQ(message,
            "cuModuleLoadDataEx (PTX 8.0 for sm_90a on a driver of CUDA "
            "12.4): fake error 222 (222)");
}

// After a failure the same handles can be used, unless the context is lost.
TEST(CudaErrorsTest, RecoversFromFullMemory) {
  const FakeCuda &fake = getFake();
  int before = fake.countHandles();
  {
    CudaSession session;
    session.open();
    for (int nth = 1;; ++nth) {
      fake.reset();
      fake.fail("cuMemAlloc", nth, 2);
      auto [status, message] = getStatus([&] { session.prepare(); });
      if (status == FUSE_OK)
        break;
      EXPECT_EQ(status, FUSE_ERROR_DEVICE_MEMORY);
      EXPECT_NE(message.find("bytes for "), std::string::npos) << message;
      ASSERT_LT(nth, 100);
    }
    fake.reset();
    session.launch();
    EXPECT_EQ(fake.countLaunches(), 2);
  }
  EXPECT_EQ(fake.countHandles(), before);
}

// Functions that release handles cannot report errors.
TEST(CudaErrorsTest, SwallowsErrorsOfDestruction) {
  const FakeCuda &fake = getFake();
  for (const char *function :
       {"cuMemFree", "cuModuleUnload", "cuEventDestroy", "cuCtxPopCurrent"}) {
    CudaSession session;
    fake.fail(function, 1, 700);
    EXPECT_EQ(getStatus([&] { session.runAll(); }).first, FUSE_OK);
  }
  fake.fail("cuDevicePrimaryCtxRelease", 1, 700);
  {
    CudaSession().runAll();
  }
  fake.reset();
}

// Handles of a device with running work cannot be released, so they are kept.
TEST(CudaTimeoutTest, GivesUpOnADeviceThatHangs) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.open();
  session.prepare();
  session.launch();
  fake.set("ready", 0);
  auto [status, message] = getStatus([&] { session.wait(); });
  EXPECT_EQ(status, FUSE_ERROR_TIMEOUT);
  EXPECT_EQ(message, "the stream did not finish in 20 ms");
  fake.set("ready", 1);
  {
    std::tie(status, message) = getStatus([&] { session.wait(); });
    EXPECT_EQ(status, FUSE_ERROR_TIMEOUT);
    EXPECT_EQ(message, "an earlier launch did not finish in time");
  }
  EXPECT_EQ(getStatus([&] { session.launch(); }).first, FUSE_ERROR_TIMEOUT);
  fake.reset();
  session = CudaSession();
  EXPECT_EQ(fake.countCalls("cuMemFree"), 0);
  EXPECT_EQ(fake.countCalls("cuModuleUnload"), 0);
  EXPECT_EQ(fake.countCalls("cuDevicePrimaryCtxRelease"), 0);
}
