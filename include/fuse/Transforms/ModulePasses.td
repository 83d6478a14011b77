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

def CheckContractsPass : Pass<"fuse-check-contracts"> {
  let summary = "Fail when a demanded fusion is not there";
  let description = [{
    Models and functions can demand fusions:

    - `fuse.must_fuse = ["model.layers.*.mlp"]`: every module that a path glob
      matches is a member of a fused site. In a function, the paths are the
      names in the locations of its ops. A glob that matches nothing breaks the
      contract as well;
    - `fuse.expect_sites = 36`: there are exactly so many fused sites.

    Fused calls count in a model, fused ops in a function. A fused call with an
    inlined body counts when a kernel was formed in that body, so that the
    place of this pass is behind `fuse-form-kernels`.

    After this pass the IR is what it was before; a broken contract was an
    error that lists the sites that are not fused, with their reasons.

    Example: `fuse.model @m class "M" attributes {fuse.expect_sites = 36} {...}`
  }];
  let statistics = [
    Statistic<"numChecked", "contracts-checked",
              "Models and functions with a contract">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def InlineModulesPass : Pass<"fuse-inline-modules"> {
  let summary = "Put the forwards of fused members into one function";
  let description = [{
    For every fused call of a generated kernel, makes a function beside the
    model with copies of the members' forwards and of all forwards that those
    call. The function is named after the site; it takes the arguments and
    sides of the fused call, then one argument per parameter, which
    `fuse.parameter` names. Every op is located by the path of its module, so
    that kernels formed of it know their origins. Kernels that the model
    declares have code of their own and are left alone.

    A member without a body, a forward with several blocks and a call within a
    nested region are errors.

    After this pass every fused call of a generated kernel names its body, and
    `fuse-form-kernels` makes fused ops in it. Members keep their forwards, and
    `fuse-unfuse` drops the function.

    Example:

    ```mlir
    %n = fuse.fused_call "mlp" [@norm, @mlp](%x) site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```

    gets `body(@"norm+mlp#0")`, a function

    ```mlir
    func.func @"norm+mlp#0"(
        %x: tensor<?x8xbf16>,
        %w: tensor<8xbf16> {fuse.parameter = "norm.weight"},
        %up: tensor<16x8xbf16> {fuse.parameter = "mlp.up.weight"},
        %down: tensor<8x16xbf16> {fuse.parameter = "mlp.down.weight"})
        -> tensor<?x8xbf16>
    ```
  }];
  let statistics = [
    Statistic<"numInlined", "sites-inlined", "Functions made of fused calls">
  ];
  let dependentDialects = ["::fuse::FuseDialect", "::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect"];
}

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

def MatchModulesPass : Pass<"fuse-match-modules"> {
  let summary = "Fuse chains of modules that patterns select by path";
  let description = [{
    A pattern is a chain of `(class, path)` pairs and the name of a kernel:

    - `((RMSNorm,model.layers.*.norm),(MLP,model.layers.*.mlp))->gated_mlp`;
    - `(RMSNorm,MLP)->gated_mlp`: every `fuse.fusion_pattern` of the model with
      these classes;
    - `@norm_mlp->gated_mlp`: the `fuse.fusion_pattern` of this name.

    Classes and paths are globs (docs/PathGlobs.md). A kernel is a family that
    `fuse-form-kernels` makes, or a `fuse.kernel` of the model.

    A path that selects nothing, members that never share a parent, an unknown
    kernel and a kernel that does not run on `target` are errors. Then every
    parent of members is a site, and every call of a first member. In this
    order a site needs: all members as children, with the right classes; calls
    along which the results flow, each used by the next member only, unless
    the kernel can return it; inputs from outside that exist before the first
    call; no hooks and no tensor parallelism on a member or inside of it; and
    members that are not part of another site. The first predicate that fails
    is named in a remark of category `fuse` with its id, and recorded in the
    attribute `fuse.refusals` of the model.

    After this pass the first call of each fused chain is a `fuse.fused_call`
    and the others are `fuse.identity_call` ops, which keep their interface.
    Modules, parameters and forwards are untouched, and `fuse-unfuse` restores
    the calls exactly.

    Example:

    ```mlir
    %n = fuse.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %y = fuse.call_module @mlp(%n) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```

    becomes

    ```mlir
    %n = fuse.fused_call "mlp" [@norm, @mlp](%x) site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %y = fuse.identity_call @mlp(%n) interface [-1] site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```
  }];
  let options = [
    ListOption<"patterns", "patterns", "std::string",
               "Patterns, each with the kernel to fuse to">,
    Option<"target", "target", "std::string", /*default=*/"\"\"",
           "What declared kernels must run on: cpu or a chip; any when empty">,
    ListOption<"disable", "disable", "std::string",
               "Site ids that are left alone">
  ];
  let statistics = [
    Statistic<"numFused", "sites-fused", "Chains replaced by a fused call">,
    Statistic<"numRefused", "sites-refused", "Sites refused with a remark">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

#endif // FUSE_TRANSFORMS_MODULEPASSES_TD
