//===- Passes.td - Passes on the fuse dialect --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_PASSES_TD
#define FUSE_TRANSFORMS_PASSES_TD

include "fuse/Transforms/GPUPasses.td"
include "fuse/Transforms/ModulePasses.td"
include "fuse/Transforms/StagePasses.td"
include "mlir/Pass/PassBase.td"

def CheckUnfusePass : Pass<"fuse-check-unfuse"> {
  let summary = "Check that forming kernels can be undone exactly";
  let description = [{
    Forms kernels in a copy of the op, unfuses them, and compares the result
    with the op: ops, order, operands, types, attributes and locations. If they
    differ, the pass fails and shows the first line that differs. Ops that are
    already fused stay fused. The options are those of `fuse-form-kernels`.

    With the options `patterns` and `libraries` of `fuse-match-modules`, modules
    are first fused in the copy and their members inlined.

    After this pass the IR is unchanged.

    Example: `fuse-opt block.mlir --fuse-check-unfuse`
  }];
  let options = [
    ListOption<"families", "families", "std::string",
               "Families to form; all if empty">,
    Option<"rounding", "rounding", "std::string", /*default=*/"\"exact\"",
           "Rounding contract of new kernels: exact or relaxed">,
    ListOption<"disable", "disable", "std::string",
               "Ids of sites to skip">,
    ListOption<"patterns", "patterns", "std::string",
               "Patterns of modules to fuse first">,
    ListOption<"libraries", "libraries", "std::string",
               "Files with patterns and kernels for models of a class">
  ];
  let statistics = [
    Statistic<"numChecked", "sites-checked", "Kernels formed and unfused">
  ];
  let dependentDialects = [
    "::fuse::FuseDialect", "::fuse::NNDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect"
  ];
}

def ExpandCopiesPass : Pass<"fuse-expand-copies"> {
  let summary = "Write copies between strided buffers as structured ops";
  let description = [{
    Replaces `memref.copy` by `linalg.generic` if one of the buffers is not
    contiguous. Bufferization creates such copies for `tensor.insert_slice` and
    `tensor.concat`. Upstream would lower them to calls of `memrefCopy`, a
    function of its runtime library.

    Does not change copies between contiguous buffers, which become `memcpy`, or
    copies of unranked buffers.

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

def TileTransposesPass : Pass<"fuse-tile-transposes"> {
  let summary = "Transpose buffers block by block";
  let description = [{
    Tiles a `linalg.transpose` of buffers along the two loops in which its input
    and its result are contiguous. A block has 16 by 16 elements, so that it
    uses each cache line that it reads. In a linear with a weight stored as
    `[in, out]`, the transpose then takes less time than the product of one
    token.

    Does not change transposes that keep the last dimension, those that are one
    block, and those of tensors.

    After this pass every other transpose is in two loops over blocks.

    Example:

    ```mlir
    linalg.transpose ins(%x : memref<32x64xf32>) outs(%y : memref<64x32xf32>)
        permutation = [1, 0]
    ```

    becomes

    ```mlir
    scf.for %i = %c0 to %c64 step %c16 {
      scf.for %j = %c0 to %c32 step %c16 {
        linalg.transpose
            ins(%block : memref<16x16xf32, strided<[64, 1], offset: ?>>)
            outs(%part : memref<16x16xf32, strided<[32, 1], offset: ?>>)
            permutation = [1, 0]
      }
    }
    ```
  }];
  let statistics = [
    Statistic<"numTiled", "transposes-tiled", "Transposes in two loops">
  ];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect"
  ];
}

def ExpandReshapesPass : Pass<"fuse-expand-reshapes"> {
  let summary = "Write reshapes to several dynamic sizes as casts";
  let description = [{
    Replaces `memref.expand_shape` by `memref.reinterpret_cast` if a group has
    more than one dynamic size. The sizes are operands of the op.
    `expand-strided-metadata` cannot lower these ops.

    Does not change buffers that are not row-major, or groups with at most one
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
    by integer ops. This is for targets that lack such an instruction or that
    treat subnormal numbers differently. Supports scalars and vectors; the pass
    fails on tensors, which `convert-elementwise-to-linalg` takes apart.

    - `extf` is exact. 8-bit floats are converted through f16, which represents
      all of them.
    - `truncf` rounds to nearest even, also for subnormal results, and keeps the
      sign of zero. NaN stays NaN. As everywhere in `arith`, values beyond the
      range become NaN in f8E4M3FN and infinity in f8E5M2 and bf16. The quantize
      ops of fuse clamp values before they convert them.
    - Conversions between integers and 8-bit floats go through f32, which
      represents every integer in the range of an 8-bit float. LLVM has those
      of bf16.

    Does not change conversions from f64 to 8 bits, which would round twice
    through f32, or `truncf` with another rounding mode than to nearest even.

    After this pass the only ops on 8-bit floats move or bitcast them, so that
    the lowering to LLVM can store them as i8.

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
    Every activation and every norm is a candidate site. Around an activation,
    the pass forms `fuse.gated_mlp`, `fuse.mlp` or `fuse.act_quantize`. After a
    remaining norm, it forms `fuse.norm_linear` or `fuse.norm_quantize`. A
    remaining linear is a site if its input is quantized or a residual add
    follows; it becomes `fuse.fused_linear`. Static quantize and dequantize ops
    of the chain become `scales`. An elementwise function between two linears
    that contains no activation is a site, too. It has no kernel, so the pass
    refuses it.

    The pass refuses a site if an intermediate is used outside of the chain
    (unless the kernel can return it), if scales contradict each other, or if
    the kernel's decomposition would not be the chain. For the same reasons, a
    norm or residual add can stay outside of a kernel. Every site gets a remark
    of category `fuse`. A passed remark lists the members; a missed remark has
    the id of the first predicate that failed, the reason and a suggestion.

    Site ids are `<function>#<n>`, numbered in the order of the ops; functions
    that are not activations, and then linears, come last. Refused sites are
    numbered, too, so ids do not depend on options.

    In a function with the attribute `fuse.group`, which `fuse-inline-modules`
    sets for patterns with the kernel `group`, all ops become one `fuse.group`.
    The pass refuses such a function if an op has effects or is a fused op.

    `rounding=relaxed` allows kernels to skip the roundings of intermediates.

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
               "Families to form; all if empty">,
    Option<"rounding", "rounding", "std::string", /*default=*/"\"exact\"",
           "Rounding contract of new kernels: exact or relaxed">,
    ListOption<"disable", "disable", "std::string",
               "Ids of sites to skip; ids of other functions are ignored (only "
               "fuse-check-unfuse verifies that the function exists)">
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
    Appends every value that a floating-point linear reads to the results of the
    function, once per value. The result attribute `fuse.observed` lists the
    linears that read it, by the names that `fuse-quantize-linears` uses in its
    table of scales: the parameter of the weight without `.weight`, or
    `linear#<n>`.

    The pass refuses linears in nested regions and quantized linears with a
    remark of category `quant`. A function with several blocks is an error.
    Values that an earlier run observed are not observed again.

    After this pass the function returns all values that calibration needs.

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
  let summary = "Quantize linears to 8 bits";
  let description = [{
    Replaces floating-point linears by linears whose weights, and usually
    inputs, are stored in 8 bits. The scales come from a JSON file of
    calibration, with one entry per linear: `input_scale` and `weight_scale`. A
    `weight_scale` is a number or `"per_channel"`, which becomes an argument
    with the parameter name `<linear>.weight_scale`. `activations` selects the
    quantization of inputs:

    - `static` (default): quantized with `input_scale`, in `order`;
    - `per_token`, `per_tensor`: quantized by `fuse.dynamic_quantize` with a
      scale measured at run time; `input_scale` is ignored and optional;
    - `none`: not quantized; the weight is dequantized.

    Linears that quantize one value in the same way share the quantize op.

    With `weights=quantize` (default), a weight stays a floating-point argument
    and is quantized before its linear. With `weights=stored`, the argument has
    the storage type, and the caller passes the stored values of
    `python -m fuse_mlir calibrate`.

    A linear without an entry is an error unless `allow-missing` is set. Other
    errors are an entry without a linear and a scale that kernels cannot use,
    and with `weights=stored`, a weight that is not an argument or has other
    users.

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
           "Quantization of inputs: static, per_token, per_tensor or none">,
    Option<"weights", "weights", "std::string", /*default=*/"\"quantize\"",
           "Where weights are quantized: quantize (in the function) or stored "
           "(by the caller)">,
    Option<"order", "order", "std::string", /*default=*/"\"reciprocal\"",
           "Division order of static quantize ops: reciprocal or divide">,
    Option<"allowMissing", "allow-missing", "bool", /*default=*/"false",
           "Do not quantize linears without scales">
  ];
  let statistics = [
    Statistic<"numQuantized", "linears-quantized", "Linears replaced">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def InlineFunctionsPass : Pass<"fuse-inline-functions", "::mlir::ModuleOp"> {
  let summary = "Inline calls of private functions";
  let description = [{
    Front ends write activations and norms as private functions, such as `@silu`
    of JAX. Raising and forming view one function at a time, so these calls are
    inlined. Calls of public functions stay, and so do recursive calls, calls of
    functions with `no_inline`, and calls that would add more than `max-ops` ops
    to the module in all.

    After this pass private functions without uses are erased.

    Example:

    ```mlir
    func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = arith.addf %x, %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = call @double(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    becomes

    ```mlir
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = arith.addf %x, %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"maxOps", "max-ops", "uint64_t", /*default=*/"100000",
           "Number of ops that inlining may add to a module">
  ];
  let statistics = [
    Statistic<"numInlined", "calls-inlined", "Calls inlined">
  ];
}

def RaiseLayersPass : Pass<"fuse-raise-layers", "::mlir::func::FuncOp"> {
  let summary = "Replace written-out layers by layer ops";
  let description = [{
    Recognizes norms, activations, linear maps, quantize and dequantize ops that
    are written in arith and math on tensors or in linalg ops. The order of
    operands, casts, broadcasts and unit dimensions do not matter. Each formula
    is replaced by the equivalent layer op. The places of the weight and the
    casts decide the variant of an rms norm, eps is the constant under the root,
    and a scale is the factor of stored values. Two reshapes of leading
    dimensions around layer ops are removed if one undoes the other.

    A weight stored as `[in, out]` gets a `linalg.transpose` where it is
    defined: CPU kernels pack it once, and the portable GPU path reads it in
    place. A computed right operand, such as the values of attention, is
    refused.

    With `split-merged` (default), a linear whose result is sliced into the gate
    and up of a gated MLP becomes one linear for each slice, which reads its
    rows of the weight. A host packs these rows before the first call.

    A layer op computes in f32 and rounds once. A formula that rounds an
    intermediate to a narrower type is another function and stays. The order of
    f32 operations and the sign of zero are unspecified.

    A sum of two tensors of one shape becomes `fuse.residual_add` if an operand
    or a user is a layer op. A product becomes `fuse.gated_mul` if an operand is
    an activation or both are linear maps. All other arithmetic stays.

    The pass refuses formulas that are nearly a layer, with a remark of category
    `raise` that names the predicate, the op and its location.

    Rounds repeat until nothing changes, at most `max-rounds` times; a remark
    reports the bound if it is reached. Nearly all functions need one or two: a
    dequantize of a raised quantize is found in the second.

    After this pass upstream ops whose results only layers used are erased, and
    another run of the pass changes nothing.

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
  let options = [
    Option<"splitMerged", "split-merged", "bool", /*default=*/"true",
           "Split a linear that computes the gate and up of a gated MLP">,
    Option<"maxRounds", "max-rounds", "unsigned", /*default=*/"64",
           "Number of rounds after which raising stops">
  ];
  let statistics = [
    Statistic<"numRaised", "layers-raised", "Layer ops created">,
    Statistic<"numRefused", "layers-refused", "Formulas refused with a remark">,
    Statistic<"numRounds", "rounds", "Rounds that changed a function">
  ];
  let dependentDialects = [
    "::fuse::FuseDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

def RepairScalesPass : Pass<"fuse-repair-scales", "::mlir::func::FuncOp"> {
  let summary = "Unify the scales of gate and up projections";
  let description = [{
    Applies to gated products whose gate and up projections are linears on
    stored values. Quantizers choose the scales of both independently, so they
    usually differ.

    `unequal` selects the action for weights with one scale each that differ:

    - `keep` (default): no change. Kernels support two scales without loss of
      accuracy. An analysis remark of category `quant` states the ratio;
    - `requantize`: the weight with the smaller scale is requantized to the
      larger one by a `fuse.dequantize` and a `fuse.quantize`, for targets whose
      kernels support only one scale. A remark states the error bound: half a
      unit in the last place of the storage type, and half of the smallest step,
      both in units of the larger scale. The original weight stays an operand;
    - `refuse`: an error at the product.

    `inputs` selects the action for projections that quantize one value with
    different static scales. A kernel quantizes its input once:

    - `keep` (default): no change. `fuse-form-kernels` refuses the site
      (`input-scales-differ`). An analysis remark states the ratio;
    - `largest`: both read the value that is quantized with the larger scale, so
      no additional values saturate. A remark states the error bound of the
      input in the same units;
    - `refuse`: an error at the product.

    Weight scales given per channel do not change.

    After this pass with `unequal=requantize`, gate and up of every such product
    have the same weight scale, and with `inputs=largest`, the same input.

    Example: `fuse-opt block.mlir --fuse-repair-scales=unequal=requantize`
  }];
  let options = [
    Option<"unequal", "unequal", "std::string", /*default=*/"\"keep\"",
           "Action for unequal weight scales: keep, requantize or refuse">,
    Option<"inputs", "inputs", "std::string", /*default=*/"\"keep\"",
           "Action for unequal input scales: keep, largest or refuse">
  ];
  let statistics = [
    Statistic<"numUnequal", "pairs-unequal", "Pairs with different scales">,
    Statistic<"numRequantized", "weights-requantized",
              "Weights requantized to the larger scale">,
    Statistic<"numInputsMerged", "inputs-merged",
              "Inputs merged to the larger scale">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def PrepareEntryPointsPass
    : Pass<"fuse-prepare-entry-points", "::mlir::func::FuncOp"> {
  let summary = "Fix how public functions are called from outside";
  let description = [{
    Public functions with a body get a C interface. Their tensor arguments are
    marked as not writable for bufferization, because they belong to the caller.
    Attributes of the fuse dialect, such as `fuse.parameter`, are removed from
    all functions.

    Does not change private functions or declarations otherwise.

    After this pass the lowering to LLVM creates `_mlir_ciface_<name>` for every
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

def CheckCallsPass : Pass<"fuse-check-calls", "::mlir::ModuleOp"> {
  let summary = "Refuse recursive functions";
  let description = [{
    Compiled code has no bound on the depth of calls, so a recursion that does
    not end takes all memory. The pass fails on every call that is part of a
    cycle of calls and names it. It also fails on `fuse.all_reduce`: code of one
    process has no sum over ranks. Nothing is changed.

    After this pass the depth of calls is bounded by the number of functions.

    Example: the pass refuses

    ```mlir
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let statistics = [
    Statistic<"numChecked", "calls-checked", "Calls of functions checked">
  ];
}

def RecordChecksPass : Pass<"fuse-record-checks", "::mlir::func::FuncOp"> {
  let summary = "Turn asserts on sizes into checks before the call";
  let description = [{
    Moves every `cf.assert` to the function attribute `fuse.checks`. The runtime
    checks it before a call and returns an error with the message of the assert.
    Compiled code could only end the process.

    The condition must be a comparison of integer expressions over sizes of
    arguments, or a conjunction of such comparisons. The pass finds the sizes of
    intermediate tensors by their bounds.

    The pass fails on other asserts and names them: on conditions that depend on
    values, on asserts under control flow, and on those of private functions.

    After this pass the function has no `cf.assert`.

    Example:

    ```mlir
    func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) {
      %c0 = arith.constant 0 : index
      %m = tensor.dim %x, %c0 : tensor<?xf32>
      %n = tensor.dim %y, %c0 : tensor<?xf32>
      %equal = arith.cmpi eq, %m, %n : index
      cf.assert %equal, "sizes differ"
      return
    }
    ```

    becomes

    ```mlir
    func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) attributes {
      fuse.checks = [{message = "sizes differ", predicate = "eq",
                      sizes = affine_map<()[s0, s1] -> (s0, s1)>,
                      symbols = [array<i64: 0, 0>, array<i64: 1, 0>]} ]} {
      return
    }
    ```
  }];
  let statistics = [
    Statistic<"numRecorded", "checks-recorded", "Comparisons recorded">
  ];
}

def SelectSchedulesPass : Pass<"fuse-select-schedules"> {
  let summary = "Choose a schedule for each fused op";
  let description = [{
    Sets `tile.schedule` on every `fuse.mlp`, `fuse.gated_mlp`,
    `fuse.norm_linear` and `fuse.fused_linear` that the scheduled kernels
    support. For more than 256 tokens, it is a `#tile.prefill_schedule` with the
    tiles and the split of the smallest estimated time. For up to 128 tokens, it
    is a `#tile.schedule`. Among the splits of GEMM2 whose blocks are all
    resident, the pass selects the one with the smallest time in a roofline
    model. The model has terms for device memory, the busiest block, L2 and grid
    barriers. In between, the faster one of both is selected by their models.
    `fuse.norm_quantize` and `fuse.act_quantize` get a schedule of rows.

    With `dispatch`, an op with a dynamic number of tokens gets a
    `#tile.dispatch` instead: one schedule for each of several ranges. The
    ranges cover all numbers up to `tokens`, or up to the largest number whose
    elements 32 bits can count. Ranges end at 8, 16, 32, 64 and 128 tokens, and
    at 192 and 256 if one launch is faster there. Later ranges end where another
    prefill schedule is expected to be faster by more than a few percent.

    For a `chip` other than sm_90a, the schedule is a `#tile.mma_schedule`, also
    of tokens and weights in f16. Products of stored values have none. Ranges
    end at 8, 16, 32, 64 and 128 tokens, and at numbers from which on another
    split of GEMM2 is used.

    An existing schedule of an op does not change. `table` names a file of
    `fuse-tune` with measured schedules, which take precedence over those of the
    model. Its rows are `{"family": "gated_mlp", "widths": [2048, 16384, 2048],
    "element": "f8E4M3FN", "tokens": 56, "relaxed": false, "schedule":
    "#tile.schedule<...>"}`. The widths are those of the input, of the hidden
    layer if there is one, and of the outputs. A table of another compiler, chip
    or number of multiprocessors is an error. A schedule that does not fit its
    op is ignored, with a remark.

    An op that the kernels do not support gets no schedule, and a remark of
    category `codegen` states the reason. Such ops have other families, element
    types other than bf16 and static f8E4M3FN, scales per channel, widths that
    are not multiples of 16, or more than 16384 tokens. The portable path lowers
    them.

    A plan is a list of launches, and its host packs weights before the first
    one. Weights are arguments of the function, or made of slices, transposes
    and concatenations of arguments. An op under control flow or with another
    weight has no schedule after this pass, even if the text has one. A warning
    states the reason.

    After this pass an op has a schedule or a remark.

    Example:

    ```mlir
    %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
           {tile.schedule = #tile.schedule<tokens = 16, blocks = 128,
            split_k = 16, weight_stages = 6, token_stages = 8, max_in_flight =
            2, partials = f32, hint = evict_first, dependent = true>}
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
           "File of schedules that fuse-tune measured">,
    Option<"chip", "chip", "std::string", /*default=*/"\"sm_90a\"",
           "GPU that the kernels are for">
  ];
  let statistics = [
    Statistic<"numSelected", "schedules-selected", "Ops that got a schedule">,
    Statistic<"numDeclined", "schedules-declined",
              "Ops left for the portable path">
  ];
  let dependentDialects = ["::tile::TileDialect"];
}

def UniqueSitesPass : Pass<"fuse-unique-sites"> {
  let summary = "Make the ids of sites unique";
  let description = [{
    Passes that copy ops, such as `--inline`, also copy the ids of fused ops. If
    several fused ops have one id, this pass keeps it for the op in the function
    that the id names, or for the first op. The others get the next free id of
    their own function.

    `fuse-unfuse` with `sites` and `fuse-explain` do the same first, so an id
    that they list always names one op.

    Does not change ops with a unique id or without one.

    After this pass no two fused ops have the same id.

    Example: `fuse-opt formed.mlir --inline --fuse-unique-sites`
  }];
  let statistics = [
    Statistic<"numRenamed", "sites-renamed", "Fused ops with a new id">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def UnfusePass : Pass<"fuse-unfuse"> {
  let summary = "Replace fused ops by their chains";
  let description = [{
    Builds the decomposition of every fused op, or of those whose site is in
    `sites`. Each member returns to its former place, with its location and
    discardable attributes. Kernels are unfused in the reverse order of their
    forming. If other ops have changed since then and a member no longer fits in
    its place, the members replace the kernel instead.

    With `sites`, the ids are made unique first, as by `fuse-unique-sites`.

    In a model, every fused call is replaced by the calls of its members, each
    in its former place, and the function with their bodies is erased. `paths`
    selects sites by path globs of their members and the modules in them.

    An id in `sites` without a fused op is an error that lists the existing ids.
    A glob in `paths` without a matching module is an error, too.

    After this pass no selected fused op or fused call remains.

    Example: `fuse-opt formed.mlir --fuse-unfuse=sites=block#0`
  }];
  let options = [
    ListOption<"sites", "sites", "std::string",
               "Site ids to unfuse; all kernels if empty">,
    ListOption<"paths", "paths", "std::string",
               "Path globs of modules whose sites are unfused">
  ];
  let statistics = [
    Statistic<"numUnfused", "sites-unfused", "Fused ops replaced by chains">,
    Statistic<"numDisplaced", "sites-displaced",
              "Kernels whose members did not fit in their former places">
  ];
  let dependentDialects = ["::fuse::FuseDialect"];
}

def VectorizeReductionsPass : Pass<"fuse-vectorize-reductions"> {
  let summary = "Block and vectorize sums along a contiguous dimension";
  let description = [{
    Replaces `linalg.generic` ops on buffers that sum along their last dimension
    by loops over blocks of `rows` times `columns` results.
    `convert-fuse-to-linalg` creates such ops for linears and norms. Every
    result has `lanes` partial sums in one vector. Term `k` belongs to lane `k
    mod lanes`, and a tree adds the lanes at the end. The results of a block
    share the vectors that they load and the values computed from them.

    The order of a sum depends only on `lanes`. It does not depend on the block
    of the result, the number of rows or the vector width of the target.

    Does not change reductions over a dynamic dimension or several dimensions,
    over operands that are not contiguous along it, or with a body that does
    more than add a term. They remain for `convert-linalg-to-loops`.

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
