//===- Cache.cpp - C interface to the cache -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileWith.h"
#include "Context.h"
#include "fuse/Artifact/CompileCache.h"
#include "fuse/Runtime/Core/Failure.h"

#include <cstdlib>

using namespace mlir;
using namespace fuse;

struct fuse_cache {
  explicit fuse_cache(const std::string &path) : cache(path) {}
  runtime::Cache cache;
};

/// Like `guard`, but also handles exceptions of the runtime library.
template <typename Body>
static fuse_status guardCallback(Body body) {
  return guard([&] {
    try {
      return body();
    } catch (const runtime::Failure &failure) {
      return fail(failure.getStatus(), failure.getMessage());
    }
  });
}

/// Default directory of the cache.
static std::string getDefaultDirectory() {
  auto get = [](const char *name) -> std::string {
    const char *value = std::getenv(name);
    return value ? value : "";
  };
  if (std::string directory = get("FUSE_CACHE_DIR"); !directory.empty())
    return directory;
  // The XDG specification requires relative paths to be ignored.
  if (std::string base = get("XDG_CACHE_HOME"); base.rfind('/', 0) == 0)
    return base + "/fuse";
  if (std::string home = get("HOME"); !home.empty())
    return home + "/.cache/fuse";
  throw runtime::Failure(
      FUSE_ERROR_IO, "there is no directory for the cache: none is given, and "
                     "FUSE_CACHE_DIR, XDG_CACHE_HOME and HOME are not set");
}

fuse_status fuse_cache_open(const char *directory, fuse_cache **cache) {
  if (!cache)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'cache' is null");
  return guardCallback([&] {
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
  return guardCallback([&] {
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
