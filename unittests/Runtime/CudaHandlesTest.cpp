//===- CudaHandlesTest.cpp - Tests of state shared between device handles -===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "nlohmann/json.hpp"

#include <chrono>
#include <thread>

using namespace fuse;
using namespace fuse::test;

static void *makeStream(uintptr_t number) {
  return reinterpret_cast<void *>(number);
}

/// A prepared instance of the session's artifact on a device handle.
static cxx::Instance prepare(CudaSession &session, cxx::Device &device) {
  cxx::Program program(session.artifact, device);
  cxx::Instance instance(program, nullptr);
  for (int i : {1, 2})
    instance.bind(i, session.getView(i, kDLCPU));
  instance.prepare();
  return instance;
}

// Handles of one device share its context, so a workspace may serve instances
// of both. All handles share the record of ended launches.
TEST(CudaHandlesTest, CountsLaunchesOfOneDeviceTogether) {
  (void)getFake();
  CudaSession session;
  cxx::Device first = cxx::Device::cuda(0), second = cxx::Device::cuda(0);
  cxx::Instance one = prepare(session, first), other = prepare(session, second);
  DLTensor input = session.getView(0, kDLCUDA),
           output = session.getView(3, kDLCUDA);
  cxx::Workspace shared = one.createWorkspace({&input}),
                 own = other.createWorkspace({&input});
  void *stream = makeStream(301), *another = makeStream(302);
  auto launch = [&](cxx::Instance &instance, cxx::Workspace &workspace,
                    void *on) {
    return getStatus(
        [&] { instance.launch({&input}, {&output}, workspace, on, 0); });
  };
  EXPECT_EQ(launch(other, own, stream).first, FUSE_OK);
  second.wait(stream, /*timeoutMs=*/20);
  // This launch begins after that wait.
  EXPECT_EQ(launch(one, shared, stream).first, FUSE_OK);
  EXPECT_EQ(launch(other, shared, another),
            std::pair(FUSE_ERROR_STATE,
                      std::string("the workspace is in use by a launch on "
                                  "another stream; wait for that stream, or "
                                  "make a workspace for each")));
  second.wait(stream, /*timeoutMs=*/20);
  EXPECT_EQ(launch(other, shared, another).first, FUSE_OK);
}

// Two devices pack weights of the host at the same address, but do not share
// the packed copies.
TEST(CudaHandlesTest, SharesWeightsOfEachDeviceAlone) {
  const FakeCuda &fake = getFake();
  fake.set("devices", 2);
  {
    CudaSession session;
    cxx::Device devices[] = {cxx::Device::cuda(0), cxx::Device::cuda(1)};
    cxx::SharedWeights shared;
    std::vector<cxx::Instance> instances;
    auto countAllocations = [&](int device) {
      cxx::Program program(session.artifact, devices[device]);
      cxx::Instance instance(program, nullptr);
      for (int i : {1, 2})
        instance.bind(i, session.getView(i, kDLCPU));
      fake.reset();
      instance.prepare(shared);
      instances.push_back(std::move(instance));
      return fake.countCalls("cuMemAlloc");
    };
    // The packed weight and the copy of the norm's weight, or the copy alone.
    EXPECT_EQ(countAllocations(0), 2);
    EXPECT_EQ(countAllocations(1), 2);
    EXPECT_EQ(countAllocations(0), 1);
    EXPECT_EQ(countAllocations(1), 1);
  }
  fake.set("devices", 1);
}

// A wait without a time-out does not give up at once.
TEST(CudaHandlesTest, WaitsAsLongAsANumberSays) {
  const FakeCuda &fake = getFake();
  for (uint64_t timeoutMs : {uint64_t(60000), uint64_t(INT64_MAX) / 1000000 + 1,
                             uint64_t(INT64_MAX), UINT64_MAX}) {
    CudaSession session;
    session.open();
    session.prepare();
    session.launch();
    fake.set("ready", 0);
    std::thread finish([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      fake.set("ready", 1);
    });
    auto outcome =
        getStatus([&] { session.device.wait(session.stream, timeoutMs); });
    finish.join();
    EXPECT_EQ(outcome, std::pair(FUSE_OK, std::string())) << timeoutMs;
  }
}

/// The error message of serving the function with one changed value of its
/// code, or "".
static std::string serve(const char *pointer, const nlohmann::json &value) {
  nlohmann::json manifest = nlohmann::json::parse(kManifest);
  nlohmann::json &cuda = manifest["functions"][0]["cuda"];
  cuda[nlohmann::json::json_pointer(pointer)] = value;
  (void)getFake();
  return getStatus([&] { CudaSession(manifest.dump()).runAll(); }).second;
}

// Errors of a plan that only a launch can detect.
TEST(CudaHandlesTest, RefusesPlansThatDoNotFitTheirLaunch) {
  EXPECT_EQ(serve("/symbols/0", {0, 0}), "");
  EXPECT_EQ(serve("/symbols/0", {3, 0}),
            "a size of f depends on one of its results");
  EXPECT_EQ(serve("/launches/0/args/2/map/element", "f16"), "");
  EXPECT_EQ(serve("/launches/0/args/2/map/element", "f64"),
            "there is no tensor map of f64 with a swizzle of 128 bytes");
  EXPECT_EQ(serve("/launches/0/args/2/map/swizzle", 96),
            "there is no tensor map of bf16 with a swizzle of 96 bytes");
  EXPECT_EQ(serve("/launches/1/grid/1", 65536),
            "second would have 65536 blocks in one dimension");
  EXPECT_EQ(serve("/workspace/1", -1), "a workspace buffer of f has -1 bytes");
}
