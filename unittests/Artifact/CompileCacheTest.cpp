//===- CompileCacheTest.cpp - Tests of compiling through a cache ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TemporaryDirectory.h"
#include "fuse-c/Compiler.hpp"
#include "fuse/Runtime/Core/Cache.h"
#include "gtest/gtest.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <unistd.h>

using namespace fuse;
namespace fs = std::filesystem;

namespace {

class CompileCacheTest : public testing::Test {
protected:
  test::TemporaryDirectory root;
  std::string path = root / "cache";
  cxx::Cache cache{path};
};

/// A module with its own context, since each thread needs one.
struct Source {
  explicit Source(int factor)
      : module(context,
               "func.func @scale(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {\n"
               "  %c = arith.constant dense<" +
                   std::to_string(factor) +
                   ".0> : tensor<1x4xf32>\n"
                   "  %0 = fuse.gated_mul %x, %c : (tensor<1x4xf32>, "
                   "tensor<1x4xf32>) -> tensor<1x4xf32>\n"
                   "  return %0 : tensor<1x4xf32>\n"
                   "}\n") {}

  cxx::Artifact compile(const cxx::Cache &cache, fuse_cache_result &result,
                        const cxx::CompileOptions &options = {}) const {
    return module.compile(options, cache, &result);
  }

  cxx::Context context;
  cxx::Module module;
};

/// Runs a function that multiplies by a factor.
float run(const cxx::Artifact &artifact) {
  cxx::Device device = cxx::Device::cpu();
  cxx::Program program(artifact, device);
  cxx::Instance instance(program, "scale");
  instance.prepare();
  float x[4] = {1, 1, 1, 1}, y[4] = {};
  int64_t shape[] = {1, 4};
  DLTensor in = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  DLTensor out = in;
  out.data = y;
  instance.launch({&in}, {&out});
  return y[0];
}

} // namespace

TEST_F(CompileCacheTest, CompilesOnceAndFindsItLater) {
  fuse_cache_result result;
  EXPECT_EQ(run(Source(3).compile(cache, result)), 3.0f);
  EXPECT_EQ(result, FUSE_CACHE_COMPILED);
  EXPECT_EQ(run(Source(3).compile(cxx::Cache(path), result)), 3.0f);
  EXPECT_EQ(result, FUSE_CACHE_FOUND);
  EXPECT_EQ(run(Source(4).compile(cache, result)), 4.0f);
  EXPECT_EQ(result, FUSE_CACHE_COMPILED);
}

TEST_F(CompileCacheTest, TellsOptionsApart) {
  Source source(3);
  using Change = std::function<void(cxx::CompileOptions &)>;
  std::vector<Change> changes = {
      [](fuse_compile_options &) {},
      [](fuse_compile_options &o) { o.cpu = "x86-64-v2"; },
      [](fuse_compile_options &o) { o.cpu = "x86-64"; },
      [](fuse_compile_options &o) { o.chip = "sm_80"; },
      [](fuse_compile_options &o) { o.chip = "sm_90a"; },
      [](fuse_compile_options &o) { o.tokens = 8; },
      [](fuse_compile_options &o) { o.multiprocessors = 100; },
      [](fuse_compile_options &o) { o.portable = 1; },
      [](fuse_compile_options &o) { o.link = 1; },
      [](fuse_compile_options &o) { o.schedules = "none"; }};
#if !defined(__x86_64__)
  changes.erase(changes.begin() + 1, changes.begin() + 3);
#endif
  for (fuse_cache_result expected : {FUSE_CACHE_COMPILED, FUSE_CACHE_FOUND})
    for (const auto &change : changes) {
      cxx::CompileOptions options;
      change(options);
      fuse_cache_result result;
      source.compile(cache, result, options);
      EXPECT_EQ(result, expected);
    }
}

TEST_F(CompileCacheTest, CompilesAgainWhatIsDamaged) {
  fuse_cache_result result;
  Source source(5);
  source.compile(cache, result);
  fs::path entry;
  for (const auto &file : fs::directory_iterator(path))
    entry = file.path();
  auto size = fs::file_size(entry);
  // Damage some bytes; the tests of the cache itself flip every byte.
  for (uintmax_t place = 0; place < size; place += size / 20) {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(place);
    char byte = static_cast<char>(file.get());
    file.seekp(place);
    file.put(static_cast<char>(byte ^ 0x10));
    file.close();
    EXPECT_EQ(run(source.compile(cache, result)), 5.0f);
    EXPECT_EQ(result, FUSE_CACHE_COMPILED) << place;
    source.compile(cache, result);
    EXPECT_EQ(result, FUSE_CACHE_FOUND);
  }
}

// 16 threads compile equal and different modules, each of them once.
TEST_F(CompileCacheTest, CompilesOncePerKeyInManyThreads) {
  constexpr int threads = 16, rounds = 6;
  std::atomic<int> compiled{0}, wrong{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i)
    workers.emplace_back([&, i] {
      for (int round = 0; round < rounds; ++round) {
        // Half of the threads request the same module, the others different
        // ones.
        int factor = i % 2 == 0 ? 100 + round : 1000 + 100 * round + i;
        fuse_cache_result result;
        try {
          cxx::Artifact artifact = Source(factor).compile(cache, result);
          wrong += run(artifact) != float(factor);
          compiled += result == FUSE_CACHE_COMPILED;
        } catch (const cxx::Error &) {
          ++wrong;
        }
      }
    });
  for (std::thread &worker : workers)
    worker.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(compiled, rounds + rounds * threads / 2);
}

TEST_F(CompileCacheTest, HandsOutErrors) {
  Source source(1);
  cxx::CompileOptions options;
  options.chip = "sm_1";
  fuse_cache_result result;
  try {
    source.compile(cache, result, options);
    FAIL() << "compiled for an unknown chip";
  } catch (const cxx::Error &error) {
    EXPECT_EQ(error.getStatus(), FUSE_ERROR_PASS);
    EXPECT_NE(std::string(error.what()).find("unknown chip 'sm_1'"),
              std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(path));
}

// The base directory specification requires relative paths to be ignored.
TEST_F(CompileCacheTest, TakesAbsoluteDefaultsOnly) {
  const char *found = std::getenv("HOME");
  std::string home = found ? found : "/";
  ::unsetenv("FUSE_CACHE_DIR");
  ::setenv("HOME", root.get().c_str(), /*overwrite=*/1);
  for (const char *ignored : {"", "relative", "./here"}) {
    ::setenv("XDG_CACHE_HOME", ignored, /*overwrite=*/1);
    cxx::Cache opened;
    EXPECT_TRUE(fs::remove(root / ".cache/fuse")) << ignored;
  }
  ::setenv("XDG_CACHE_HOME", (root / "other").c_str(), /*overwrite=*/1);
  cxx::Cache opened;
  EXPECT_TRUE(fs::remove(root / "other/fuse"));
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  try {
    cxx::Cache nowhere;
    FAIL() << "there is no directory";
  } catch (const cxx::Error &error) {
    EXPECT_STREQ(error.what(),
                 "there is no directory for the cache: none is given, and "
                 "FUSE_CACHE_DIR, XDG_CACHE_HOME and HOME are not set");
  }
  ::setenv("HOME", home.c_str(), /*overwrite=*/1);
}
