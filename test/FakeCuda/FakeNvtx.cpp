//===- FakeNvtx.cpp - A fake of the library of profiler ranges ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared object called libnvToolsExt.so.1 that records ranges as text. Each
// range is its name and, at its end, a closing bracket.
//
//===----------------------------------------------------------------------===//

#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

static std::string &getText() {
  static thread_local std::string text;
  return text;
}

EXPORT int nvtxRangePushA(const char *name) {
  getText() += std::string("[") + name;
  return 0;
}

EXPORT int nvtxRangePop() {
  getText() += "]";
  return 0;
}

/// The ranges of this thread since the last call.
EXPORT const char *takeFakeRanges() {
  static thread_local std::string taken;
  taken = std::move(getText());
  getText().clear();
  return taken.c_str();
}
