//===- Cache.cpp - fuse-artifact cache: maintain a cache directory --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Cache.h"
#include "Commands.h"
#include "fuse/Runtime/Core/Failure.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include <unistd.h>

using namespace fuse::runtime;

static constexpr const char *kUsage =
    "usage: fuse-artifact cache stat|verify|clear <directory>\n"
    "       fuse-artifact cache gc <directory> <bytes>\n"
    "\n"
    "  stat    count entries and their bytes\n"
    "  verify  read every entry and put damaged ones aside; exits with 1 if\n"
    "          there were any\n"
    "  gc      remove what was put aside, and the entries not used for "
    "longest\n"
    "          until at most <bytes> are left\n"
    "  clear   remove all entries\n";

static int run(const std::string &command, const Cache &cache,
               const char *limit) {
  if (command == "stat") {
    Cache::Stats stats = cache.getStats();
    std::cout << stats.entries << " entries, " << stats.bytes << " bytes; "
              << stats.otherFiles << " other files, " << stats.otherBytes
              << " bytes\n";
    return 0;
  }
  if (command == "verify") {
    uint64_t damaged = cache.verify();
    std::cout << damaged << " damaged entries\n";
    return damaged > 0 ? 1 : 0;
  }
  if (command == "clear") {
    std::cout << cache.clear() << " files removed\n";
    return 0;
  }
  char *end = nullptr;
  uint64_t bytes = std::strtoull(limit, &end, 10);
  if (*limit < '0' || *limit > '9' || *end != '\0')
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "gc: expected a number of bytes, got '" + std::string(limit) +
                      "'");
  std::cout << cache.collect(bytes) << " files removed\n";
  return 0;
}

int runCache(int argc, char **argv) {
  std::string command = argc > 1 ? argv[1] : "";
  if (command == "--help") {
    std::cout << kUsage;
    return 0;
  }
  bool known = command == "stat" || command == "verify" || command == "gc" ||
               command == "clear";
  if (!known || argc != (command == "gc" ? 4 : 3)) {
    std::cerr << kUsage;
    return 2;
  }
  try {
    // Opening a cache would create it, which these commands should not do.
    if (::access(argv[2], F_OK) != 0)
      throw Failure(FUSE_ERROR_IO,
                    std::string(argv[2]) + ": " + std::strerror(errno));
    int status = run(command, Cache(argv[2]), argc > 3 ? argv[3] : nullptr);
    std::cout.flush();
    if (!std::cout)
      throw Failure(FUSE_ERROR_IO, "the output cannot be written");
    return status;
  } catch (const Failure &failure) {
    std::cerr << "fuse-artifact: error: " << failure.getMessage() << "\n";
    return 1;
  }
}
