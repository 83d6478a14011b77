//===- Passes.td - Passes on the fuse dialect --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_PASSES_TD
#define FUSE_TRANSFORMS_PASSES_TD

include "GPUPasses.td"
include "ModulePasses.td"
include "mlir/Pass/PassBase.td"

def CheckUnfusePass : Pass<"fuse-check-unfuse"> {
  let summary = "Check that forming kernels can be undone exactly";
  let description = [{
    Forms kernels in a copy of the op, unfuses them, and compares the result
    with the op: ops, order, operands, types, attributes and locations. Where
    they differ the pass fails and shows the first differing line. What is
    fused already stays so. The options are those of `fuse-form-kernels`.

    With `patterns` and `libraries`, those of `fuse-match-modules`, modules are
    fused in the copy and their members inlined before.

    After this pass the IR is what it was before.

    Example: `fuse-opt block.mlir --fuse-check-unfuse`
  }];
  let options = [
    ListOption<"families", "families", "std::string",
               "Families to form, all when empty">,
    Option<"rounding", "rounding", "std::string", /*default=*/"\"exact\"",
           "Rounding contract of new kernels: exact or relaxed">,
    ListOption<"disable", "disable", "std::string",
               "Site ids that are left alone">,
    ListOption<"patterns", "patterns", "std::string",
               "Patterns of modules to fuse before">,
    ListOption<"libraries", "libraries", "std::string",
               "Files with patterns and kernels for models of a class">
  ];
  let statistics = [
    Statistic<"numChecked", "sites-checked", "Kernels formed and undone">
  ];
  let dependentDialects = ["::fuse::FuseDialect", "::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect"];
}

def ExpandCopiesPass : Pass<"fuse-expand-copies"> {
  let summary = "Write copies between strided buffers as structured ops";
  let description = [{
    Replaces `memref.copy` by `linalg.generic` where one of the buffers is not
    contiguous, as bufferization leaves for `tensor.insert_slice` and
    `tensor.concat`. Upstream would lower these to calls of `memrefCopy`, a
    function of its runtime library.

    Declines copies between contiguous buffers, which become `memcpy`, and
    buffers without a rank.

    After this pass the lowering to LLVM calls no function for a copy between
    ranked buffers.

    Example:

    ```mlir
    memref.copy %x, %y
      : memref<?x4xf32> to memref<?x4xf32, strided<[8, 1], offset: 2>>
    ```

    becomes

    ```mlir
    linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
                                     affine_map<(i, j) -> (i, j)>],
                    iterator_types = ["parallel", "parallel"]}
        ins(%x : memref<?x4xf32>)
        outs(%y : memref<?x4xf32, strided<[8, 1], offset: 2>>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    ```
  }];
  let statistics = [
    Statistic<"numExpanded", "copies-expanded", "Copies replaced">
  ];
  let dependentDialects = ["::mlir::linalg::LinalgDialect"];
}

def ExpandReshapesPass : Pass<"fuse-expand-reshapes"> {
  let summary = "Write reshapes to several dynamic sizes as casts";
  let description = [{
    Replaces `memref.expand_shape` where a group has more than one dynamic size
    by `memref.reinterpret_cast`, with the sizes that the op carries.
    `expand-strided-metadata` can not lower these.

    Declines buffers that are not row-major, and groups with at most one
    dynamic size, which upstream lowers.

    After this pass `expand-strided-metadata` lowers every `expand_shape` of a
    row-major buffer.

    Example:

    ```mlir
    %y = memref.expand_shape %x [[0, 1], [2]] output_shape [%a, %b, 8]
      : memref<?x8xf32> into memref<?x?x8xf32>
    ```

    becomes

    ```mlir
    %0 = arith.muli %c8, %b : index
    %y = memref.reinterpret_cast %x to offset: [0], sizes: [%a, %b, 8],
           strides: [%0, 8, 1] : memref<?x8xf32> to memref<?x?x8xf32>
    ```
  }];
  let statistics = [
    Statistic<"numExpanded", "reshapes-expanded", "Reshapes replaced">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect"
  ];
}

def ExpandSmallFloatsPass : Pass<"fuse-expand-small-floats"> {
  let summary = "Write conversions of small floats in integer arithmetic";
  let description = [{
    Replaces `arith.extf` from and `arith.truncf` to f8E4M3FN, f8E5M2 and bf16
    by integer ops, for targets without such an instruction or with one that
    treats subnormal numbers differently. Works on scalars and vectors.

    - `extf` is exact. 8-bit floats go through f16, which holds them all.
    - `truncf` rounds to nearest even, subnormal results included, and keeps
      the sign of zero. NaN stays NaN. As everywhere in `arith`, values beyond
      the range become NaN in f8E4M3FN and infinity in f8E5M2 and bf16; the
      quantizations of fuse limit values before they convert them.

    Declines conversions from f64 to 8 bits, which would round twice by way of
    f32, and `truncf` with a rounding mode other than to nearest even.

    After this pass the only ops on 8-bit floats are those that move and
    bitcast them, so that lowering to LLVM can store them as i8.

    Example:

    ```mlir
    %y = arith.extf %x : f8E5M2 to f32
    ```

    becomes

    ```mlir
    %0 = arith.bitcast %x : f8E5M2 to i8
    %1 = arith.extui %0 : i8 to i16
    %2 = arith.shli %1, %c8 : i16
    %3 = arith.bitcast %2 : i16 to f16
    %y = arith.extf %3 : f16 to f32
    ```
  }];
  let options = [
    Option<"f8", "f8", "bool", /*default=*/"true",
           "Expand conversions of f8E4M3FN and f8E5M2">,
    Option<"bf16", "bf16", "bool", /*default=*/"true",
           "Expand conversions of bf16">
  ];
  let statistics = [
    Statistic<"numExpanded", "conversions-expanded", "Conversions replaced">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def FormKernelsPass : Pass<"fuse-form-kernels", "::mlir::func::FuncOp"> {
  let summary = "Replace chains of layer ops by fused ops";
  let description = [{
    Every activation and every norm is a candidate site. Around an activation
    the pass forms `fuse.gated_mlp`, `fuse.mlp` or `fuse.act_quantize`; behind
    a norm that is left, `fuse.norm_linear` or `fuse.norm_quantize`. Static
    quantize and dequantize ops of the chain become `scales`.

    The pass declines a site when an intermediate is used outside of the chain
    (unless the kernel can return it), when scales contradict each other, or
    when the kernel's decomposition would not be the chain; it leaves a norm or
    residual add outside of a kernel for the same reasons. Every site yields a
    remark of category `fuse`: passed with the members, or missed with the id
    of the first predicate that failed, the reason and a suggestion.

    Sites are numbered in the order of their ops, `<function>#<n>`, whether
    they are fused or not, so that ids do not depend on options.

    In a function with `fuse.group`, which `fuse-inline-modules` makes of the
    members that a pattern wants in a `group`, all ops become one `fuse.group`.
    An op with effects, or a fused op that is there already, declines that.

    `rounding=relaxed` permits kernels to skip the roundings of intermediates.

    After this pass every site is a fused op or was refused with a remark, and
    `fuse-unfuse` restores the input exactly.

    Example:

    ```mlir
    func.func @block(%x: tensor<?x64xbf16>, %w1: tensor<128x64xbf16>,
                     %w2: tensor<64x128xbf16>) -> tensor<?x64xbf16> {
      %0 = fuse.linear %x, %w1
        : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xbf16>
      %1 = fuse.activation gelu %0
        : tensor<?x128xbf16> -> tensor<?x128xbf16>
      %2 = fuse.linear %1, %w2
        : (tensor<?x128xbf16>, tensor<64x128xbf16>) -> tensor<?x64xbf16>
      return %2 : tensor<?x64xbf16>
    }
    ```

    becomes

    ```mlir
    func.func @block(%x: tensor<?x64xbf16>, %w1: tensor<128x64xbf16>,
                     %w2: tensor<64x128xbf16>) -> tensor<?x64xbf16> {
      %0 = fuse.mlp %x up(%w1) down(%w2) act(gelu) rounding(exact)
             site("block#0")
         : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<64x128xbf16>)
           -> tensor<?x64xbf16>
      return %0 : tensor<?x64xbf16>
    }
    ```
  }];
  let options = [
    ListOption<"families", "families", "std::string",
               "Families to form, all when empty">,
    Option<"rounding", "rounding", "std::string", /*default=*/"\"exact\"",
           "Rounding contract of new kernels: exact or relaxed">,
    ListOption<"disable", "disable", "std::string",
               "Site ids that are left alone; each function looks at its own, "
               "so that a name of no function says nothing here, but in "
               "fuse-check-unfuse">
  ];
  let statistics = [
    Statistic<"numFused", "sites-fused", "Sites replaced by a fused op">,
    Statistic<"numRefused", "sites-refused", "Sites refused with a remark">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def ObserveActivationsPass
    : Pass<"fuse-observe-activations", "::mlir::func::FuncOp"> {
  let summary = "Return the inputs of linears for calibration";
  let description = [{
    Appends to the results of a function every value that a linear on
    floating-point operands reads, once per value. The result attribute
    `fuse.observed` lists the linears that read it, by the names under which
    `fuse-quantize-linears` takes their scales: the parameter of the weight
    without `.weight`, or `linear#<n>`.

    Linears in nested regions and linears that are quantized already are left
    out with a remark of category `quant`. A function with several blocks is
    an error. Values that an earlier run observes are not observed again.

    After this pass running the function shows what calibration has to see.

    Example:

    ```mlir
    func.func @f(%x: tensor<?x8xf32>,
                 %w: tensor<4x8xf32> {fuse.parameter = "up_proj.weight"})
        -> tensor<?x4xf32>
    ```

    becomes

    ```mlir
    func.func @f(%x: tensor<?x8xf32>,
                 %w: tensor<4x8xf32> {fuse.parameter = "up_proj.weight"})
        -> (tensor<?x4xf32>, tensor<?x8xf32> {fuse.observed = ["up_proj"]})
    ```
  }];
  let statistics = [
    Statistic<"numObserved", "values-observed", "Values returned">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def QuantizeLinearsPass
    : Pass<"fuse-quantize-linears", "::mlir::func::FuncOp"> {
  let summary = "Make linears read stored values";
  let description = [{
    Replaces linears on floating-point operands by linears whose weights, and
    with most options whose inputs, are stored in 8 bits. The scales come from
    a JSON file as calibration writes it: one entry per linear with
    `input_scale` and `weight_scale`, the latter a number or `"per_channel"`,
    which becomes an argument with the parameter name `<linear>.weight_scale`.
    `activations` says what is done with inputs:

    - `static` (default): quantized with `input_scale`, in `order`;
    - `per_token`, `per_tensor`: quantized with a scale that
      `fuse.dynamic_quantize` measures at run time; `input_scale` is not read
      and may be missing;
    - `none`: not quantized; the weight is dequantized.

    Linears that read one value in one way share the op that quantizes it.

    With `weights=quantize` (default) a weight stays a floating-point argument
    and is quantized where it is read; with `weights=stored` the argument has
    the storage type itself, and whoever calls the function passes stored
    values, as `python -m fuse_mlir calibrate` writes them.

    A linear without an entry is an error unless `allow-missing`; so is an
    entry that no linear has, a scale that kernels can not use, and with
    `weights=stored` a weight that is no argument, or is read in two ways.

    After this pass every linear with an entry has a stored weight, and
    `fuse-form-kernels` collapses chains with static scales.

    Example: `fuse-opt block.mlir --fuse-quantize-linears=scales=scales.json`
  }];
  let options = [
    Option<"scales", "scales", "std::string", /*default=*/"\"\"",
           "JSON file with the scales">,
    Option<"type", "type", "std::string", /*default=*/"\"f8E4M3FN\"",
           "Storage type: f8E4M3FN, f8E5M2 or i8">,
    Option<"activations", "activations", "std::string",
           /*default=*/"\"static\"",
           "What is done with inputs: static, per_token, per_tensor or none">,
    Option<"weights", "weights", "std::string", /*default=*/"\"quantize\"",
           "Where weights are quantized: quantize (in the function) or stored "
           "(before it)">,
    Option<"order", "order", "std::string", /*default=*/"\"reciprocal\"",
           "Division order of static quantize ops: reciprocal or divide">,
    Option<"allowMissing", "allow-missing", "bool", /*default=*/"false",
           "Leave linears without scales as they are">
  ];
  let statistics = [
    Statistic<"numQuantized", "linears-quantized", "Linears replaced">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def RaiseLayersPass : Pass<"fuse-raise-layers", "::mlir::func::FuncOp"> {
  let summary = "Replace written-out layers by layer ops";
  let description = [{
    Recognizes norms, activations, linear maps, quantize and dequantize written
    in arith and math on tensors or in linalg ops, whatever the order of
    operands, the casts, broadcasts and unit dimensions in between, and
    replaces each by the layer op that means the same: the variant of an rms
    norm follows from where the weight is multiplied and the casts stand, eps
    is the constant under the root, a scale the number that real values are
    multiplied with. Reshapes of leading dimensions around layer ops go where
    one undoes the other.

    A layer op computes in f32 and rounds once. A formula that rounds an
    intermediate to a narrower type is another function and stays. Within f32
    the order of operations is left open, and so is the sign of a zero.

    A sum of two tensors of one shape becomes `fuse.residual_add` where an
    operand or a user is a layer op, a product `fuse.gated_mul` where an
    operand is an activation, or where it combines linear maps. All other
    arithmetic stays.

    The pass declines what is nearly a layer with a remark of category `raise`
    that names the predicate, the op and its location.

    After this pass upstream ops that only fed layers are gone.

    Example:

    ```mlir
    func.func @silu(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
      %one = arith.constant dense<1.0> : tensor<4x64xf32>
      %0 = arith.negf %x : tensor<4x64xf32>
      %1 = math.exp %0 : tensor<4x64xf32>
      %2 = arith.addf %1, %one : tensor<4x64xf32>
      %3 = arith.divf %x, %2 : tensor<4x64xf32>
      return %3 : tensor<4x64xf32>
    }
    ```

    becomes

    ```mlir
    func.func @silu(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
      %0 = fuse.activation silu %x : tensor<4x64xf32> -> tensor<4x64xf32>
      return %0 : tensor<4x64xf32>
    }
    ```
  }];
  let statistics = [
    Statistic<"numRaised", "layers-raised", "Layer ops made">,
    Statistic<"numRefused", "layers-refused", "Formulas refused with a remark">
  ];
  let dependentDialects = [
    "::fuse::FuseDialect", "::mlir::tensor::TensorDialect"
  ];
}

def RepairScalesPass : Pass<"fuse-repair-scales", "::mlir::func::FuncOp"> {
  let summary = "Deal with gate and up projections of different scales";
  let description = [{
    Looks at every gated product whose gate and up projections are linears on
    stored values. Quantizers choose the scales of the two independently, so
    they usually differ.

    `unequal` says what happens to different weight scales, where each weight
    has one:

    - `keep` (default): nothing; kernels take two scales and lose no accuracy.
      An analysis remark of category `quant` states the ratio;
    - `requantize`: the weight with the smaller scale is brought to the larger
      one, as an explicit `fuse.dequantize` and `fuse.quantize`, for targets
      whose kernels take one scale. The remark states the error bound: half a
      unit in the last place of the storage type, and half of the smallest
      step, both in units of the larger scale. The original weight stays an
      operand, so nothing is lost;
    - `refuse`: an error at the product.

    `inputs` says what happens where both quantize one value, each with its
    own static scale. A kernel quantizes its input once:

    - `keep` (default): nothing; forming kernels refuses the site
      (`input-scales-differ`). An analysis remark states the ratio;
    - `largest`: both read the value as it is quantized with the larger scale,
      so that nothing saturates that did not before. The remark states the
      error bound of the input in the same units;
    - `refuse`: an error at the product.

    Weight scales given per channel are left alone.

    After this pass with `unequal=requantize` gate and up of every such
    product have the same weight scale, and with `inputs=largest` the same
    input.

    Example: `fuse-opt block.mlir --fuse-repair-scales=unequal=requantize`
  }];
  let options = [
    Option<"unequal", "unequal", "std::string", /*default=*/"\"keep\"",
           "What to do with unequal weight scales: keep, requantize or refuse">,
    Option<"inputs", "inputs", "std::string", /*default=*/"\"keep\"",
           "What to do with unequal input scales: keep, largest or refuse">
  ];
  let statistics = [
    Statistic<"numUnequal", "pairs-unequal", "Pairs with different scales">,
    Statistic<"numRequantized", "weights-requantized",
              "Weights brought to the scale of their partner">,
    Statistic<"numInputsMerged", "inputs-merged",
              "Inputs brought to the scale of their partner">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def PrepareEntryPointsPass
    : Pass<"fuse-prepare-entry-points", "::mlir::func::FuncOp"> {
  let summary = "Fix how public functions are called from outside";
  let description = [{
    Public functions with a body get a C interface, and bufferization is told
    that their tensors belong to the caller and are not to be written.
    Attributes of the fuse dialect, as `fuse.parameter`, are removed from all
    functions.

    Declines private functions and declarations.

    After this pass lowering to LLVM makes `_mlir_ciface_<name>` for every
    public function, and no public function writes to its arguments.

    Example: `func.func @f(%x: tensor<4xf32> {fuse.parameter = "w"})` becomes

    ```mlir
    func.func @f(%x: tensor<4xf32> {bufferization.writable = false})
        attributes {llvm.emit_c_interface}
    ```
  }];
  let statistics = [
    Statistic<"numPrepared", "entry-points", "Functions that can be called">
  ];
}

def SelectSchedulesPass : Pass<"fuse-select-schedules"> {
  let summary = "Choose a Hopper schedule for each fused op";
  let description = [{
    Gives every `fuse.mlp`, `fuse.gated_mlp` and `fuse.norm_linear` that the
    scheduled kernels can do a `tile.schedule`. For more than 256 tokens that is
    a `#tile.prefill_schedule`, with the tiles and the split of the smallest
    estimate. For up to 128 it is a `#tile.schedule`: of the splits of the last
    product whose blocks are all resident, the one with the smallest time by a
    roofline model (device memory, the busiest block, L2, and what meeting of
    blocks costs). In between it is the faster one of both by their models.
    `fuse.norm_quantize` and `fuse.act_quantize` get a schedule of rows.

    With `dispatch`, an op with a dynamic number of tokens gets a
    `#tile.dispatch` instead: one schedule for each of several ranges, which
    cover all numbers up to `tokens`, or up to as many as 32 bits count elements
    of. Ranges end at 8, 16, 32, 64 and 128 tokens, and at 192 and 256 where one
    launch is faster there; behind, where another
    prefill schedule is expected to be faster by more than a few percent.

    A schedule that an op already has is left alone. `table` names a file of
    `fuse-tune` with measured schedules, which are taken before those of the
    model: rows `{"family": "gated_mlp", "widths": [2048, 16384, 2048],
    "element": "f8E4M3FN", "tokens": 56, "relaxed": false, "schedule":
    "#tile.schedule<...>"}`, widths of the input, the hidden layer where there
    is one, and the outputs. A table of another compiler, chip or number of
    multiprocessors is an error; a schedule that does not fit its op is left
    out, with a remark.

    The pass declines ops that the kernel can not do, and says why in a remark
    of category `codegen`: other families, element types other than bf16 and
    static f8E4M3FN, scales per channel, widths that are not multiples of 16,
    more than 16384 tokens. They stay for the portable path.

    After this pass an op has a schedule or a remark.

    Example:

    ```mlir
    %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
           {tile.schedule = #tile.schedule<tokens = 16, blocks = 128,
            split = 16, weight_stages = 6, token_stages = 8, in_flight = 2,
            partials = f32, hint = evict_first, dependent = true>}
         : (tensor<?x2048xbf16>, tensor<8192x2048xbf16>,
            tensor<8192x2048xbf16>, tensor<2048x8192xbf16>)
           -> tensor<?x2048xbf16>
    ```
  }];
  let options = [
    Option<"tokens", "tokens", "int64_t", /*default=*/"64",
           "Most tokens that a kernel of an op with a dynamic number of tokens "
           "serves, 1 to 16384">,
    Option<"dispatch", "dispatch", "bool", /*default=*/"false",
           "Choose a schedule for each range of a dynamic number of tokens">,
    Option<"multiprocessors", "multiprocessors", "int64_t", /*default=*/"132",
           "Multiprocessors of the GPU, one resident block on each">,
    Option<"table", "table", "std::string", /*default=*/"",
           "File of schedules that fuse-tune measured">
  ];
  let statistics = [
    Statistic<"numSelected", "schedules-selected", "Ops that got a schedule">,
    Statistic<"numDeclined", "schedules-declined",
              "Ops left for the portable path">
  ];
  let dependentDialects = ["::tile::TileDialect"];
}

def UnfusePass : Pass<"fuse-unfuse"> {
  let summary = "Replace fused ops by the chains that they stand for";
  let description = [{
    Builds the decomposition of every fused op, or of those whose site is in
    `sites`, and puts each member back where it stood, with its location and
    discardable attributes. Kernels are undone in the reverse order of their
    forming. Where the surroundings have changed since then, so that a member
    can not stand where it stood, the members take the place of the kernel.

    In a model, every fused call becomes the calls of its members again, each in
    its place, and the function with their bodies is removed. `paths` selects
    sites by the paths of their members and of what is inside of them
    (docs/PathGlobs.md).

    An id in `sites` that no fused op has is an error that lists those that
    exist, and so is a glob in `paths` that matches none of these modules.

    After this pass no fused op and no fused call remains, or none that was
    selected.

    Example: `fuse-opt formed.mlir --fuse-unfuse=sites=block#0`
  }];
  let options = [
    ListOption<"sites", "sites", "std::string",
               "Site ids to undo, all kernels when empty">,
    ListOption<"paths", "paths", "std::string",
               "Path globs of modules whose sites are undone">
  ];
  let statistics = [
    Statistic<"numUnfused", "sites-unfused", "Fused ops replaced by chains">,
    Statistic<"numDisplaced", "sites-displaced",
              "Kernels whose members could not stand where they stood">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def VectorizeReductionsPass : Pass<"fuse-vectorize-reductions"> {
  let summary = "Block and vectorize sums along a contiguous dimension";
  let description = [{
    Replaces `linalg.generic` ops on buffers that sum along their last
    dimension, as `convert-fuse-to-linalg` makes them for linears and norms, by
    loops over blocks of `rows` times `columns` results. Every result has
    `lanes` partial sums in one vector; term `k` belongs to lane `k mod lanes`,
    and a tree adds the lanes at the end. Blocks share the vectors they load
    and whatever is computed from them.

    The order of a sum depends on `lanes` only: not on the block that a result
    falls into, nor on the number of rows, nor on the vectors of the target.

    Declines reductions over a dynamic or several dimensions, over operands
    that are not contiguous along it, and those whose body does anything but
    add a term; they remain for `convert-linalg-to-loops`.

    After this pass no matrix product or norm statistic of a fuse op remains a
    `linalg.generic`.

    Example:

    ```mlir
    linalg.generic ... ins(%x : memref<4x32xf32>) outs(%sum : memref<4xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %0 = arith.addf %acc, %a : f32
      linalg.yield %0 : f32
    }
    ```

    becomes, with `rows=1 lanes=16`,

    ```mlir
    scf.for %i = %c0 to %c4 step %c1 {
      %0 = scf.for %k = %c0 to %c32 step %c16 iter_args(%acc = %zero)
          -> (vector<16xf32>) {
        %1 = vector.load %x[%i, %k] : memref<4x32xf32>, vector<16xf32>
        %2 = arith.addf %acc, %1 : vector<16xf32>
        scf.yield %2 : vector<16xf32>
      }
      ...
      memref.store %total, %sum[%i] : memref<4xf32>
    }
    ```
  }];
  let options = [
    Option<"lanes", "lanes", "int64_t", /*default=*/"16",
           "Partial sums of a result, a power of two up to 64">,
    Option<"rows", "rows", "int64_t", /*default=*/"2",
           "Results per block along the first dimension, 1 to 16">,
    Option<"columns", "columns", "int64_t", /*default=*/"4",
           "Results per block along the second dimension, 1 to 16">
  ];
  let statistics = [
    Statistic<"numVectorized", "reductions-vectorized",
              "Reductions replaced by vector loops">,
    Statistic<"numDeclined", "reductions-declined", "Reductions left alone">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

#endif // FUSE_TRANSFORMS_PASSES_TD
