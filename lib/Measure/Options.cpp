//===- Options.cpp - Options of tools without LLVM ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Measure/Options.h"
#include "fuse/Runtime/Core/Failure.h"

#include <charconv>
#include <cstdio>

using namespace fuse;
using namespace fuse::runtime;

bool measure::readNumber(std::string_view text, const std::string &name,
                         uint64_t least, uint64_t most, uint64_t &number) {
  if (text.substr(0, name.size() + 1) != name + "=")
    return false;
  std::string_view digits = text.substr(name.size() + 1);
  const char *end = digits.data() + digits.size();
  uint64_t value = 0;
  auto [last, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || last != end || value < least || value > most)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  name + ": expected a number from " + std::to_string(least) +
                      " to " + std::to_string(most) + ", got '" +
                      std::string(digits) + "'");
  number = value;
  return true;
}

/// Flushes stdout. Returns 1 after a message if output was lost, otherwise 0.
static int finishOutput(const char *tool) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return 0;
  std::fprintf(stderr, "%s: error: the output cannot be written\n", tool);
  return 1;
}

int measure::runMain(int argc, char **argv, const char *tool, const char *usage,
                     const std::function<int()> &run) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--help") {
      std::fputs(usage, stdout);
      return finishOutput(tool);
    }
  try {
    int status = run();
    return status ? status : finishOutput(tool);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: error: %s\n", tool, error.what());
    return 1;
  }
}

static void printCommands(std::FILE *out, const char *tool,
                          const measure::Command *commands, size_t count) {
  std::fprintf(out, "usage: %s <command> [options]\n\n", tool);
  for (size_t i = 0; i < count; ++i)
    std::fprintf(out, "  %-6s %s\n", commands[i].name, commands[i].summary);
  std::fprintf(out, "\n%s <command> --help prints the options.\n", tool);
}

int measure::runCommand(int argc, char **argv, const char *tool,
                        const measure::Command *commands, size_t count) {
  std::string_view name = argc > 1 ? argv[1] : "";
  for (size_t i = 0; i < count; ++i)
    if (name == commands[i].name)
      return commands[i].run(argc - 1, argv + 1);
  if (name == "--help" || name == "-h") {
    printCommands(stdout, tool, commands, count);
    return finishOutput(tool);
  }
  if (!name.empty())
    std::fprintf(stderr, "%s: error: unknown command '%s'\n", tool, argv[1]);
  printCommands(stderr, tool, commands, count);
  return 2;
}
