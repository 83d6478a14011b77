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

/// Argument attribute: the parameter of the model that the argument represents,
/// as its name in checkpoints (`fuse.parameter = "mlp.gate_proj.weight"`). In
/// the body of a site, next to the model, it is a symbol of the model
/// (`fuse.parameter = @m::@mlp::@gate_proj::@weight`), so that it follows when
/// a module is renamed.
inline constexpr llvm::StringLiteral kParameterAttrName = "fuse.parameter";
/// Attribute of an argument or result: how ranks share it, a `#fuse.shard`.
inline constexpr llvm::StringLiteral kShardAttrName = "fuse.shard";
/// Function attribute: types are those of one rank; the number of ranks.
inline constexpr llvm::StringLiteral kRanksAttrName = "fuse.ranks";
/// Attribute of an argument of a forward: its name in the source.
inline constexpr llvm::StringLiteral kNameAttrName = "fuse.name";
/// Attribute of a buffer argument: the function writes a result to it.
inline constexpr llvm::StringLiteral kResultAttrName = "fuse.result";
/// Attribute of an argument in f32 that follows from static scales: a
/// dictionary of its `value`, and of the scales whose product it is (`of`) or
/// whose reciprocal it is (`over`).
inline constexpr llvm::StringLiteral kScalarAttrName = "fuse.scalar";
/// Function attribute: static scales are constants in the code.
inline constexpr llvm::StringLiteral kConstantScalesAttrName =
    "fuse.constant_scales";
/// Function attribute: all ops of the function become one `fuse.group`.
inline constexpr llvm::StringLiteral kGroupAttrName = "fuse.group";
/// Function attribute: the launches of the function, with their sizes.
inline constexpr llvm::StringLiteral kLaunchPlanAttrName = "fuse.launch_plan";
/// Function attribute: the kernel for the CPU that replaced its body, with the
/// layout of its weights.
inline constexpr llvm::StringLiteral kCPUPlanAttrName = "fuse.cpu_plan";
/// Result attribute: the names of the linears that read the returned value.
inline constexpr llvm::StringLiteral kObservedAttrName = "fuse.observed";
/// Function attribute: comparisons of sizes of arguments that a caller has to
/// check, each with `message`, `predicate`, `sizes` and `symbols`.
inline constexpr llvm::StringLiteral kChecksAttrName = "fuse.checks";
/// Function attribute: lists of argument numbers and dimensions whose sizes are
/// equal, with results after the arguments.
inline constexpr llvm::StringLiteral kEqualSizesAttrName = "fuse.equal_sizes";
/// Attribute of a `gpu.binary`: its code comes from a file and is not merged
/// with generated code.
inline constexpr llvm::StringLiteral kExternalAttrName = "fuse.external";
/// Attribute of a declared function: the shared library that defines it.
inline constexpr llvm::StringLiteral kLibraryAttrName = "fuse.library";
/// Attribute of an argument of a forward: the default of an optional argument.
inline constexpr llvm::StringLiteral kDefaultAttrName = "fuse.default";
/// Attributes of a model, see `nn.model`.
inline constexpr llvm::StringLiteral kMustFuseAttrName = "fuse.must_fuse";
inline constexpr llvm::StringLiteral kExpectSitesAttrName = "fuse.expect_sites";
inline constexpr llvm::StringLiteral kNoFuseAttrName = "fuse.no_fuse";
/// Attribute of a model: the refusals by site id. `fuse-match-modules` writes
/// it, `fuse-check-contracts` reads it, and unfusing all sites removes it.
inline constexpr llvm::StringLiteral kRefusalsAttrName = "fuse.refusals";

} // namespace fuse

#endif // FUSE_IR_FUSEATTRNAMES_H
