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
    - `fuse.expect_sites = 36`: there are exactly 36 fused sites.

    Fused calls count in a model, fused ops in a function. A fused call with an
    inlined body counts when a kernel was formed in that body, so that the
    place of this pass is after `fuse-form-kernels`.

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

def FlattenModelsPass : Pass<"fuse-flatten-models"> {
  let summary = "Turn models into functions that can run";
  let description = [{
    Makes one function of every model, with its name: the forward of the model
    with the forwards of all modules that it calls, level by level. It takes
    the arguments of the forward, then one argument per parameter, which
    `fuse.parameter` names; parameters that are tied are one argument. Where a
    fused call has a body, that body takes the place of its members, so that
    what was fused stays fused; elsewhere a fused call is what it means, the
    forwards of its members one after the other. The model and the bodies of
    its sites are dropped.

    With `sites`, the bodies stay and nothing is made of the model, which is
    dropped: each site can then run by itself.

    A model without a forward, a module that is declared only and a forward
    with several blocks are errors, unless `sites` is given. So is a call of a
    slot of the model that stays: lower slots before.

    After this pass there are no models. There is no way back: unfuse first
    what should be unfused.

    Example:

    ```mlir
    fuse.model @m class "M" {
      fuse.parameter @bias : tensor<8xf32>
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %b = fuse.get_parameter @bias : tensor<8xf32>
        %y = arith.addf %x, %b : tensor<8xf32>
        return %y : tensor<8xf32>
      }
    }
    ```

    becomes

    ```mlir
    func.func @m(%x: tensor<8xf32>,
                 %b: tensor<8xf32> {fuse.parameter = "bias"}) -> tensor<8xf32> {
      %y = arith.addf %x, %b : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    ```
  }];
  let options = [
    Option<"sites", "sites", "bool", /*default=*/"false",
           "Keep the functions of fused sites, and make none of the model">
  ];
  let statistics = [
    Statistic<"numFlattened", "models-flattened", "Functions made of models">
  ];
  let dependentDialects = ["::fuse::FuseDialect", "::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect"];
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

    The function of a `group` has `fuse.group`, which makes `fuse-form-kernels`
    form one group of everything in it.

    A member without a body and a forward with several blocks are errors.

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
    a glob that matches nothing is an error. docs/reference/path-globs.md has
    the rules of globs.

    After this pass the IR is what it was before.

    Example: `fuse-opt model.mlir --fuse-list-modules=paths=model.layers.*.mlp`
  }];
  let options = [
    ListOption<"paths", "paths", "std::string",
               "Path globs of the modules to print, all when empty">
  ];
  let statistics = [
    Statistic<"numListed", "modules-listed", "Modules printed">
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

    Classes and paths are globs (docs/reference/path-globs.md). A kernel is a
    family that `fuse-form-kernels` makes, `group` for a group of whatever the
    members consist of, or a `fuse.kernel` of the model.

    `libraries` are files of models that hold patterns and kernels only; they
    count as declared in every model whose class matches theirs, a glob.

    A path that selects nothing, members that never share a parent, an unknown
    kernel and a kernel that does not run on `target` are errors. Then every
    parent of members is a site, and every call of a first member. In this
    order a site needs: all members as children, with the right classes; calls
    along which the results flow, each used by the next member only, unless
    the kernel can return it; inputs from outside that exist before the first
    call; no hooks and no tensor parallelism on a member or inside of it; and
    members that are not part of another site. The first predicate that fails
    is named in a remark of category `fuse` with its id, and recorded in the
    attribute `fuse.refusals` of the model. A pattern all of whose sites are
    refused is a warning, unless the user has switched one of them off.

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
               "Site ids that are left alone">,
    ListOption<"libraries", "libraries", "std::string",
               "Files with patterns and kernels for models of a class">
  ];
  let statistics = [
    Statistic<"numFused", "sites-fused", "Chains replaced by a fused call">,
    Statistic<"numRefused", "sites-refused", "Sites refused with a remark">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def PackWeightsPass : Pass<"fuse-pack-weights"> {
  let summary = "Store the weights of generated kernels in another layout";
  let description = [{
    A layout is a name and a permutation of rows, of parameters that are given
    by the position of their member in the chain and their name in it:

    - `gate_up=concat(1:gate.weight,1:up.weight)`: the rows of one after those
      of the other;
    - `gate_up=interleave(1:gate.weight,1:up.weight,block=8)`: eight rows of
      each in turn.

    For every fused call of a generated kernel whose members have these
    parameters, the recipe is recorded in `weights` of the call. Where the call
    has a body, its function takes the stored weight in place of the
    parameters and takes it apart with slices, which a kernel reads in place;
    only blocks of several rows are sorted first.

    Errors are a layout that fits no site, parameters whose shapes do not fit,
    a parameter that is wanted in two layouts, and one that a module outside of
    the site reads as well, be it by another name. `keep` in a layout, as in
    `gate_up=concat(1:gate.weight,1:up.weight,keep)`, stores the parameters too,
    which resolves the latter.

    After this pass the function of each such site takes packed weights, which
    `fuse-weights pack` makes of a checkpoint. `fuse-unfuse` removes recipe and
    function, and `fuse-weights unpack` restores the checkpoint.

    Example: `%wg` and `%wu` of

    ```mlir
    func.func @"norm+mlp#0"(%x: tensor<?x8xf32>,
        %wg: tensor<16x8xf32> {fuse.parameter = "mlp.gate.weight"},
        %wu: tensor<16x8xf32> {fuse.parameter = "mlp.up.weight"}, ...
    ```

    become

    ```mlir
    func.func @"norm+mlp#0"(%x: tensor<?x8xf32>,
       %w: tensor<32x8xf32> {fuse.parameter = "norm+mlp.gate_up"}, ...
      %wg = tensor.extract_slice %w[0, 0] [16, 8] [1, 1]
        : tensor<32x8xf32> to tensor<16x8xf32>
      %wu = tensor.extract_slice %w[16, 0] [16, 8] [1, 1]
        : tensor<32x8xf32> to tensor<16x8xf32>
    ```
  }];
  let options = [
    ListOption<"layouts", "layouts", "std::string",
               "Layouts, each with a name and the parameters in it">
  ];
  let statistics = [
    Statistic<"numPacked", "weights-packed", "Recipes recorded">
  ];
  let dependentDialects = ["::fuse::FuseDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // FUSE_TRANSFORMS_MODULEPASSES_TD
