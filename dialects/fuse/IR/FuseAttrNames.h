//===- FuseAttrNames.h - Attributes of functions and calls ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Discardable attributes that several passes, or passes and tools, know of.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEATTRNAMES_H
#define FUSE_IR_FUSEATTRNAMES_H

#include "llvm/ADT/StringRef.h"

namespace fuse {

/// Of an argument: the parameter of the model that it stands for, as in
/// `fuse.parameter = "mlp.gate_proj.weight"`.
inline constexpr llvm::StringLiteral kParameterAttrName = "fuse.parameter";
/// Of an argument of a forward: its name in the source.
inline constexpr llvm::StringLiteral kNameAttrName = "fuse.name";
/// Of an argument that is a buffer: a result is written there.
inline constexpr llvm::StringLiteral kResultAttrName = "fuse.result";
/// Of a function: all that is in it becomes one `fuse.group`.
inline constexpr llvm::StringLiteral kGroupAttrName = "fuse.group";
/// Of a function: the launches that it consists of, with their sizes.
inline constexpr llvm::StringLiteral kLaunchPlanAttrName = "fuse.launch_plan";
/// Of a launch: the number of the scheduled op that it stands for in a plan
/// that has portable kernels, too.
inline constexpr llvm::StringLiteral kTilePlanAttrName = "fuse.tile_plan";
/// Of a `gpu.binary`: its code comes from a file and stays apart from what is
/// generated.
inline constexpr llvm::StringLiteral kExternalAttrName = "fuse.external";
/// Of a declared function: the shared library that has it.
inline constexpr llvm::StringLiteral kLibraryAttrName = "fuse.library";

} // namespace fuse

#endif // FUSE_IR_FUSEATTRNAMES_H
