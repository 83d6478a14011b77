//===- MatchPath.cpp - Fuzz path globs ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Input: a glob, a line feed and a path. Matching any valid glob must be fast.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/PathGlob.h"

#include <cstdint>

using namespace fuse;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto [pattern, path] = text.split('\n');
  llvm::Expected<PathGlob> glob = PathGlob::create(pattern);
  if (!glob) {
    llvm::consumeError(glob.takeError());
    return 0;
  }
  llvm::SmallVector<llvm::StringRef> names = splitPath(path);
  (void)glob->match(names);
  (void)glob->matchParent(names);
  (void)glob->matchChild(names.empty() ? path : names.back());
  return 0;
}
