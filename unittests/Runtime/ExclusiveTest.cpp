//===- ExclusiveTest.cpp - Tests of exclusive devices ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "nlohmann/json.hpp"

#include <thread>

using namespace fuse;
using namespace fuse::test;

static void *const kPerThread = reinterpret_cast<void *>(uintptr_t(2));

static void *makeStream(uintptr_t number) {
  return reinterpret_cast<void *>(number);
}

/// A session whose first kernel has the additional fields in `change`.
static std::unique_ptr<CudaSession> makeSession(nlohmann::json change = {}) {
  nlohmann::json manifest = nlohmann::json::parse(kManifest);
  nlohmann::json &launches = manifest["functions"][0]["cuda"]["launches"];
  if (!change.is_null())
    launches[0].update(change);
  auto session = std::make_unique<CudaSession>(manifest.dump());
  session->open();
  session->prepare();
  session->device.setExclusive(true);
  getFake().reset();
  return session;
}

/// Launch attributes of the first kernel for given flags.
static std::pair<int, int> getAttributes(CudaSession &session, uint32_t flags) {
  getFake().reset();
  session.launch(flags);
  const FakeLaunch &first = *getFake().getLaunch(0);
  return {first.programmatic, first.cooperative};
}

/// Result of a launch with flags on a stream. Each stream has its workspace, so
/// only the check of the device can fail.
static std::pair<fuse_status, std::string>
launchOn(CudaSession &session, void *stream, uint32_t flags = 0) {
  DLTensor input = session.getView(0, kDLCUDA);
  session.workspace = session.instance->createWorkspace({&input});
  session.stream = stream;
  return getStatus([&] { session.launch(flags); });
}

using Attributes = std::pair<int, int>;

// The cooperative attribute is dropped only for overlapping launches, where it
// has a cost.
TEST(ExclusiveTest, OverlapsWithoutTheCooperativeAttribute) {
  auto session = makeSession();
  EXPECT_EQ(getAttributes(*session, 0), Attributes(-1, 1));
  EXPECT_EQ(getAttributes(*session, FUSE_LAUNCH_OVERLAP), Attributes(1, -1));
  session->device.setExclusive(false);
  EXPECT_EQ(getAttributes(*session, FUSE_LAUNCH_OVERLAP), Attributes(1, 1));
}

// The attribute ensures that blocks start all at once or not at all. Clusters
// may not fit between other blocks, and only the driver knows a grid that
// depends on the inputs.
TEST(ExclusiveTest, KeepsTheAttributeWhereBlocksMayNotFit) {
  for (const char *change :
       {R"({"cluster": [2, 1, 1]})", R"({"grid": ["s0", 1, 1]})",
        R"({"grid": [4, 1, "s0"]})"}) {
    auto session = makeSession(nlohmann::json::parse(change));
    EXPECT_EQ(getAttributes(*session, FUSE_LAUNCH_OVERLAP), Attributes(1, 1))
        << change;
  }
  auto session = makeSession(nlohmann::json::parse(R"({"grid": [4, 2, 2]})"));
  EXPECT_EQ(getAttributes(*session, FUSE_LAUNCH_OVERLAP), Attributes(1, -1));
}

// All dimensions of a grid count.
TEST(ExclusiveTest, RefusesGridsThatDoNotFit) {
  for (const char *grid : {"[133, 1, 1]", "[12, 12, 1]", "[3, 5, 9]"}) {
    auto [status, message] = getStatus(
        [&] { makeSession({{"grid", nlohmann::json::parse(grid)}}); });
    EXPECT_EQ(status, FUSE_ERROR_TARGET) << grid;
    EXPECT_NE(message.find("resident blocks, device 0 holds 132"),
              std::string::npos)
        << message;
  }
  EXPECT_EQ(getStatus([&] { makeSession({{"grid", {11, 12, 1}}}); }).first,
            FUSE_OK);
}

TEST(ExclusiveTest, RefusesTwoStreams) {
  const FakeCuda &fake = getFake();
  auto session = makeSession();
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
  fake.reset();
  auto [status, message] = launchOn(*session, makeStream(78));
  EXPECT_EQ(status, FUSE_ERROR_STATE);
  EXPECT_EQ(message, "device 0 is exclusive, and kernels whose blocks wait for "
                     "each other may be running on another stream; wait for "
                     "that stream, or do not make the device exclusive");
  EXPECT_EQ(fake.countLaunches(), 0);
  // The last use is still on the first stream.
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
  // Waiting for it, or declaring an order, permits the other stream.
  session->device.wait(makeStream(77), /*timeoutMs=*/20);
  EXPECT_EQ(launchOn(*session, makeStream(78)).first, FUSE_OK);
  EXPECT_EQ(launchOn(*session, makeStream(77), FUSE_LAUNCH_ORDERED).first,
            FUSE_OK);
  EXPECT_EQ(launchOn(*session, makeStream(78)).first, FUSE_ERROR_STATE);
  // So does a new call of setExclusive. Without it, streams are unrestricted.
  session->device.setExclusive(true);
  EXPECT_EQ(launchOn(*session, makeStream(78)).first, FUSE_OK);
  session->device.setExclusive(false);
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
}

// A launch that is refused for another reason does not count.
TEST(ExclusiveTest, ForgetsRefusedLaunches) {
  auto session = makeSession();
  session->device.setExclusive(false);
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
  session->device.setExclusive(true);
  session->stream = makeStream(78);
  EXPECT_EQ(getStatus([&] { session->launch(); }).second.substr(0, 23),
            "the workspace is in use");
  session->device.wait(makeStream(78), /*timeoutMs=*/20);
  EXPECT_EQ(launchOn(*session, makeStream(79)).first, FUSE_OK);
}

// Two instances on one device exclude each other as well.
TEST(ExclusiveTest, RefusesTwoStreamsOfTwoInstances) {
  auto session = makeSession();
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
  cxx::Instance other(*session->program, nullptr);
  for (int i : {1, 2})
    other.bind(i, session->getView(i, kDLCPU));
  other.prepare();
  std::swap(*session->instance, other);
  EXPECT_EQ(launchOn(*session, makeStream(78)).first, FUSE_ERROR_STATE);
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
}

// Kernels whose blocks do not wait may run on any stream.
TEST(ExclusiveTest, LeavesOtherKernelsAlone) {
  auto session = makeSession({{"cooperative", false}});
  for (uintptr_t stream : {77, 78, 77}) {
    EXPECT_EQ(launchOn(*session, makeStream(stream)).first, FUSE_OK);
    EXPECT_EQ(getAttributes(*session, FUSE_LAUNCH_OVERLAP), Attributes(1, -1));
  }
}

// A captured launch does not run now, so it does not count.
TEST(ExclusiveTest, DoesNotCountCapturedLaunches) {
  const FakeCuda &fake = getFake();
  auto session = makeSession();
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
  fake.set("capturing", 78);
  EXPECT_EQ(launchOn(*session, makeStream(78)).first, FUSE_OK);
  EXPECT_EQ(getAttributes(*session, FUSE_LAUNCH_OVERLAP), Attributes(1, -1));
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
  fake.set("capturing", 0);
  EXPECT_EQ(launchOn(*session, makeStream(78)).first, FUSE_ERROR_STATE);
  // Another stream requires a query of the driver, which may fail.
  fake.reset();
  EXPECT_EQ(launchOn(*session, makeStream(77)).first, FUSE_OK);
  EXPECT_EQ(fake.countCalls("cuStreamIsCapturing"), 0);
  fake.fail("cuStreamIsCapturing", 1, 906);
  auto [status, message] = launchOn(*session, makeStream(78));
  EXPECT_EQ(status, FUSE_ERROR_DEVICE);
  EXPECT_EQ(message, "cuStreamIsCapturing: fake error 906 (906)");
}

// One handle stands for the default streams of all threads, and two for the
// legacy default stream.
TEST(ExclusiveTest, KnowsDefaultStreams) {
  auto session = makeSession();
  EXPECT_EQ(launchOn(*session, kPerThread).first, FUSE_OK);
  EXPECT_EQ(launchOn(*session, kPerThread).first, FUSE_OK);
  std::thread([&] {
    EXPECT_EQ(launchOn(*session, kPerThread).first, FUSE_ERROR_STATE);
    session->device.wait(kPerThread, /*timeoutMs=*/20);
    EXPECT_EQ(launchOn(*session, kPerThread).first, FUSE_ERROR_STATE);
  }).join();
  session->device.wait(kPerThread, /*timeoutMs=*/20);
  EXPECT_EQ(launchOn(*session, nullptr).first, FUSE_OK);
  EXPECT_EQ(launchOn(*session, makeStream(1)).first, FUSE_OK);
}

TEST(ExclusiveTest, IsForGPUs) {
  auto [status, message] =
      getStatus([] { cxx::Device::cpu().setExclusive(true); });
  EXPECT_EQ(status, FUSE_ERROR_UNSUPPORTED);
  EXPECT_EQ(message, "launches on the CPU do not overlap; only a CUDA device "
                     "can be exclusive");
  EXPECT_EQ(fuse_device_set_exclusive(nullptr, 1), FUSE_ERROR_INVALID_ARGUMENT);
}
