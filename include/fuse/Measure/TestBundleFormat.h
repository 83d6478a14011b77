//===- TestBundleFormat.h - Names in test bundles ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   {"format": "fuse-test-bundle", "version": 2, "cases": [
//     {"name", "path": "portable" or "scheduled", "function",
//      "artifact": section, "arguments": [...],
//      "results": [{"expected": section, "contract": section, "energy",
//                   "element"}]}]}
//
// A result holds when its contract allows every value. Its distance from the
// expected result decides nothing and is reported as a ratio to two bounds:
// `energy` of |x - y|^2 / (|x|^2 + |y|^2), and `element` of the largest
// |x - y| / (rms(y) + max(|x|, |y|)).
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_TESTBUNDLE_H
#define FUSE_MEASURE_TESTBUNDLE_H

namespace fuse::measure {

constexpr const char *kBundleFormat = "fuse-test-bundle";
constexpr int kBundleVersion = 2;

} // namespace fuse::measure

#endif // FUSE_MEASURE_TESTBUNDLE_H
