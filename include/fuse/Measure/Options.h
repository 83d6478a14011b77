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

/// Parses the number after `name=`. Returns false if `text` is another option.
/// Throws `Failure` unless the number is from `least` to `most`.
bool readNumber(std::string_view text, const std::string &name, uint64_t least,
                uint64_t most, uint64_t &number);

/// Exit status of a tool: the result of `run`, or 1 after printing the message
/// of an exception. If --help is among the arguments, prints `usage` instead.
int runMain(int argc, char **argv, const char *tool, const char *usage,
            const std::function<int()> &run);

/// A command of a program, such as `info` of `fuse-artifact info`.
struct Command {
  const char *name;
  /// Summary for `--help`.
  const char *summary;
  /// Called with the arguments that begin with the command's name.
  int (*run)(int argc, char **argv);
};

/// Runs the command that the first argument names. If it is missing or unknown,
/// prints the commands and returns 2.
int runCommand(int argc, char **argv, const char *tool, const Command *commands,
               size_t count);

template <size_t N>
int runCommand(int argc, char **argv, const char *tool,
               const Command (&commands)[N]) {
  return runCommand(argc, argv, tool, commands, N);
}

} // namespace fuse::measure

#endif // FUSE_MEASURE_OPTIONS_H
