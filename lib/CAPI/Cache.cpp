//===- Cache.cpp - C interface to the cache -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileWith.h"
#include "Context.h"
#include "fuse/Compiler/CompileCache.h"
#include "fuse/Runtime/Host/Failure.h"

#include <cstdlib>

using namespace mlir;
using namespace fuse;

struct fuse_cache {
  explicit fuse_cache(const std::string &path) : cache(path) {}
  host::Cache cache;
};

/// As `guard`, also for what the host library throws.
template <typename Body>
static fuse_status guardHost(Body body) {
  return guard([&] {
    try {
      return body();
    } catch (const host::Failure &failure) {
      return fail(failure.getStatus(), failure.getMessage());
    }
  });
}

/// Where the cache is when nobody says.
static std::string getDefaultDirectory() {
  if (const char *directory = std::getenv("FUSE_CACHE_DIR"))
    return directory;
  // One that is no absolute path is to be ignored, as if it were not set.
  if (const char *directory = std::getenv("XDG_CACHE_HOME");
      directory && *directory == '/')
    return std::string(directory) + "/fuse";
  const char *home = std::getenv("HOME");
  return home ? std::string(home) + "/.cache/fuse" : "";
}

fuse_status fuse_cache_open(const char *directory, fuse_cache **cache) {
  if (!cache)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'cache' is null");
  return guardHost([&] {
    *cache = new fuse_cache(directory ? directory : getDefaultDirectory());
    return FUSE_OK;
  });
}

void fuse_cache_destroy(fuse_cache *cache) { delete cache; }

fuse_status fuse_module_compile_cached(const fuse_module *module,
                                       const fuse_compile_options *options,
                                       fuse_cache *cache,
                                       fuse_artifact **artifact,
                                       fuse_cache_result *result) {
  if (!module || !cache || !artifact)
    return fail(FUSE_ERROR_INVALID_ARGUMENT,
                "'module', 'cache' or 'artifact' is null");
  return guardHost([&] {
    CacheResult how;
    auto compile = [&](const CompileOptions &chosen) {
      auto bytes = compileCached(cache->cache, *module->module, chosen, how);
      if (result)
        *result = static_cast<fuse_cache_result>(how);
      return bytes;
    };
    return compileWith(*module, options, compile, artifact);
  });
}
