//===- CudaTest.cpp - Tests of launches through the driver ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "fuse/Runtime/Host/Instance.h"

#include <algorithm>
#include <cstring>
#include <thread>

using namespace fuse;
using namespace fuse::test;

TEST(CudaTest, LaunchesWhatThePlanSays) {
  const FakeCuda &fake = getFake();
  int before = fake.countHandles();
  {
    CudaSession session;
    session.runAll();
    int allocations = fake.countCalls("cuMemAlloc");
    fake.reset();
    session.launch();
    // The call path allocates nothing, copies nothing and waits for nothing.
    for (const char *function :
         {"cuMemAlloc", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemsetD8",
          "cuEventRecord", "cuEventQuery", "cuModuleLoadDataEx",
          "cuModuleGetFunction", "cuTensorMapEncodeTiled"})
      EXPECT_EQ(fake.countCalls(function), 0) << function;
    EXPECT_GT(allocations, 0);
    ASSERT_EQ(fake.countLaunches(), 2);

    const FakeLaunch &first = *fake.getLaunch(0);
    EXPECT_STREQ(first.kernel, "first");
    EXPECT_EQ(first.grid[0], 4u);
    EXPECT_EQ(first.block[0], 384u);
    EXPECT_EQ(first.sharedBytes, 1000u);
    EXPECT_EQ(first.stream, session.stream);
    EXPECT_EQ(first.cooperative, 1);
    EXPECT_EQ(first.programmatic, -1);
    EXPECT_EQ(first.cluster[0], -1);
    // The workspace begins where its first buffer does; a map is of what lies
    // behind the words that are zero.
    uint64_t workspace = first.parameters[1] - 512;
    EXPECT_EQ(workspace % 256, 0u);
    EXPECT_EQ(first.parameters[2], workspace + 1024);
    for (int i = 0; i < 1024; ++i)
      EXPECT_EQ(reinterpret_cast<const char *>(workspace)[i], 0);
    EXPECT_EQ(first.parameters[3], 3u);
    float half = 0.5f;
    EXPECT_EQ(std::memcmp(&first.parameters[4], &half, 4), 0);

    const FakeLaunch &second = *fake.getLaunch(1);
    EXPECT_STREQ(second.kernel, "second");
    EXPECT_EQ(second.grid[0], 2u);
    EXPECT_EQ(second.grid[1], 2u);
    EXPECT_EQ(second.block[1], 2u);
    EXPECT_EQ(second.cooperative, -1);
    EXPECT_EQ(second.cluster[0], 2);
    EXPECT_EQ(second.parameters[0],
              reinterpret_cast<uint64_t>(session.data[0]));
    // The norm's weight was bound on the CPU, so that the kernel gets a copy.
    EXPECT_NE(second.parameters[1],
              reinterpret_cast<uint64_t>(session.data[2]));
    EXPECT_EQ(second.parameters[2],
              reinterpret_cast<uint64_t>(session.data[3]));
    EXPECT_EQ(second.parameters[3], workspace + 8192);
    EXPECT_EQ(second.parameters[4], 192u);
  }
  EXPECT_EQ(fake.countHandles(), before);
}

TEST(CudaTest, OverlapsWhereThePlanAllows) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.runAll();
  fake.reset();
  session.launch(FUSE_LAUNCH_OVERLAP);
  EXPECT_EQ(fake.getLaunch(0)->programmatic, 1);
  EXPECT_EQ(fake.getLaunch(0)->cooperative, -1);
  EXPECT_EQ(fake.getLaunch(1)->programmatic, -1);
}

// Copies and fills are on the default stream, and may be under way when the
// functions of the driver return. A kernel on another stream that met words of
// its workspace that were not zero yet waited for ever.
TEST(CudaTest, SettlesBeforeTheFirstLaunch) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.runAll();
  fake.reset();
  session.launch();
  ASSERT_GT(fake.countLaunches(), 0);
  EXPECT_FALSE(fake.getLaunch(0)->unsettled);
  // A workspace that is made later settles by itself.
  session.workspace = {};
  DLTensor input = session.getView(0, kDLCUDA);
  session.workspace = session.instance->createWorkspace({&input});
  fake.reset();
  session.launch();
  EXPECT_FALSE(fake.getLaunch(0)->unsettled);
}

// The second kernel of a function follows the first whatever was before.
TEST(CudaTest, OverlapsKernelsOfOneFunction) {
  const FakeCuda &fake = getFake();
  std::string manifest = kManifest;
  size_t place = manifest.find("\"grid\": [[");
  CudaSession session(manifest.insert(place, "\"dependent\": true, "));
  session.open();
  session.prepare();
  fake.reset();
  session.launch();
  EXPECT_EQ(fake.getLaunch(0)->programmatic, -1);
  EXPECT_EQ(fake.getLaunch(1)->programmatic, 1);
}

// Several kernels of one block need its weights in memory once.
TEST(CudaTest, SharesPackedWeights) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  auto device = host::openCuda(0);
  auto program =
      device->load(std::make_shared<host::Artifact>(makeArtifact(kManifest)));
  host::SharedWeights shared;
  auto prepare = [&](int weight, host::SharedWeights *shared) {
    auto instance = program->instantiate(*program->functions[0]);
    DLTensor up = session.getView(1, kDLCPU), norm = session.getView(2, kDLCPU);
    up.data = session.data[weight];
    instance->bind(1, &up, nullptr);
    instance->bind(2, &norm, nullptr);
    fake.reset();
    instance->prepare(shared);
    return instance;
  };
  // The packed weight and the copy of the norm's.
  auto first = prepare(1, &shared);
  EXPECT_EQ(fake.countCalls("cuMemAlloc"), 2);
  auto second = prepare(1, &shared);
  EXPECT_EQ(fake.countCalls("cuMemAlloc"), 1);
  // Another tensor is another weight, and nothing is shared unasked.
  EXPECT_EQ((prepare(0, &shared), fake.countCalls("cuMemAlloc")), 2);
  EXPECT_EQ((prepare(1, nullptr), fake.countCalls("cuMemAlloc")), 2);
  // Weights leave with the last instance that has them.
  first.reset();
  EXPECT_EQ((prepare(1, &shared), fake.countCalls("cuMemAlloc")), 1);
  second.reset();
  EXPECT_EQ((prepare(1, &shared), fake.countCalls("cuMemAlloc")), 2);
}

// The same through the C interface; weights outlive the handle.
TEST(CudaTest, SharesPackedWeightsOfHandles) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.open();
  cxx::Program program(session.artifact, session.device);
  auto shared = std::make_unique<cxx::SharedWeights>();
  auto prepare = [&] {
    cxx::Instance instance(program, nullptr);
    for (int i : {1, 2})
      instance.bind(i, session.getView(i, kDLCPU));
    fake.reset();
    instance.prepare(*shared);
    return instance;
  };
  cxx::Instance first = prepare();
  EXPECT_EQ(fake.countCalls("cuMemAlloc"), 2);
  cxx::Instance second = prepare();
  EXPECT_EQ(fake.countCalls("cuMemAlloc"), 1);
  shared.reset();
  EXPECT_EQ(fake.countCalls("cuMemFree"), 0);
  EXPECT_EQ(fuse_instance_prepare_shared(first.get(), nullptr),
            FUSE_ERROR_INVALID_ARGUMENT);
}

// Ranges are named by site, so that a profile shows what was fused.
TEST(CudaTest, NamesRangesForProfilers) {
  CudaSession session;
  session.open();
  session.prepare();
  (void)takeRanges();
  session.launch();
  EXPECT_EQ(takeRanges(), "[fuse f#0]");
  session.shapes[0][0] = 65;
  EXPECT_NE(getStatus([&] { session.launch(); }).first, FUSE_OK);
  // Also when a launch fails each range ends.
  std::string ranges = takeRanges();
  EXPECT_EQ(std::count(ranges.begin(), ranges.end(), '['),
            std::count(ranges.begin(), ranges.end(), ']'));
}

TEST(CudaTest, SkipsEmptyGrids) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.open();
  session.prepare(/*tokens=*/0);
  fake.reset();
  session.launch();
  ASSERT_EQ(fake.countLaunches(), 1);
  EXPECT_STREQ(fake.getLaunch(0)->kernel, "first");
}

TEST(CudaTest, LoadsModulesOnceAndLazily) {
  const FakeCuda &fake = getFake();
  fake.reset();
  CudaSession session;
  session.open();
  cxx::Program program(session.artifact, session.device);
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      cxx::Instance instance(program, "f");
      for (int argument : {1, 2})
        instance.bind(argument, session.getView(argument, kDLCPU));
      instance.prepare();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 1);
}

// An older driver that does not know the cubin gets the PTX.
TEST(CudaTest, FallsBackToPTX) {
  const FakeCuda &fake = getFake();
  fake.reset();
  fake.set("cubin", 0);
  CudaSession session;
  session.runAll();
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 2);
  fake.set("cubin", 1);
}

TEST(CudaTest, RefusesOtherPlacesShapesAndSizes) {
  CudaSession session;
  session.runAll();
  DLTensor input = session.getView(0, kDLCUDA),
           output = session.getView(3, kDLCUDA);
  auto launch = [&](const cxx::Workspace &workspace = {}) {
    session.instance->launch({&input}, {&output}, workspace, session.stream);
  };
  input.device = {kDLCPU, 0};
  auto [status, message] = getStatus([&] { launch(session.workspace); });
  EXPECT_EQ(status, FUSE_ERROR_TENSOR);
  EXPECT_EQ(message, "argument 0 of f is on device 1:0, expected CUDA (2:0)");
  input.device = {kDLCUDA, 1};
  EXPECT_EQ(getStatus([&] { launch(session.workspace); }).first,
            FUSE_ERROR_TENSOR);
  input.device = {kDLCUDA, 0};
  std::tie(status, message) = getStatus([&] { launch(); });
  EXPECT_EQ(status, FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(message, "f needs a workspace of 8576 bytes, got 0");
  session.shapes[0][0] = session.shapes[3][0] = 65;
  std::tie(status, message) = getStatus([&] { launch(session.workspace); });
  EXPECT_EQ(status, FUSE_ERROR_TENSOR);
  EXPECT_EQ(message, "f takes at most 64 tokens, got 65");
  session.shapes[0][0] = session.shapes[3][0] = 64;
  EXPECT_EQ(getStatus([&] { launch(session.workspace); }).first,
            FUSE_ERROR_INVALID_ARGUMENT);
}

TEST(CudaTest, RefusesOtherChips) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.open();
  for (int capability : {80, 100, 120}) {
    fake.set("capability", capability);
    session.open();
    auto [status, message] = getStatus([&] { session.prepare(); });
    EXPECT_EQ(status, FUSE_ERROR_TARGET);
    EXPECT_EQ(message, "the code is for sm_90a, device 0 is sm_" +
                           std::to_string(capability));
  }
  fake.set("capability", 90);
  // Blocks that wait for each other, on a device that can not hold them.
  fake.set("multiprocessors", 3);
  session.open();
  auto [status, message] = getStatus([&] { session.prepare(); });
  EXPECT_EQ(status, FUSE_ERROR_TARGET);
  EXPECT_EQ(message, "first needs 4 resident blocks, device 0 holds 3");
  fake.set("multiprocessors", 132);
}

TEST(CudaTest, PacksFromDeviceMemory) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.open();
  for (size_t i = 0; i < sizeof(session.data[1]); ++i)
    session.data[1][i] = static_cast<char>(i * 31 + i / 256);
  std::vector<char> images[2];
  for (DLDeviceType place : {kDLCPU, kDLCUDA}) {
    cxx::Program program(session.artifact, session.device);
    cxx::Instance instance(program, nullptr);
    for (int i : {1, 2})
      instance.bind(i, session.getView(i, place));
    fake.reset();
    instance.prepare();
    EXPECT_EQ(fake.countCalls("cuMemcpyDtoH"), place == kDLCUDA ? 1 : 0);
    DLTensor input = session.getView(0, kDLCUDA),
             output = session.getView(3, kDLCUDA);
    cxx::Workspace workspace = instance.createWorkspace({&input});
    instance.launch({&input}, {&output}, workspace);
    const char *packed =
        reinterpret_cast<const char *>(fake.getLaunch(0)->parameters[0]);
    images[place == kDLCUDA].assign(packed, packed + 32768);
  }
  EXPECT_EQ(images[0], images[1]);
}
