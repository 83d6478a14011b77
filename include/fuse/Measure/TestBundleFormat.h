//===- TestBundle.h - Names in files of cases to check ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   {"format": "fuse-test-bundle", "version": 1, "cases": [
//     {"name", "path": "portable" or "scheduled", "function",
//      "artifact": section, "arguments": [...],
//      "results": [{"expected": section, "energy", "element"}]}]}
//
// A result holds when it has NaN and infinities where what is expected has
// them, and neither of these is exceeded: `energy`, |x - y|^2 / (|x|^2 +
// |y|^2); `element`, the largest |x - y| / (rms(y) + max(|x|, |y|)).
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_TESTBUNDLE_H
#define FUSE_MEASURE_TESTBUNDLE_H

namespace fuse::measure {

constexpr const char *kBundleFormat = "fuse-test-bundle";
constexpr int kBundleVersion = 2;

} // namespace fuse::measure

#endif // FUSE_MEASURE_TESTBUNDLE_H
