//===- DeferredCodeTest.cpp - Tests of code that is compiled on demand ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "fuse/Runtime/Core/Concurrency.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"
#include "nlohmann/json.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>

using namespace fuse;
using namespace fuse::test;
using nlohmann::json;

/// The function of kManifest with one kernel for up to 8 tokens and one for up
/// to 64. Neither is compiled yet.
static json makeManifest() {
  json manifest = json::parse(kManifest);
  json &cuda = manifest["functions"][0]["cuda"];
  cuda.erase("launches");
  cuda.erase("workspace");
  cuda["modules"] = {{{"deferred", 0}, {"ptx_version", 80}},
                     {{"deferred", 1}, {"ptx_version", 80}}};
  auto plan = [](int upTo, int module, const char *kernel) {
    json launch = {{"kernel", kernel},
                   {"module", module},
                   {"grid", {4, 1, 1}},
                   {"block", {384, 1, 1}},
                   {"args", {{{"size", "s0"}, {"bytes", 4}}}}};
    return json{{"upto", upTo}, {"workspace", {1024}}, {"launches", {launch}}};
  };
  cuda["alternatives"] = {plan(8, 0, "eight"), plan(64, 1, "sixtyfour")};
  return manifest;
}

namespace {

/// Counts the requests to the source of an artifact.
struct Source {
  fuse_code_source get() {
    return {[](void *data, size_t number, const char **text, size_t *length) {
              return static_cast<Source *>(data)->compile(number, text, length);
            },
            [](void *data, const void **bytes, size_t *size) {
              auto *source = static_cast<Source *>(data);
              ++source->completions;
              *bytes = source->file.data();
              *size = source->file.size();
              return FUSE_OK;
            },
            [](void *data) { static_cast<Source *>(data)->destroyed = true; },
            this};
  }
  fuse_status compile(size_t number, const char **text, size_t *length) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      compiled.insert(number);
    }
    while (waits)
      std::this_thread::yield();
    if (fails)
      return fuse_set_last_error(FUSE_ERROR_PASS, "kernel 1 has no code");
    static constexpr std::string_view ptx = ".version 8.0\n";
    *text = ptx.data();
    *length = ptx.size();
    return FUSE_OK;
  }
  std::multiset<size_t> getCompiled() {
    std::lock_guard<std::mutex> lock(mutex);
    return compiled;
  }

  std::mutex mutex;
  std::multiset<size_t> compiled;
  std::atomic<bool> fails = false, waits = false;
  std::string file = makeArtifact(kManifest);
  int completions = 0;
  bool destroyed = false;
};

struct DeferredSession : CudaSession {
  explicit DeferredSession(Source &source) {
    int size[] = {4};
    for (const char *name : {"eight", "sixtyfour"})
      getFake().declare(name, 1, size);
    std::string bytes = makeArtifact(makeManifest().dump());
    fuse_code_source given = source.get();
    artifact = cxx::Artifact(cxx::Artifact::create([&](fuse_artifact **made) {
      return fuse_artifact_from_source(bytes.data(), bytes.size(), &given,
                                       made);
    }));
    open();
    program = std::make_unique<cxx::Program>(artifact, device);
    instance = std::make_unique<cxx::Instance>(*program, nullptr);
    for (int i : {1, 2})
      instance->bind(i, getView(i, kDLCPU));
  }
  std::string launchWith(int64_t tokens) {
    shapes[0][0] = shapes[3][0] = tokens;
    DLTensor input = getView(0, kDLCUDA);
    if (!workspace.get())
      workspace = instance->createWorkspace({&input});
    getFake().reset();
    launch();
    return getFake().getLaunch(0)->kernel;
  }
};

using Numbers = std::multiset<size_t>;

} // namespace

TEST(DeferredCodeTest, CompilesWhatAnInstanceNeeds) {
  Source source;
  DeferredSession session(source);
  EXPECT_EQ(source.getCompiled(), Numbers());
  session.instance->limitTokens(8);
  session.instance->prepare();
  EXPECT_EQ(source.getCompiled(), Numbers({0}));
  EXPECT_EQ(session.launchWith(8), "eight");
  auto [status, message] = getStatus([&] { session.launchWith(9); });
  EXPECT_EQ(status, FUSE_ERROR_STATE);
  EXPECT_EQ(message, "the instance of f is limited to 8 tokens, got 9");
  session.instance->limitTokens(64);
  EXPECT_EQ(session.launchWith(9), "sixtyfour");

  // The program now has the code, also for other instances.
  cxx::Instance other(*session.program, nullptr);
  for (int i : {1, 2})
    other.bind(i, session.getView(i, kDLCPU));
  other.prepare();
  EXPECT_EQ(source.getCompiled(), Numbers({0, 1}));
}

TEST(DeferredCodeTest, CompilesAllThatIsNotLimited) {
  Source source;
  DeferredSession session(source);
  session.instance->prepare();
  EXPECT_EQ(source.getCompiled(), Numbers({0, 1}));
  EXPECT_EQ(session.launchWith(3), "eight");
  EXPECT_EQ(session.launchWith(64), "sixtyfour");
}

// A launch never waits for the compiler.
TEST(DeferredCodeTest, LaunchesWhileItCompiles) {
  Source source;
  DeferredSession session(source);
  session.instance->limitTokens(8);
  session.instance->prepare();
  source.waits = true;
  std::thread loader([&] { session.instance->limitTokens(64); });
  while (source.getCompiled() != Numbers({0, 1}))
    std::this_thread::yield();
  EXPECT_EQ(session.launchWith(8), "eight");
  EXPECT_EQ(getStatus([&] { session.launchWith(9); }).first, FUSE_ERROR_STATE);
  source.waits = false;
  loader.join();
  EXPECT_EQ(session.launchWith(9), "sixtyfour");
}

// The compiler may run in a thread that the caller does not know.
TEST(DeferredCodeTest, HandsOutErrorsAndTriesAgain) {
  Source source;
  DeferredSession session(source);
  session.instance->limitTokens(8);
  session.instance->prepare();
  source.fails = true;
  auto [status, message] =
      getStatus([&] { session.instance->limitTokens(64); });
  EXPECT_EQ(status, FUSE_ERROR_PASS);
  EXPECT_EQ(message, "kernel 1 has no code");
  EXPECT_EQ(session.launchWith(8), "eight");
  EXPECT_EQ(getStatus([&] { session.launchWith(9); }).first, FUSE_ERROR_STATE);
  source.fails = false;
  session.instance->limitTokens(64);
  EXPECT_EQ(session.launchWith(9), "sixtyfour");
}

TEST(DeferredCodeTest, IsWholeInAFile) {
  Source source;
  {
    DeferredSession session(source);
    size_t size = 0;
    const void *bytes = fuse_artifact_bytes(session.artifact.get(), &size);
    EXPECT_EQ(std::string(static_cast<const char *>(bytes), size), source.file);
    EXPECT_EQ(fuse_artifact_num_sections(session.artifact.get()), 3u);
    EXPECT_EQ(source.completions, 1);
    // Objects made from an artifact keep its source alive.
    session.artifact = cxx::Artifact();
    EXPECT_FALSE(source.destroyed);
    session.instance->prepare();
  }
  EXPECT_TRUE(source.destroyed);
}

// A file without code is malformed. The caller keeps a source that is refused.
TEST(DeferredCodeTest, RefusesHolesWithoutASource) {
  std::string bytes = makeArtifact(makeManifest().dump());
  fuse_artifact *artifact = nullptr;
  EXPECT_EQ(fuse_artifact_from_bytes(bytes.data(), bytes.size(), &artifact),
            FUSE_ERROR_FORMAT);
  EXPECT_STREQ(fuse_last_error(),
               "the manifest is malformed: it.functions0.cuda.modules0 has "
               "neither 'ptx' nor 'cubin'");
  Source source;
  fuse_code_source given = source.get();
  EXPECT_EQ(fuse_artifact_from_source(bytes.data(), bytes.size() - 1, &given,
                                      &artifact),
            FUSE_ERROR_FORMAT);
  EXPECT_FALSE(source.destroyed);
  given.compile = nullptr;
  EXPECT_EQ(
      fuse_artifact_from_source(bytes.data(), bytes.size(), &given, &artifact),
      FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(fuse_last_error(), "one of these is null: compile, complete");
}

TEST(ConcurrencyTest, RunsEachTaskOnceAndThrowsTheFirstFailure) {
  std::atomic<int> runs[20] = {};
  runtime::runConcurrently(20, [&](size_t i) { ++runs[i]; });
  for (const std::atomic<int> &count : runs)
    EXPECT_EQ(count, 1);
  runtime::runConcurrently(0, [&](size_t) { ADD_FAILURE(); });
  auto fail = [&](size_t i) {
    ++runs[i];
    if (i == 3 || i == 17)
      throw std::runtime_error(std::to_string(i));
  };
  std::string what;
  try {
    runtime::runConcurrently(20, fail);
  } catch (const std::runtime_error &error) {
    what = error.what();
  }
  EXPECT_EQ(what, "3");
  // The other tasks have run all the same.
  for (const std::atomic<int> &count : runs)
    EXPECT_EQ(count, 2);
}
