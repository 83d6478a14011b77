//===- FuseAttrNames.h - Attributes of functions and calls ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names of discardable attributes that several passes or tools use.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEATTRNAMES_H
#define FUSE_IR_FUSEATTRNAMES_H

#include "llvm/ADT/StringRef.h"

namespace fuse {

/// Of an argument: the parameter of the model that it represents, such as
/// `fuse.parameter = "mlp.gate_proj.weight"`.
inline constexpr llvm::StringLiteral kParameterAttrName = "fuse.parameter";
/// Of an argument of a forward: its name in the source.
inline constexpr llvm::StringLiteral kNameAttrName = "fuse.name";
/// Of an argument that is a buffer: the function writes a result to it.
inline constexpr llvm::StringLiteral kResultAttrName = "fuse.result";
/// Of a function: all of its ops become one `fuse.group`.
inline constexpr llvm::StringLiteral kGroupAttrName = "fuse.group";
/// Of a function: the launches that it consists of, with their sizes.
inline constexpr llvm::StringLiteral kLaunchPlanAttrName = "fuse.launch_plan";
/// Of a launch in a plan with portable kernels: the number of the scheduled op
/// that it represents.
inline constexpr llvm::StringLiteral kTilePlanAttrName = "fuse.tile_plan";
/// Of a `gpu.binary`: its code comes from a file and is not merged with
/// generated code.
inline constexpr llvm::StringLiteral kExternalAttrName = "fuse.external";
/// Of a declared function: the shared library that defines it.
inline constexpr llvm::StringLiteral kLibraryAttrName = "fuse.library";

} // namespace fuse

#endif // FUSE_IR_FUSEATTRNAMES_H
