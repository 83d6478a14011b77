//===- Options.h - Options of tools without LLVM ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_OPTIONS_H
#define FUSE_MEASURE_OPTIONS_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace fuse::measure {

/// The number after `name=`, or false where `text` is another option. Throws
/// `Failure` unless it is from `least` to `most`.
bool readNumber(std::string_view text, const std::string &name, uint64_t least,
                uint64_t most, uint64_t &number);

/// The exit status of a tool: that of `run`, or 1 after the message of what it
/// throws. With --help among the arguments it prints `usage` instead.
int runMain(int argc, char **argv, const char *tool, const char *usage,
            const std::function<int()> &run);

/// A command of a program, such as `info` of `fuse-artifact info`.
struct Command {
  const char *name;
  /// What it does, for `--help`.
  const char *summary;
  /// Gets the arguments from the name of the command on.
  int (*run)(int argc, char **argv);
};

/// Runs the command that the first argument names. Without one, or with an
/// unknown one, prints the commands and returns 2.
int runCommand(int argc, char **argv, const char *tool, const Command *commands,
               size_t count);

template <size_t N>
int runCommand(int argc, char **argv, const char *tool,
               const Command (&commands)[N]) {
  return runCommand(argc, argv, tool, commands, N);
}

} // namespace fuse::measure

#endif // FUSE_MEASURE_OPTIONS_H
