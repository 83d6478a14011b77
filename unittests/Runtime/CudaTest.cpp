//===- CudaTest.cpp - Tests of launches through the driver ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "fuse/Runtime/Core/Instance.h"
#include "nlohmann/json.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
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
    // A launch does not allocate, copy or wait.
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
    // The workspace begins with its first buffer. The map describes the bytes
    // after the zeroed semaphores.
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
    // The norm's weight was bound on the CPU, so the kernel receives a copy.
    EXPECT_NE(second.parameters[1],
              reinterpret_cast<uint64_t>(session.data[2]));
    EXPECT_EQ(second.parameters[2],
              reinterpret_cast<uint64_t>(session.data[3]));
    EXPECT_EQ(second.parameters[3], workspace + 8192);
    EXPECT_EQ(second.parameters[4], 192u);
  }
  EXPECT_EQ(fake.countHandles(), before);
}

// Instances of one program have their own scales, and load its modules once.
TEST(CudaTest, PassesTheScalesOfAnInstance) {
  nlohmann::json manifest = nlohmann::json::parse(kManifest);
  nlohmann::json &cuda = manifest["functions"][0]["cuda"];
  cuda["scales"] = {0.3, 0.7};
  cuda["scalars"] = {{{"of", {0, 1}}}, {{"over", 1}}};
  cuda["launches"][0]["args"][4] = {
      {"value", 0.25}, {"type", "f32"}, {"scalar", 0}};
  cuda["launches"][1]["args"][4] = {{"scalar", 1}};
  const FakeCuda &fake = getFake();
  CudaSession session(manifest.dump());
  session.open();
  session.prepare();
  EXPECT_EQ(session.program->getScales(0), (std::vector<float>{0.3f, 0.7f}));
  auto expectNumbers = [&](float product, float reciprocal) {
    fake.reset();
    session.launch();
    session.wait();
    EXPECT_EQ(std::memcmp(&fake.getLaunch(0)->parameters[4], &product, 4), 0);
    EXPECT_EQ(std::memcmp(&fake.getLaunch(1)->parameters[4], &reciprocal, 4),
              0);
  };
  expectNumbers(0.3f * 0.7f, 1.0f / 0.7f);
  session.instance->setScales({0.1f, 3.0f});
  expectNumbers(0.1f * 3.0f, 1.0f / 3.0f);
  auto [status, why] =
      getStatus([&] { session.instance->setScales({0.1f, 0.0f}); });
  EXPECT_EQ(status, FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(why.find("scale 1 of"), std::string::npos) << why;
  expectNumbers(0.1f * 3.0f, 1.0f / 3.0f);

  cxx::Instance other(*session.program, nullptr);
  fake.reset();
  for (int i : {1, 2})
    other.bind(i, session.getView(i, kDLCPU));
  other.prepare();
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 0);
}

/// The preferred shared memory of the first kernel in percent, for a plan with
/// or without a preference.
static int getCarveout(std::optional<int> wish, int failing = 0) {
  nlohmann::json manifest = nlohmann::json::parse(kManifest);
  nlohmann::json &launch = manifest["functions"][0]["cuda"]["launches"][0];
  launch["shared_bytes"] = 0;
  if (wish)
    launch["carveout"] = *wish;
  const FakeCuda &fake = getFake();
  CudaSession session(manifest.dump());
  session.open();
  fake.reset();
  if (failing > 0)
    fake.fail("cuFuncSetAttribute", failing, 1);
  session.prepare();
  session.launch();
  session.wait();
  EXPECT_EQ(fake.getLaunch(1)->carveout, -1);
  return fake.getLaunch(0)->carveout;
}

// The plan states the preferred division between shared memory and L1. Plans of
// earlier compilers do not.
TEST(CudaTest, PrefersSharedMemoryAsThePlanSays) {
  for (int wish : {0, 37, 100})
    EXPECT_EQ(getCarveout(wish), wish);
  EXPECT_EQ(getCarveout(std::nullopt), -1);
  // A driver that does not support the attribute is not an error.
  EXPECT_EQ(getCarveout(100, /*failing=*/1), -1);
}

// A function on empty tensors has neither code nor launches.
TEST(CudaTest, LaunchesNothingWhereNothingIsToDo) {
  const FakeCuda &fake = getFake();
  nlohmann::json manifest = nlohmann::json::parse(kManifest);
  nlohmann::json &cuda = manifest["functions"][0]["cuda"];
  for (const char *list : {"modules", "launches", "workspace", "packed"})
    cuda[list] = nlohmann::json::array();
  cuda["zeroed_bytes"] = 0;
  CudaSession session(manifest.dump());
  fake.reset();
  session.runAll();
  EXPECT_EQ(fake.countLaunches(), 0);
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 0);
}

TEST(CudaTest, OverlapsWhereThePlanAllows) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.runAll();
  fake.reset();
  session.launch(FUSE_LAUNCH_OVERLAP);
  EXPECT_EQ(fake.getLaunch(0)->programmatic, 1);
  // Its blocks wait for each other, whatever else runs on the device.
  EXPECT_EQ(fake.getLaunch(0)->cooperative, 1);
  EXPECT_EQ(fake.getLaunch(1)->programmatic, -1);
}

// Copies and fills are on the default stream and may be in flight when driver
// functions return. Otherwise, a kernel on another stream could see semaphores
// that are not zeroed yet and hang.
TEST(CudaTest, WaitsForCopiesBeforeTheFirstLaunch) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.runAll();
  fake.reset();
  session.launch();
  ASSERT_GT(fake.countLaunches(), 0);
  EXPECT_FALSE(fake.getLaunch(0)->copiesInFlight);
  // A workspace that is created later waits itself.
  session.workspace = {};
  DLTensor input = session.getView(0, kDLCUDA);
  session.workspace = session.instance->createWorkspace({&input});
  fake.reset();
  session.launch();
  EXPECT_FALSE(fake.getLaunch(0)->copiesInFlight);
}

// The second kernel of a function may always overlap the first one.
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

// Several kernels of one block share packed weights.
TEST(CudaTest, SharesPackedWeights) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  auto device = runtime::openCuda(0);
  auto program = device->load(
      std::make_shared<runtime::Artifact>(makeArtifact(kManifest)));
  runtime::SharedWeights shared;
  auto prepare = [&](int weight, runtime::SharedWeights *shared) {
    auto instance = program->instantiate(*program->functions[0]);
    DLTensor up = session.getView(1, kDLCPU), norm = session.getView(2, kDLCPU);
    up.data = session.data[weight];
    instance->bind(1, &up, nullptr);
    instance->bind(2, &norm, nullptr);
    fake.reset();
    instance->prepare(shared);
    return instance;
  };
  // The packed weight and the copy of the norm's weight.
  auto first = prepare(1, &shared);
  EXPECT_EQ(fake.countCalls("cuMemAlloc"), 2);
  auto second = prepare(1, &shared);
  EXPECT_EQ(fake.countCalls("cuMemAlloc"), 1);
  // Another tensor is another weight, and sharing must be requested.
  EXPECT_EQ((prepare(0, &shared), fake.countCalls("cuMemAlloc")), 2);
  EXPECT_EQ((prepare(1, nullptr), fake.countCalls("cuMemAlloc")), 2);
  // The last instance that uses the weights frees them.
  first.reset();
  EXPECT_EQ((prepare(1, &shared), fake.countCalls("cuMemAlloc")), 1);
  second.reset();
  EXPECT_EQ((prepare(1, &shared), fake.countCalls("cuMemAlloc")), 2);
}

// Captured graphs and other instances keep reading packed weights at their
// address, so changes are made in place.
TEST(CudaTest, ReplacesPackedWeightsWhereTheyAre) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.open();
  cxx::Program program(session.artifact, session.device);
  auto prepare = [&](cxx::Instance &instance, int weight,
                     cxx::SharedWeights &shared) {
    DLTensor up = session.getView(1, kDLCPU);
    up.data = session.data[weight];
    instance.bind(1, up);
    instance.bind(2, session.getView(2, kDLCPU));
    fake.reset();
    instance.prepare(shared);
  };
  auto launch = [&](cxx::Instance &instance) {
    DLTensor input = session.getView(0, kDLCUDA),
             output = session.getView(3, kDLCUDA);
    cxx::Workspace workspace = instance.createWorkspace({&input});
    fake.reset();
    instance.launch({&input}, {&output}, workspace, session.stream, 0);
    return reinterpret_cast<const char *>(fake.getLaunch(0)->parameters[0]);
  };
  cxx::Instance first(program, nullptr), second(program, nullptr);
  cxx::SharedWeights shared, later, last;
  session.data[1][0] = 1;
  prepare(first, 1, shared);
  EXPECT_EQ(fake.countCalls("cuCtxSynchronize"), 0);
  prepare(second, 1, shared);
  const char *packed = launch(first);
  EXPECT_EQ(packed[0], 1);

  // Launches that read the old weights have to end before.
  session.data[1][0] = 2;
  prepare(first, 1, later);
  EXPECT_EQ(fake.countCalls("cuCtxSynchronize"), 1);
  EXPECT_EQ(launch(first), packed);
  EXPECT_EQ(packed[0], 2);
  EXPECT_EQ(launch(second), packed);
  prepare(second, 1, later);
  EXPECT_EQ(launch(second), packed);

  // Other tensors are other weights, which only this instance has.
  session.data[0][0] = 3;
  prepare(first, 0, last);
  EXPECT_EQ(fake.countCalls("cuCtxSynchronize"), 0);
  const char *other = launch(first);
  EXPECT_NE(other, packed);
  EXPECT_EQ(other[0], 3);
  EXPECT_EQ(packed[0], 2);
}

// The same through the C interface. Weights outlive the handle.
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

// Ranges have the names of sites, so that profiles show fused sites.
TEST(CudaTest, NamesRangesForProfilers) {
  CudaSession session;
  session.open();
  session.prepare();
  (void)takeRanges();
  session.launch();
  EXPECT_EQ(takeRanges(), "[fuse f#0]");
  session.shapes[0][0] = 65;
  EXPECT_NE(getStatus([&] { session.launch(); }).first, FUSE_OK);
  // Every range ends, even if a launch fails.
  std::string ranges = takeRanges();
  EXPECT_EQ(std::count(ranges.begin(), ranges.end(), '['),
            std::count(ranges.begin(), ranges.end(), ']'));
}

TEST(CudaTest, LaunchesNothingForNoTokens) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.open();
  session.prepare(/*tokens=*/0);
  fake.reset();
  session.launch();
  EXPECT_EQ(fake.countLaunches(), 0);
}

// One launch may have an empty grid while others of its function do not.
TEST(CudaTest, SkipsEmptyGrids) {
  const FakeCuda &fake = getFake();
  std::string manifest = kManifest;
  std::string grid = R"([["ceildiv", "s0", 2], 2, 1])";
  manifest.replace(manifest.find(grid), grid.size(),
                   R"([["floordiv", "s0", 8], 2, 1])");
  CudaSession session(manifest);
  session.open();
  session.prepare(/*tokens=*/3);
  fake.reset();
  session.launch();
  ASSERT_EQ(fake.countLaunches(), 1);
  EXPECT_STREQ(fake.getLaunch(0)->kernel, "first");
}

// The semaphores and tensor maps of a workspace belong to one function. Another
// function would misread them and hang.
TEST(CudaTest, RefusesTheWorkspaceOfAnotherFunction) {
  const FakeCuda &fake = getFake();
  nlohmann::json manifest = nlohmann::json::parse(kManifest);
  manifest["functions"].push_back(manifest["functions"][0]);
  manifest["functions"][1]["name"] = "g";
  CudaSession session(manifest.dump());
  session.open();
  cxx::Program program(session.artifact, session.device);
  cxx::Instance f(program, "f"), g(program, "g"), again(program, "f");
  for (int i : {1, 2})
    for (cxx::Instance *instance : {&f, &g, &again})
      instance->bind(i, session.getView(i, kDLCPU));
  for (cxx::Instance *instance : {&f, &g, &again})
    instance->prepare();
  DLTensor input = session.getView(0, kDLCUDA);
  DLTensor output = session.getView(3, kDLCUDA);
  cxx::Workspace workspace = f.createWorkspace({&input});
  fake.reset();
  again.launch({&input}, {&output}, workspace, nullptr, /*flags=*/0);
  EXPECT_EQ(fake.countLaunches(), 2);
  auto [status, message] =
      getStatus([&] { g.launch({&input}, {&output}, workspace, nullptr, 0); });
  EXPECT_EQ(status, FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(message, "the workspace is of another function, f; make one for g");
}

TEST(CudaTest, RefusesWhatWouldBeOverwritten) {
  getFake();
  CudaSession session;
  session.open();
  session.prepare();
  DLTensor input = session.getView(0, kDLCUDA);
  DLTensor output = session.getView(0, kDLCUDA);
  auto launch = [&](uint32_t flags) {
    return getStatus([&] {
      session.instance->launch({&input}, {&output}, session.workspace,
                               session.stream, flags);
    });
  };
  EXPECT_EQ(launch(0).second, "result 0 of f overlaps argument 0 of f");
  output.byte_offset = 3 * 64 * 2 - 16;
  EXPECT_EQ(launch(0).second, "result 0 of f overlaps argument 0 of f");
  // The next byte belongs to the output itself.
  output.byte_offset += 16;
  EXPECT_EQ(launch(0).first, FUSE_OK);
  output.byte_offset += 2;
  EXPECT_EQ(launch(0).second,
            "result 0 of f is misaligned by 2 bytes: kernels of f require "
            "addresses that are multiples of 16");
  auto [status, message] = launch(/*flags=*/9);
  EXPECT_EQ(status, FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(message, "'flags' has 8, which is not a flag of this version");
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

// An older driver that does not support the cubin gets the PTX.
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
  EXPECT_EQ(message, "f supports at most 64 tokens, got 65");
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
  // Blocks that wait for each other, on a device that cannot hold all of them.
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

//===----------------------------------------------------------------------===//
// Several streams and devices
//===----------------------------------------------------------------------===//

/// An opaque stream.
static void *makeStream(uintptr_t number) {
  return reinterpret_cast<void *>(number);
}

TEST(CudaTest, LaunchesOnSeveralStreams) {
  const FakeCuda &fake = getFake();
  CudaSession session;
  session.open();
  session.prepare();
  constexpr int kStreams = 4, kLaunches = 50;
  std::vector<cxx::Workspace> workspaces(kStreams);
  DLTensor input = session.getView(0, kDLCUDA),
           output = session.getView(3, kDLCUDA);
  for (cxx::Workspace &workspace : workspaces)
    workspace = session.instance->createWorkspace({&input});
  fake.reset();
  std::vector<std::thread> threads;
  for (int i = 0; i < kStreams; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < kLaunches; ++round)
        session.instance->launch({&input}, {&output}, workspaces[i],
                                 makeStream(100 + i));
    });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_EQ(fake.countLaunches(), 2 * kStreams * kLaunches);
  // Addresses that launches use on each stream.
  std::map<void *, std::set<uint64_t>> used;
  for (int i = 0; i < fake.countLaunches(); ++i)
    if (const FakeLaunch &launch = *fake.getLaunch(i);
        std::string(launch.kernel) == "first")
      used[launch.stream].insert(launch.parameters[1]);
  ASSERT_EQ(used.size(), size_t(kStreams));
  std::set<uint64_t> all;
  for (const auto &[stream, addresses] : used) {
    EXPECT_EQ(addresses.size(), 1u);
    all.insert(addresses.begin(), addresses.end());
  }
  EXPECT_EQ(all.size(), size_t(kStreams));
}

TEST(CudaTest, RefusesAWorkspaceOnTwoStreams) {
  CudaSession session;
  session.runAll();
  session.launch();
  void *first = session.stream;
  session.stream = makeStream(78);
  auto [status, message] = getStatus([&] { session.launch(); });
  EXPECT_EQ(status, FUSE_ERROR_STATE);
  EXPECT_EQ(message, "the workspace is in use by a launch on another stream; "
                     "wait for that stream, or make a workspace for each");
  // Waiting for another stream does not affect the first.
  session.wait();
  EXPECT_EQ(getStatus([&] { session.launch(); }).first, FUSE_ERROR_STATE);
  session.device.wait(first, /*timeoutMs=*/20);
  EXPECT_EQ(getStatus([&] { session.launch(); }).first, FUSE_OK);
  // Or the caller orders the launches.
  session.stream = first;
  EXPECT_EQ(getStatus([&] { session.launch(); }).first, FUSE_ERROR_STATE);
  EXPECT_EQ(getStatus([&] { session.launch(FUSE_LAUNCH_ORDERED); }).first,
            FUSE_OK);
}

TEST(CudaTest, LoadsAModuleForEachDevice) {
  const FakeCuda &fake = getFake();
  int before = fake.countHandles();
  fake.set("devices", 2);
  {
    CudaSession sessions[2];
    fake.reset();
    for (int i = 0; i < 2; ++i) {
      sessions[i].open(i);
      sessions[i].prepare();
    }
    EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 2);
    std::vector<std::thread> threads;
    for (CudaSession &session : sessions)
      threads.emplace_back([&session] {
        for (int round = 0; round < 20; ++round)
          session.launch();
      });
    for (std::thread &thread : threads)
      thread.join();
    int launches[2] = {};
    for (int i = 0; i < fake.countLaunches(); ++i) {
      const FakeLaunch &launch = *fake.getLaunch(i);
      EXPECT_EQ(launch.device, launch.moduleDevice);
      ++launches[launch.device];
    }
    EXPECT_EQ(launches[0], 40);
    EXPECT_EQ(launches[1], 40);

    // Tensors and workspaces must stay on their device.
    DLTensor input = sessions[0].getView(0, kDLCUDA),
             output = sessions[0].getView(3, kDLCUDA);
    auto [status, message] = getStatus([&] {
      sessions[1].instance->launch({&input}, {&output}, sessions[1].workspace);
    });
    EXPECT_EQ(status, FUSE_ERROR_TENSOR);
    EXPECT_EQ(message, "argument 0 of f is on device 2:0, expected CUDA (2:1)");
    std::tie(status, message) = getStatus([&] {
      sessions[0].instance->launch({&input}, {&output}, sessions[1].workspace);
    });
    EXPECT_EQ(status, FUSE_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(message, "the workspace is of another device");
  }
  fake.set("devices", 1);
  EXPECT_EQ(fake.countHandles(), before);
}

//===----------------------------------------------------------------------===//
// Several modules, and their versions
//===----------------------------------------------------------------------===//

/// The manifest with `from` replaced by `to`.
static std::string edit(std::string manifest, const std::string &from,
                        const std::string &to) {
  size_t at = manifest.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return manifest.replace(at, from.size(), to);
}

TEST(CudaTest, LaunchesKernelsOfSeveralModules) {
  const FakeCuda &fake = getFake();
  int before = fake.countHandles();
  {
    std::string manifest =
        edit(kManifest, "\"ptx_version\": 80}]",
             "\"ptx_version\": 80}, {\"cubin\": 2, \"source\": \"a.cubin\"}]");
    manifest = edit(manifest, "{\"kernel\": \"second\",",
                    "{\"kernel\": \"second\", \"module\": 1,");
    CudaSession session(manifest);
    fake.reset();
    session.runAll();
    EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 2);
    EXPECT_EQ(fake.countLaunches(), 2);
    // There is no PTX to fall back to.
    fake.set("cubin", 0);
    CudaSession other(manifest);
    auto [status, message] = getStatus([&] { other.runAll(); });
    EXPECT_EQ(status, FUSE_ERROR_TARGET);
    EXPECT_NE(message.find("cubin of 'a.cubin' for sm_90a"), std::string::npos)
        << message;
    fake.set("cubin", 1);
  }
  EXPECT_EQ(fake.countHandles(), before);
}

// A driver that is older than the PTX gets one retry, with the lowest version
// that supports all used features.
TEST(CudaTest, RetriesWithALowerVersionOfPTX) {
  const FakeCuda &fake = getFake();
  fake.set("cubin", 0);
  struct Case {
    int driver, minimum, loads;
    fuse_status status;
  };
  for (Case c : {Case{80, 78, 2, FUSE_OK}, Case{79, 78, 3, FUSE_OK},
                 Case{77, 78, 3, FUSE_ERROR_DRIVER_TOO_OLD},
                 Case{79, 80, 2, FUSE_ERROR_DRIVER_TOO_OLD}}) {
    fake.reset();
    fake.set("ptx", c.driver);
    CudaSession session(edit(kManifest, "\"ptx_version\": 80",
                             "\"ptx_version\": 80, \"ptx_minimum\": " +
                                 std::to_string(c.minimum)));
    auto [status, message] = getStatus([&] { session.runAll(); });
    EXPECT_EQ(status, c.status) << message;
    EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), c.loads);
    if (c.status == FUSE_OK)
      continue;
    std::string versions =
        c.minimum < 80 ? "PTX 8.0 (at least 7.8)" : "PTX 8.0";
    EXPECT_NE(message.find(versions + " for sm_90a on a driver of CUDA 12.4"),
              std::string::npos)
        << message;
  }
  fake.set("ptx", 990);
  fake.set("cubin", 1);
}
