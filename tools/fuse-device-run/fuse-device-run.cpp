//===- fuse-device-run.cpp - Run and time kernels on a bare machine -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "fuse/Measure/Options.h"

static constexpr fuse::measure::Command kCommands[] = {
    {"test", "run the cases of test bundles and compare results", runTest},
    {"tune", "time the candidates that fuse-tune wrote", runTune},
};

int main(int argc, char **argv) {
  return fuse::measure::runCommand(argc, argv, "fuse-device-run", kCommands);
}
