//===- Inject.h - Wrong on purpose, to test the tests -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A test that can not fail shows nothing. Builds with FUSE_INJECT_BUGS hold
// wrong transformations, of which the environment variable FUSE_INJECT_BUG
// switches one on, and scripts/inject.py shows that the tests notice each.
// Other builds contain nothing of them.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_INJECT_H
#define FUSE_SUPPORT_INJECT_H

#include "fuse/Support/InjectConfig.h"

#include <cstdlib>
#include <string_view>

namespace fuse {

#if FUSE_INJECT_BUGS
/// Whether to do what is wrong in the way called `name`.
inline bool isInjected(std::string_view name) {
  static const char *const chosen = std::getenv("FUSE_INJECT_BUG");
  return chosen && name == chosen;
}
#else
constexpr bool isInjected(std::string_view) { return false; }
#endif

} // namespace fuse

#endif // FUSE_SUPPORT_INJECT_H
