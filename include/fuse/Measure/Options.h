//===- Options.h - Options of tools without LLVM ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_OPTIONS_H
#define FUSE_MEASURE_OPTIONS_H

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace fuse::trial {

/// The number behind `name=`, or false where `text` is another option. Throws
/// `Failure` unless it is from `least` to `most`.
bool readNumber(std::string_view text, const std::string &name, uint64_t least,
                uint64_t most, uint64_t &number);

/// The exit status of a tool: that of `run`, or 1 after the message of what it
/// throws. With --help among the arguments it prints `usage` instead.
int runMain(int argc, char **argv, const char *tool, const char *usage,
            const std::function<int()> &run);

} // namespace fuse::trial

#endif // FUSE_MEASURE_OPTIONS_H
