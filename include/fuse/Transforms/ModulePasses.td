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
  let summary = "Fail if a required fusion is missing";
  let description = [{
    Models and functions can require fusions:

    - `fuse.must_fuse = ["model.layers.*.mlp"]`: every module that a path glob
      matches is a member of a fused site. In a function, the paths are the
      names in the locations of its ops. A glob without a match breaks the
      contract, too;
    - `fuse.expect_sites = 36`: there are exactly 36 fused sites.

    The pass counts fused calls in a model and fused ops in a function. A fused
    call with an inlined body counts only if a kernel was formed in that body.
    The pass must therefore run after `fuse-form-kernels`.

    After this pass the IR is unchanged. A broken contract is an error that
    lists the sites that are not fused, with the reasons.

    Example: `nn.model @m class "M" attributes {fuse.expect_sites = 36} {...}`
  }];
  let statistics = [
    Statistic<"numChecked", "contracts-checked",
              "Models and functions with a contract">
  ];
  let dependentDialects = ["::fuse::FuseDialect", "::fuse::NNDialect"];
}

def FlattenModelsPass : Pass<"fuse-flatten-models"> {
  let summary = "Turn models into functions that can run";
  let description = [{
    Replaces every model by one function with its name. The function contains
    the forward of the model with the forwards of all modules that it calls,
    recursively. Its arguments are those of the forward, followed by one
    argument per parameter with the attribute `fuse.parameter`. Tied parameters
    are one argument. If a fused call has a body, the body replaces its members,
    so that fused ops stay fused. Otherwise, a fused call becomes the forwards
    of its members, one after the other. The model and the bodies of its sites
    are erased.

    With `sites`, the model is erased without a function, and the bodies remain.
    Each site can then run alone.

    A model without a forward, a module that is only declared and a forward with
    several blocks are errors, unless `sites` is given. A remaining call of a
    slot of the model is an error, too; run `fuse-lower-slots` first.

    After this pass there are no models. The pass cannot be undone, so unfuse
    sites first if needed.

    Example:

    ```mlir
    nn.model @m class "M" {
      nn.parameter @bias : tensor<8xf32>
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %b = nn.get_parameter @bias : tensor<8xf32>
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
  let dependentDialects = [
    "::fuse::FuseDialect", "::fuse::NNDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect"
  ];
}

def InlineModulesPass : Pass<"fuse-inline-modules"> {
  let summary = "Put the forwards of fused members into one function";
  let description = [{
    For every fused call of a generated kernel, creates a function next to the
    model. It contains copies of the members' forwards and of all forwards that
    they call. The function is named after the site. Its arguments are the
    arguments and sides of the fused call, followed by one argument per
    parameter with the attribute `fuse.parameter`, a symbol of the model. The
    location of every op
    names the path of its module, from which kernels read their origins. Kernels
    that the model declares have their own code and do not change.

    The function of a `group` has the attribute `fuse.group`.
    `fuse-form-kernels` then forms one group of all its ops.

    A member without a body and a forward with several blocks are errors.

    After this pass every fused call of a generated kernel names its body, in
    which `fuse-form-kernels` forms fused ops. Members keep their forwards, and
    `fuse-unfuse` erases the function.

    Example:

    ```mlir
    %n = nn.fused_call mlp [@norm, @mlp](%x) site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```

    gets `body(@"norm+mlp#0")`, a function

    ```mlir
    func.func @"norm+mlp#0"(
        %x: tensor<?x8xbf16>,
        %w: tensor<8xbf16> {fuse.parameter = @m::@norm::@weight},
        %up: tensor<16x8xbf16> {fuse.parameter = @m::@mlp::@up::@weight},
        %down: tensor<8x16xbf16> {fuse.parameter = @m::@mlp::@down::@weight})
        -> tensor<?x8xbf16>
    ```
  }];
  let statistics = [
    Statistic<"numInlined", "sites-inlined", "Functions made of fused calls">
  ];
  let dependentDialects = [
    "::fuse::FuseDialect", "::fuse::NNDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect"
  ];
}

def ListModulesPass : Pass<"fuse-list-modules"> {
  let summary = "Print the paths and classes of modules";
  let description = [{
    Prints one line per module of every model, `path : class`, in the order of
    the module tree. With `paths`, it prints only modules that one of the globs
    matches. A glob without a match is an error. docs/reference/path-globs.md
    describes globs.

    After this pass the IR is unchanged.

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
    - `(RMSNorm,MLP)->gated_mlp`: every `nn.fusion_pattern` of the model with
      these classes;
    - `@norm_mlp->gated_mlp`: the `nn.fusion_pattern` of this name.

    Classes and paths are globs (docs/reference/path-globs.md). A kernel is a
    family of `fuse-form-kernels`, `group` for a group of any ops, or a
    `nn.kernel` of the model.

    `libraries` are files of models that contain only patterns and kernels. They
    apply to every model whose class matches the class of the library's model,
    which is a glob.

    A path without a match, members that never share a parent, an unknown kernel
    and a kernel that does not run on `target` are errors. Otherwise, every
    parent of members and every call of a first member is a site. The pass
    checks these predicates of a site in order:

    - all members are children, with the right classes;
    - results flow along the calls, and only the next member uses them, unless
      the kernel can return them;
    - inputs from outside are defined before the first call;
    - no member, and no module in it, has hooks or tensor parallelism;
    - no member is part of another site.

    A remark of category `fuse` names the first predicate that failed, with its
    id. The attribute `fuse.refusals` of the model records it. A pattern with
    only refused sites causes a warning, unless the user has disabled one of
    them.

    After this pass the first call of each fused chain is an `nn.fused_call`
    and the others are `nn.identity_call` ops, which keep their interface.
    Modules, parameters and forwards do not change, and `fuse-unfuse` restores
    the calls exactly.

    Example:

    ```mlir
    %n = nn.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %y = nn.call_module @mlp(%n) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```

    becomes

    ```mlir
    %n = nn.fused_call mlp [@norm, @mlp](%x) site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %y = nn.identity_call @mlp(%n) interface [-1] site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```
  }];
  let options = [
    ListOption<"patterns", "patterns", "std::string",
               "Patterns, each with the kernel to fuse to">,
    Option<"target", "target", "std::string", /*default=*/"\"\"",
           "Target on which declared kernels must run: cpu or a chip; any "
           "target when empty">,
    ListOption<"disable", "disable", "std::string",
               "Site ids that are left alone">,
    ListOption<"libraries", "libraries", "std::string",
               "Files with patterns and kernels for models of a class">
  ];
  let statistics = [
    Statistic<"numFused", "sites-fused", "Chains replaced by a fused call">,
    Statistic<"numRefused", "sites-refused", "Sites refused with a remark">
  ];
  let dependentDialects = ["::fuse::FuseDialect", "::fuse::NNDialect"];
}

def PackWeightsPass : Pass<"fuse-pack-weights"> {
  let summary = "Store the weights of generated kernels in another layout";
  let description = [{
    A layout is a name and a permutation of the elements of parameters. A
    parameter is given by the position of its member in the chain and its name
    in this member:

    - `gate_up=concat(1:gate.weight,1:up.weight)`: the rows of one parameter
      after those of the other;
    - `gate_up=interleave(1:gate.weight,1:up.weight,block=8)`: alternating
      blocks of eight rows of each parameter;
    - `up=transpose(1:c_fc.weight)`: the transpose of a weight that is stored as
      `[in, out]`.

    The recipe is recorded in `weights` of every fused call of a generated
    kernel whose members have these parameters. If the call has a body, the
    stored weight replaces the parameters as an argument of its function. The
    function splits it into slices, which a kernel reads in place. Only blocks
    of several rows are reordered first.

    Errors are a layout that fits no site, parameters whose shapes do not fit, a
    parameter that two layouts require, and a parameter that a module outside of
    the site also reads, under any name. `keep` in a layout, as in
    `gate_up=concat(1:gate.weight,1:up.weight,keep)`, also stores the
    parameters, which avoids the last error.

    After this pass the function of each such site has packed weights as
    arguments. `fuse-weights pack` packs a checkpoint. `fuse-unfuse` removes the
    recipe and the function, and `fuse-weights unpack` restores the checkpoint.

    Example: `%wg` and `%wu` of

    ```mlir
    func.func @"norm+mlp#0"(%x: tensor<?x8xf32>,
        %wg: tensor<16x8xf32> {fuse.parameter = @m::@mlp::@gate::@weight},
        %wu: tensor<16x8xf32> {fuse.parameter = @m::@mlp::@up::@weight}, ...
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
  let dependentDialects = [
    "::fuse::FuseDialect", "::fuse::NNDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

def LocalizeShardsPass
    : Pass<"fuse-localize-shards", "::mlir::func::FuncOp"> {
  let summary = "Give the tensors of a function the sizes of one rank";
  let description = [{
    Arguments with `fuse.shard` get the type of a rank's part, and the ops that
    read them follow. All ranks have the same text. It computes what the
    function computed before:

    - a linear whose weight is cut in dimension 0 (colwise) has a result that is
      cut in its features. Elementwise ops keep that;
    - a linear whose weight is cut in dimension 1 (rowwise) reads such a result.
      It becomes a linear with a partial result in f32, without a bias, and a
      `fuse.all_reduce`, which adds the bias and rounds once;
    - `fuse.gated_mlp` and `fuse.mlp` have both. What follows `down`, the
      residual add, becomes an op of its own after the sum;
    - a slice of a stored weight with several pieces is a slice of its part.

    Errors are shards along different axes or with different counts, parts that
    would cut blocks of scales, and an op for which there is no rule, such as a
    norm of values that are cut. `size` is the number of ranks that the shards
    must have.

    Scales that are measured per token on a cut activation become those of its
    part, as in frameworks that quantize the input of a rowwise linear on each
    rank.

    After this pass the function has the attribute `fuse.ranks`. A result that
    is cut has the attribute `fuse.shard`. Functions without shards do not
    change.

    Example: for

    ```mlir
    func.func @site(%x: tensor<?x64xbf16>,
        %wg: tensor<128x64xbf16>
          {fuse.shard = #fuse.shard<dim = 0, axis = "tp", count = 4>}, ...
      %y = fuse.gated_mlp %x gate(%wg) up(%wu) down(%wd) act(silu) then_add(%x)
             rounding(exact) : (...) -> tensor<?x64xbf16>
    ```

    `%wg` becomes `tensor<32x64xbf16>`, and the op

    ```mlir
      %p = fuse.gated_mlp %x gate(%wg) up(%wu) down(%wd) act(silu)
             rounding(exact) : (...) -> tensor<?x64xf32>
      %s = fuse.all_reduce %p group("tp", 4) order(rank)
        : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      %y = fuse.residual_add %x, %s
        : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
    ```
  }];
  let options = [
    Option<"size", "size", "int64_t", /*default=*/"0",
           "Number of ranks that the shards must have; any if 0">
  ];
  let statistics = [
    Statistic<"numCut", "arguments-cut", "Arguments that became parts">,
    Statistic<"numReductions", "reductions", "Sums over ranks inserted">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def JoinRanksPass : Pass<"fuse-join-ranks", "::mlir::func::FuncOp"> {
  let summary = "Compute all ranks of a function in one function";
  let description = [{
    The counterpart of `fuse-localize-shards`, for checks on one device. The
    arguments of a function with `fuse.ranks` become whole tensors again. The
    body is copied for each rank, on slices of the arguments. A
    `fuse.all_reduce` becomes additions in f32 in the order of the ranks, once
    for each rank.

    Results are those of rank 0, and a result that is cut is the concatenation
    of its parts. With `all`, the results of all ranks follow one another, and
    none is concatenated.

    After this pass the function has no `fuse.all_reduce`, `fuse.ranks` or
    `fuse.shard`. Functions without `fuse.ranks` do not change.

    Example:

    ```mlir
    %y = fuse.all_reduce %p group("tp", 2) order(rank)
      : (tensor<?x64xf32>) -> tensor<?x64xbf16>
    ```

    becomes, for each of two ranks,

    ```mlir
    %y = fuse.residual_add %p0, %p1
      : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xbf16>
    ```
  }];
  let options = [
    Option<"all", "all", "bool", /*default=*/"false",
           "Return the results of all ranks">
  ];
  let statistics = [
    Statistic<"numJoined", "functions-joined", "Functions with all ranks">
  ];
  let dependentDialects = [
    "::fuse::FuseDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

def StampVersionPass : Pass<"fuse-stamp-version", "::mlir::ModuleOp"> {
  let summary = "Add the version of the IR to a module";
  let description = [{
    Adds the attribute `fuse.version` to the module, for a text that is kept.
    Later builds upgrade the text when they read it, and builds with an older
    version refuse it by that number. Artifacts and exported programs contain
    the attribute; bytecode contains the version without it.

    With `remove`, the pass removes the attribute, so that texts of two versions
    can be compared.

    After this pass the module has the version of this build, or none. A version
    that it already had is the same, since reading upgrades the text.

    Example: `fuse-opt block.mlir --fuse-stamp-version -o kept.mlir`
  }];
  let options = [
    Option<"remove", "remove", "bool", /*default=*/"false",
           "Remove the version">
  ];
  let statistics = [
    Statistic<"numChanged", "modules-changed",
              "Modules that got or lost a version">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

#endif // FUSE_TRANSFORMS_MODULEPASSES_TD
