//===- ModulePasses.td - Passes on models ------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_MODULEPASSES_TD
#define FUSE_TRANSFORMS_MODULEPASSES_TD

include "mlir/Pass/PassBase.td"

def ListModulesPass : Pass<"fuse-list-modules"> {
  let summary = "Print the paths and classes of modules";
  let description = [{
    Prints one line per module of every model, `path : class`, in the order of
    the module tree. With `paths`, only modules that one of the globs matches;
    a glob that matches nothing is an error. docs/PathGlobs.md has the rules of
    globs.

    After this pass the IR is what it was before.

    Example: `fuse-opt model.mlir --fuse-list-modules=paths=model.layers.*.mlp`
  }];
  let options = [
    ListOption<"paths", "paths", "std::string",
               "Path globs of the modules to print, all when empty">
  ];
}

#endif // FUSE_TRANSFORMS_MODULEPASSES_TD
