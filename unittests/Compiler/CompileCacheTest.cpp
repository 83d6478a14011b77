//===- CompileCacheTest.cpp - Tests of compiling through a cache ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Compiler.h"
#include "fuse-c/Fuse.hpp"
#include "fuse/Runtime/Host/Cache.h"
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

using Context = cxx::Handle<fuse_context, fuse_context_destroy>;
using Module = cxx::Handle<fuse_module, fuse_module_destroy>;
using CacheHandle = cxx::Handle<fuse_cache, fuse_cache_destroy>;

class CompileCacheTest : public testing::Test {
protected:
  void SetUp() override {
    path = fs::temp_directory_path() /
           ("fuse-compile-cache-test." + std::to_string(::getpid()));
    fs::remove_all(path);
    cache = openCache();
  }
  void TearDown() override { fs::remove_all(path); }

  CacheHandle openCache() {
    return CacheHandle(CacheHandle::create([&](fuse_cache **made) {
      return fuse_cache_open(path.c_str(), made);
    }));
  }

  fs::path path;
  CacheHandle cache;
};

/// A module and a context of its own, as each thread needs it.
struct Source {
  explicit Source(int factor)
      : context(Context::create(fuse_context_create)),
        module(Module::create([&](fuse_module **made) {
          std::string text =
              "func.func @scale(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {\n"
              "  %c = arith.constant dense<" +
              std::to_string(factor) +
              ".0> : tensor<1x4xf32>\n"
              "  %0 = fuse.gated_mul %x, %c\n"
              "    : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>\n"
              "  return %0 : tensor<1x4xf32>\n"
              "}\n";
          return fuse_module_parse(context.get(), text.data(), text.size(),
                                   made);
        })) {}

  cxx::Artifact compile(const CacheHandle &cache, fuse_cache_result &result,
                        const fuse_compile_options *options = nullptr) const {
    return cxx::Artifact(cxx::Artifact::create([&](fuse_artifact **made) {
      return fuse_module_compile_cached(module.get(), options, cache.get(),
                                        made, &result);
    }));
  }

  Context context;
  Module module;
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
  EXPECT_EQ(run(Source(3).compile(openCache(), result)), 3.0f);
  EXPECT_EQ(result, FUSE_CACHE_FOUND);
  EXPECT_EQ(run(Source(4).compile(cache, result)), 4.0f);
  EXPECT_EQ(result, FUSE_CACHE_COMPILED);
}

TEST_F(CompileCacheTest, TellsOptionsApart) {
  Source source(3);
  std::vector<std::function<void(fuse_compile_options &)>> changes = {
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
      fuse_compile_options options;
      fuse_compile_options_init(&options);
      change(options);
      fuse_cache_result result;
      source.compile(cache, result, &options);
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
  // Some places of the file; tests of the cache itself flip every byte.
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

// 16 threads, same and different modules: one compilation each.
TEST_F(CompileCacheTest, CompilesOncePerKeyInManyThreads) {
  constexpr int threads = 16, rounds = 6;
  std::atomic<int> compiled{0}, wrong{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i)
    workers.emplace_back([&, i] {
      for (int round = 0; round < rounds; ++round) {
        // Half of the threads ask for the same, the others for their own.
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
  fuse_compile_options options;
  fuse_compile_options_init(&options);
  options.chip = "sm_1";
  fuse_artifact *artifact = nullptr;
  EXPECT_EQ(fuse_module_compile_cached(source.module.get(), &options,
                                       cache.get(), &artifact, nullptr),
            FUSE_ERROR_PASS);
  EXPECT_NE(std::string(fuse_last_error()).find("unknown chip 'sm_1'"),
            std::string::npos);
  EXPECT_TRUE(fs::is_empty(path));
}
