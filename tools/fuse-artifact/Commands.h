//===- Commands.h - The commands of fuse-artifact ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_ARTIFACT_COMMANDS_H
#define FUSE_TOOLS_FUSE_ARTIFACT_COMMANDS_H

/// Prints the contents of an artifact. `argv[0]` is the name of the command.
/// Returns the exit status of the process.
int runInfo(int argc, char **argv);

/// Counts, verifies or removes entries of a cache directory. `argv[0]` is the
/// name of the command. Returns the exit status of the process.
int runCache(int argc, char **argv);

#endif // FUSE_TOOLS_FUSE_ARTIFACT_COMMANDS_H
