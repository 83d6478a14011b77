//===- AlternativesTest.cpp - Tests of launches by number of tokens -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"
#include "nlohmann/json.hpp"

using namespace fuse;
using namespace fuse::test;
using nlohmann::json;

/// The function of kManifest with kernels for three ranges of tokens. All use
/// semaphores in the first buffer. The last range has a matrix with one row per
/// token.
static json makeRanges() {
  json manifest = json::parse(kManifest);
  json &cuda = manifest["functions"][0]["cuda"];
  cuda.erase("launches");
  cuda.erase("workspace");
  cuda["max_tokens"] = 256;
  auto launch = [](const char *kernel, json buffer) {
    return json{{"kernel", kernel},
                {"grid", {4, 1, 1}},
                {"block", {384, 1, 1}},
                {"args",
                 {{{"workspace", 0}, {"offset", 0}},
                  buffer,
                  {{"size", "s0"}, {"bytes", 4}}}}};
  };
  json matrix = {{"rows", 256},       {"columns", 64},  {"box_rows", 64},
                 {"box_columns", 64}, {"swizzle", 128}, {"element", "bf16"}};
  json rows = {"mul", {"ceildiv", "s0", 128}, 16384};
  cuda["alternatives"] = {
      {{"upto", 8},
       {"workspace", {1024, 4096}},
       {"launches", {launch("few", {{"workspace", 1}})}}},
      {{"upto", 64},
       {"workspace", {1024, 65536}},
       {"launches", {launch("some", {{"workspace", 1}, {"offset", 512}})}}},
      {{"upto", 256},
       {"workspace", {1024, 0, rows}},
       {"launches",
        {launch("norm", {{"workspace", 2}}),
         launch("many", {{"workspace", 2}, {"map", matrix}})}}}};
  return manifest;
}

static const FakeCuda &getRangesFake() {
  static const FakeCuda &fake = []() -> const FakeCuda & {
    int plain[] = {8, 8, 4}, mapped[] = {8, 128, 4};
    for (const char *name : {"few", "some", "norm"})
      getFake().declare(name, 3, plain);
    getFake().declare("many", 3, mapped);
    return getFake();
  }();
  return fake;
}

static std::vector<std::string> launchOn(CudaSession &session, int64_t tokens) {
  const FakeCuda &fake = getRangesFake();
  session.shapes[0][0] = session.shapes[3][0] = tokens;
  fake.reset();
  session.launch();
  std::vector<std::string> kernels;
  for (int i = 0; i < fake.countLaunches(); ++i)
    kernels.push_back(fake.getLaunch(i)->kernel);
  return kernels;
}

TEST(AlternativesTest, LaunchesTheKernelsOfTheRange) {
  const FakeCuda &fake = getRangesFake();
  CudaSession session(makeRanges().dump());
  session.open();
  // One workspace for the largest number of tokens serves all.
  session.prepare(/*tokens=*/256);
  using Names = std::vector<std::string>;
  const Names few = {"few"}, some = {"some"}, many = {"norm", "many"};
  uint64_t words = 0;
  for (const auto &[tokens, kernels] :
       std::vector<std::pair<int64_t, Names>>{{1, few},
                                              {8, few},
                                              {9, some},
                                              {63, some},
                                              {64, some},
                                              {65, many},
                                              {128, many},
                                              {129, many},
                                              {256, many},
                                              {7, few}}) {
    EXPECT_EQ(launchOn(session, tokens), kernels) << tokens;
    // Choosing an alternative does not allocate, load or wait.
    for (const char *function :
         {"cuMemAlloc", "cuMemcpyHtoD", "cuMemsetD8", "cuEventRecord",
          "cuEventQuery", "cuModuleLoadDataEx", "cuModuleGetFunction"})
      EXPECT_EQ(fake.countCalls(function), 0) << function;
    const FakeLaunch &first = *fake.getLaunch(0);
    EXPECT_EQ(first.parameters[2], uint64_t(tokens));
    // Semaphores count across launches, so they must not move.
    words = words ? words : first.parameters[0];
    EXPECT_EQ(first.parameters[0], words);
    EXPECT_EQ(first.parameters[1], words + 1024 + (kernels == some ? 512 : 0));
  }
  // No tokens mean no launch.
  EXPECT_EQ(launchOn(session, 0), Names{});
}

TEST(AlternativesTest, NamesBothNumbersOfTokens) {
  getRangesFake();
  CudaSession session(makeRanges().dump());
  session.open();
  session.prepare(/*tokens=*/256);
  auto [status, message] = getStatus([&] { launchOn(session, 257); });
  EXPECT_EQ(status, FUSE_ERROR_TENSOR);
  EXPECT_EQ(message, "f supports at most 256 tokens, got 257");
}

// Here 64 tokens need a larger workspace than 65.
TEST(AlternativesTest, WorkspaceServesFewerTokensToo) {
  getRangesFake();
  CudaSession session(makeRanges().dump());
  session.open();
  session.prepare(/*tokens=*/8);
  EXPECT_EQ(launchOn(session, 8).size(), 1u);
  auto [status, message] = getStatus([&] { launchOn(session, 9); });
  EXPECT_EQ(status, FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(message, "f needs a workspace of 66560 bytes, got 5120");
  session.prepare(/*tokens=*/65);
  for (int64_t tokens : {65, 64, 9, 8})
    EXPECT_FALSE(launchOn(session, tokens).empty()) << tokens;
}

// The driver compiles kernels for many tokens slowly, and a process with few
// tokens does not need them.
TEST(AlternativesTest, LoadsTheCodeThatIsNeeded) {
  const FakeCuda &fake = getRangesFake();
  json manifest = makeRanges();
  json &cuda = manifest["functions"][0]["cuda"];
  cuda["modules"].push_back({{"cubin", 2}});
  for (json &launch : cuda["alternatives"][2]["launches"])
    launch["module"] = 1;
  CudaSession session(manifest.dump());
  session.open();
  cxx::Program program(session.artifact, session.device);
  session.instance = std::make_unique<cxx::Instance>(program, nullptr);
  for (int i : {1, 2})
    session.instance->bind(i, session.getView(i, kDLCPU));
  fake.reset();
  session.instance->limitTokens(64);
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 0);
  session.instance->prepare();
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 1);
  session.shapes[0][0] = 256;
  DLTensor input = session.getView(0, kDLCUDA);
  session.workspace = session.instance->createWorkspace({&input});
  EXPECT_EQ(launchOn(session, 64).size(), 1u);
  auto [status, message] = getStatus([&] { launchOn(session, 65); });
  EXPECT_EQ(status, FUSE_ERROR_STATE);
  EXPECT_EQ(message, "the instance of f is limited to 64 tokens, got 65");

  // A prepared instance loads missing code at once and packs nothing again.
  fake.reset();
  session.instance->limitTokens(65);
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 1);
  EXPECT_EQ(fake.countCalls("cuMemAlloc"), 0);
  EXPECT_EQ(launchOn(session, 256).size(), 2u);
  EXPECT_EQ(launchOn(session, 8).size(), 1u);
  std::tie(status, message) =
      getStatus([&] { session.instance->limitTokens(0); });
  EXPECT_EQ(status, FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(message, "a limit of 0 tokens: expected 1 or more");
}

// A batch size may select the alternative, while other numbers only have
// limits.
TEST(AlternativesTest, ChoosesByAnExpression) {
  getRangesFake();
  json manifest = makeRanges();
  manifest["functions"][0]["cuda"]["tokens"] = {{"mul", "s0", 2}, "s0"};
  CudaSession session(manifest.dump());
  session.open();
  session.prepare(/*tokens=*/128);
  using Names = std::vector<std::string>;
  EXPECT_EQ(launchOn(session, 4), Names{"few"});
  EXPECT_EQ(launchOn(session, 5), Names{"some"});
  EXPECT_EQ(launchOn(session, 32), Names{"some"});
  EXPECT_EQ(launchOn(session, 33), (Names{"norm", "many"}));
  EXPECT_EQ(launchOn(session, 128), (Names{"norm", "many"}));
  auto [status, message] = getStatus([&] { launchOn(session, 129); });
  EXPECT_EQ(status, FUSE_ERROR_TENSOR);
  EXPECT_EQ(message, "f supports at most 256 tokens, got 258");

  // Fewer rows may use other launches here, too.
  session.prepare(/*tokens=*/33);
  for (int64_t tokens : {33, 32, 5, 4})
    EXPECT_FALSE(launchOn(session, tokens).empty()) << tokens;
}

/// The error message for a manifest after `change` to its code, or "".
template <typename Change>
static std::string refuse(Change change) {
  json manifest = makeRanges();
  change(manifest["functions"][0]["cuda"]);
  try {
    runtime::Artifact artifact(makeArtifact(manifest.dump()));
  } catch (const runtime::Failure &failure) {
    return failure.getMessage();
  }
  return "";
}

TEST(AlternativesTest, RefusesRangesThatDoNotFollowEachOther) {
  const std::string begin = "the manifest is malformed: it.functions0.cuda ";
  EXPECT_EQ(refuse([](json &) {}), "");
  EXPECT_EQ(refuse([](json &cuda) { cuda["alternatives"][1]["upto"] = 8; }),
            begin + "has an alternative for up to 8 tokens after one for up "
                    "to 8");
  EXPECT_EQ(refuse([](json &cuda) { cuda["alternatives"][0]["upto"] = 0; }),
            begin + "has an alternative for up to 0 tokens after one for up "
                    "to 0");
  EXPECT_EQ(refuse([](json &cuda) { cuda["max_tokens"] = 512; }),
            begin + "has alternatives for up to 256 tokens, and 'max_tokens' "
                    "= 512");
  for (int maxTokens : {0, 256})
    EXPECT_EQ(refuse([&](json &cuda) {
                cuda["alternatives"] = json::array();
                cuda["max_tokens"] = maxTokens;
              }),
              begin + "has no alternative in 'alternatives'");
  EXPECT_EQ(refuse([](json &cuda) { cuda["tokens"] = json::array(); }),
            begin + "has alternatives by a number of tokens that it does not "
                    "name");
  for (json size : {json(2048), json(512), json("s0")})
    EXPECT_EQ(refuse([&](json &cuda) {
                cuda["alternatives"][1]["workspace"][0] = size;
              }),
              begin + "has an alternative for up to 64 tokens with another "
                      "buffer of zeros");
}
