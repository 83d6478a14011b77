//===- Commands.h - The commands of fuse-device-run -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_DEVICE_RUN_COMMANDS_H
#define FUSE_TOOLS_FUSE_DEVICE_RUN_COMMANDS_H

/// Runs the cases of test bundles on a device and compares their results.
/// `argv[0]` is the name of the command. Returns the exit status of the
/// process.
int runTest(int argc, char **argv);

/// Times the candidates of a tuning bundle. `argv[0]` is the name of the
/// command. Returns the exit status of the process.
int runTune(int argc, char **argv);

#endif // FUSE_TOOLS_FUSE_DEVICE_RUN_COMMANDS_H
