//===- fuse-artifact.cpp - Inspect artifacts and their caches -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "fuse/Measure/Options.h"

static constexpr fuse::measure::Command kCommands[] = {
    {"info", "check an artifact and print its contents", runInfo},
    {"cache", "count, verify or remove the entries of a cache", runCache},
};

int main(int argc, char **argv) {
  return fuse::measure::runCommand(argc, argv, "fuse-artifact", kCommands);
}
