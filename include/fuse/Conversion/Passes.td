//===- Passes.td - Conversion passes -----------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_PASSES_TD
#define FUSE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFuseToLinalgPass : Pass<"convert-fuse-to-linalg"> {
  let summary = "Lower layers and fused kernels to linalg on tensors";
  let description = [{
    Replaces every fused op by its decomposition and every layer op by
    `linalg.generic` ops. Their bodies compute in f32 and round once to the
    element type of the result. Layer ops outside of fused ops are lowered in
    the same way, so a fused chain and the unfused one become the same code.

    Every `linalg.generic` works on a rank-2 view, tokens times features.
    Leading dimensions are collapsed before a layer and expanded after it, and
    `canonicalize` removes the pairs between adjacent layers. A linear becomes

    - `linalg.fill` with 0 and one reduction over `(token, output, input)` with
      both operands contiguous along `input`: `math.fma` in f32, or integer
      multiply-add in i32 for i8 operands;
    - one elementwise op for scale, bias and rounding, if any of them is needed.

    Norm statistics are row reductions in f32, also with `math.fma`. The sum is
    divided by the feature size and passed to `math.rsqrt`. Conversions to 8-bit
    floats and i8 first clamp to the finite range and therefore saturate on
    every path below.

    Function ops become structured ops, too. Gathers are `tensor.extract` ops in
    a body, at an index that is in bounds for all values of the operands. A
    cross entropy makes two passes over its logits: one for the maximum, and one
    for the sum of exponentials and the label's logit. Experts multiply only
    with the weights to which tokens are routed.

    Every op that verifies is lowered.

    With `scale-arguments`, code does not depend on the values of static scales.
    Each number that follows from them becomes an argument of its function, of
    type f32 with the attribute `fuse.scalar`, after all other arguments. If an
    op with static scales is in a private function, they remain constants, and
    public functions get the attribute `fuse.constant_scales`.

    After this pass no op of the fuse dialect remains.

    Example:

    ```mlir
    %y = fuse.residual_add %x, %r
      : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```

    becomes

    ```mlir
    %y = linalg.generic ... ins(%x, %r) outs(%empty) {
    ^bb0(%a: bf16, %b: bf16, %out: bf16):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extf %b : bf16 to f32
      %2 = arith.addf %0, %1 : f32
      %3 = arith.truncf %2 : f32 to bf16
      linalg.yield %3 : bf16
    } -> tensor<?x8xbf16>
    ```
  }];
  let options = [
    Option<"scaleArguments", "scale-arguments", "bool", "false",
           "Whether numbers that follow from static scales are arguments">
  ];
  let statistics = [
    Statistic<"numScalars", "scale-arguments-added",
              "Arguments added for numbers that follow from static scales">,
    Statistic<"numDecomposed", "kernels-decomposed",
              "Fused ops replaced by their decomposition">,
    Statistic<"numLowered", "layers-lowered", "Layer ops lowered">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

def ConvertKernelsToNVVMPass
    : Pass<"convert-kernels-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Lower GPU kernels to the LLVM and NVVM dialects";
  let description = [{
    Converts the ops of gpu, arith, cf, math, memref and vector in a
    `gpu.module`. Buffers become bare pointers, so the memrefs of a kernel must
    have rank 0 or a static shape. Indices become 64-bit integers.

    Math functions that are one instruction (sqrt, fma, abs, rounding) become
    LLVM intrinsics. Unlike `convert-gpu-to-nvvm`, the pass never leaves a call
    of libdevice. It fails if one would be needed.

    After this pass kernels are `llvm.func` ops with the attribute
    `nvvm.kernel`.

    Example:

    ```mlir
    gpu.func @root(%x: memref<f32>) kernel {
      %0 = memref.load %x[] : memref<f32>
      %1 = math.sqrt %0 : f32
      memref.store %1, %x[] : memref<f32>
      gpu.return
    }
    ```

    becomes

    ```mlir
    llvm.func @root(%x: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
      %0 = llvm.load %x : !llvm.ptr -> f32
      %1 = llvm.intr.sqrt(%0) : (f32) -> f32
      llvm.store %1, %x : f32, !llvm.ptr
      llvm.return
    }
    ```
  }];
  let statistics = [
    Statistic<"numLowered", "kernels-lowered", "Kernels lowered">
  ];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect"
  ];
}

def ConvertKernelsToPTXPass
    : Pass<"convert-kernels-to-ptx", "::mlir::ModuleOp"> {
  let summary = "Compile GPU kernels to PTX";
  let description = [{
    Replaces each `gpu.module` by a `gpu.binary` of the same name with its PTX.
    `gpu-module-to-binary` runs the -O3 pipeline. This pass runs only the few
    LLVM passes that improve kernels from these pipelines, because ptxas
    optimizes the code again.

    The pass fails if a module does not have exactly one `#nvvm.target` or if
    the chip is not supported; LLVM would compile for another one.

    After this pass the module has no `gpu.module`.

    Example:

    ```mlir
    gpu.module @kernels [#nvvm.target<chip = "sm_90", features = "+ptx78">] {
      llvm.func @f(%x: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
        llvm.return
      }
    }
    ```

    becomes

    ```mlir
    gpu.binary @kernels [#gpu.object<#nvvm.target<chip = "sm_90",
      features = "+ptx78">, assembly = ".version 7.8 ...">]
    ```
  }];
  let statistics = [
    Statistic<"numCompiled", "modules-compiled", "GPU modules compiled">
  ];
}

def ConvertLinalgToGPUPass
    : Pass<"convert-linalg-to-gpu", "::mlir::ModuleOp"> {
  let summary = "Lower linalg on buffers to GPU kernels and launches";
  let description = [{
    Replaces every linalg op of every function by a `gpu.launch_func` and moves
    its kernel to the single `gpu.module` that the pass adds to the module.
    Equal kernels are emitted once, for any number of layers that use them.

    The loops of an op determine its kernel; its body is copied unchanged:

    - `contract`, for a reduction loop k and two parallel loops m and n, if no
      input that varies along k varies along both: blocks of 256 threads compute
      tiles of 64 x 64, and each thread computes 4 x 4 points in registers.
      Values of the body that vary only along m and k, or only along n and k,
      are staged in workgroup memory in steps of 16 along k. There can be any
      number of batch loops.
    - `reduce`, for reductions that may be reordered (a commutative op with a
      neutral element, or a fused multiply-add) and have more than 8 elements: a
      block per result. A tree combines the partial results in workgroup memory.
      Rows that the body loads from, and operands along them, are read in
      vectors of 8 if all buffers are aligned to 16 bytes. Blocks that may load
      from the same rows are adjacent.
    - `map` and `map_reduce`, for all other ops: a thread per result.

    All sizes may be dynamic and need not be multiples of a tile. A constant
    that fills the output of a reduction becomes its initial value. Loops that
    are adjacent in all operands are merged, so leading dimensions have no cost.

    A body may load from buffers that are not operands, at any index, as long as
    the op does not write them.

    The parameters of a kernel are, in this order: one pointer per distinct
    buffer of the op and then of its body (a memref of rank 0, which the
    bare-pointer convention passes as one address), one value per scalar operand
    that is not constant, and one index per size, stride or offset that is not
    static. `known_block_size` is the number of threads, and the grid is an
    expression of sizes before the launch. A launch with a zero in its grid must
    be skipped.

    The pass fails on an op that can neither be part of a kernel nor stay on the
    host. The host keeps allocations (the workspace), views, sizes and launches.
    Buffers of different function arguments must not overlap.

    After this pass no linalg op remains.

    Example:

    ```mlir
    func.func @scale(%x: memref<?xf32>, %y: memref<?xf32>) {
      linalg.generic {
          indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
          iterator_types = ["parallel"]}
          ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
      ^bb0(%a: f32, %out: f32):
        %0 = arith.addf %a, %a : f32
        linalg.yield %0 : f32
      }
      return
    }
    ```

    becomes a launch of

    ```mlir
    gpu.func @map_f32_f32(%x: memref<f32>, %y: memref<f32>, %n: index) kernel
        attributes {known_block_size = array<i32: 256, 1, 1>} { ... }
    ```

    with `(n + 255) / 256` blocks.
  }];
  let statistics = [
    Statistic<"numContractions", "contractions", "Ops that became tiled">,
    Statistic<"numReductions", "reductions",
              "Ops that became a block per result">,
    Statistic<"numKernels", "kernels", "Kernels emitted">,
    Statistic<"numDuplicates", "duplicates",
              "Launches of a kernel that was there already">
  ];
  let dependentDialects = [
    "::mlir::affine::AffineDialect",
    "::mlir::arith::ArithDialect",
    "::mlir::gpu::GPUDialect",
    "::mlir::linalg::LinalgDialect",
    "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def ConvertSmallFloatsToNVVMPass
    : Pass<"convert-small-floats-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Lower conversions of 8-bit floats to NVVM";
  let description = [{
    Replaces `arith.extf` from and `arith.truncf` to f8E4M3FN and f8E5M2 by
    instructions of sm_89 and later chips. Extension is exact. Truncation rounds
    to nearest even and saturates: a value beyond the range becomes the largest
    finite one. (`arith.truncf` alone would return NaN or infinity. The quantize
    ops of the fuse dialect clamp values before.)

    Does not change vectors, f64 or other rounding modes. Chips before sm_89
    need `fuse-expand-small-floats` instead.

    After this pass no scalar conversion of f8E4M3FN and f8E5M2 from or to f16,
    bf16 and f32 remains.

    Example:

    ```mlir
    %q = arith.truncf %x : f32 to f8E4M3FN
    ```

    becomes

    ```mlir
    %0 = nvvm.convert.f32x2.to.f8x2 %zero, %x
           {rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>}
         : i16 (f8E4M3FN)
    %1 = arith.trunci %0 : i16 to i8
    %q = arith.bitcast %1 : i8 to f8E4M3FN
    ```
  }];
  let statistics = [
    Statistic<"numExtended", "extensions", "Extensions lowered">,
    Statistic<"numTruncated", "truncations", "Truncations lowered">
  ];
  let dependentDialects = [
    "::mlir::NVVM::NVVMDialect",
    "::mlir::arith::ArithDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def ConvertFuseToCPUPass : Pass<"convert-fuse-to-cpu", "mlir::ModuleOp"> {
  let summary = "Write kernels for a CPU with vectors and packed weights";
  let description = [{
    Applies to public functions with a `fuse.gated_mlp`, `fuse.mlp`,
    `fuse.norm_linear` or `fuse.fused_linear` in which every op works on the
    same tokens. Supported ops are these fused ops, `fuse.rms_norm`,
    `fuse.layer_norm`, `fuse.linear`, `fuse.activation`, `fuse.residual_add`,
    and any `linalg.generic` that computes elements in f32. Weights and vectors
    are arguments of the function, or made of slices, transposes and
    concatenations of arguments, which a host packs. The pass emits the phases
    of one kernel in the module `@cpu_kernels`. A fused op has up to three
    phases:

    1. *rows*: residual add and norm of each token, rounded according to the
       contract. The result is the input of the products. There is no such phase
       if they read the input unchanged;
    2. *hidden*: the first product on packed weights, with bias, activation and
       gated product after it;
    3. *output*: the last product of each linear, with bias and residual add.

    A norm has only the phase *rows*, and a linear only *output*. Consecutive
    elementwise ops share the phase *map*: a vector of a row stays in registers
    from the first op to the last, with all roundings.

    A product iterates over panels of outputs. `registers` determines whether a
    panel is two or four vectors wide; gate and up are one half of a panel each.
    For every k, a panel contains the weights of its outputs next to each other,
    in bf16 those of k and k + 1 as pairs. One call of `@multiply_*` keeps the
    sums of up to six tokens and one panel in registers. Every sum adds its
    terms in the order of k, one term at a time (with `dot`: one pair, with
    `tiles`: 32 terms). It therefore depends neither on the number of tokens nor
    on the number of threads.

    The caller runs the tasks of a phase in any order on any number of threads.
    A task is one panel and up to 128 tokens. `fuse.cpu_plan` on the function
    lists the arguments, the weights to pack, and the workspace per token.

    Does not change functions without a fused op. A remark reports functions
    that are not supported: those with any other op, quantized ops, types other
    than f32 and bf16, an odd width in bf16, or results that are arguments or
    are returned twice.

    After this pass the phases that `fuse.cpu_plan` names can replace the
    function. Nothing else has changed.

    Example:

    ```mlir
    func.func @f(%x: tensor<?x32xf32>, %up: tensor<64x32xf32>,
                 %down: tensor<32x64xf32>) -> tensor<?x32xf32> {
      %y = fuse.mlp %x up(%up) down(%down) act(relu) rounding(exact) : ...
      return %y : tensor<?x32xf32>
    }
    ```

    becomes the same function with `fuse.cpu_plan`, and

    ```mlir
    module @cpu_kernels {
      func.func private @multiply_f32_6(...) { ... }
      func.func @f_hidden(...) { ... }
      func.func @f_output0(...) { ... }
    }
    ```
  }];
  let options = [
    Option<"lanes", "lanes", "int64_t", /*default=*/"16",
           "Numbers of type f32 in a vector register: 4, 8 or 16">,
    Option<"registers", "registers", "int64_t", /*default=*/"32",
           "Vector registers: 16 or 32">,
    Option<"fma", "fma", "bool", /*default=*/"true",
           "Multiply and add with one rounding, which needs an instruction">,
    Option<"dot", "dot", "bool", /*default=*/"false",
           "Multiply pairs in bf16 by AVX512-BF16, with 16 lanes">,
    Option<"tiles", "tiles", "bool", /*default=*/"false",
           "Multiply tiles in bf16 by AMX where sums have a multiple of 32 "
           "terms; needs `dot`, which takes the others">
  ];
  let statistics = [
    Statistic<"numScheduled", "num-scheduled", "Functions with a kernel">,
    Statistic<"numDeclined", "num-declined",
              "Functions with a fused op and no kernel">
  ];
  let dependentDialects = [
    "mlir::arith::ArithDialect", "mlir::func::FuncDialect",
    "mlir::LLVM::LLVMDialect", "mlir::math::MathDialect",
    "mlir::memref::MemRefDialect", "mlir::scf::SCFDialect",
    "mlir::vector::VectorDialect", "tile::TileDialect"
  ];
}

def ConvertFuseToTilePass
    : Pass<"convert-fuse-to-tile", "::mlir::ModuleOp"> {
  let summary = "Emit scheduled kernels of fused ops as tile kernels";
  let description = [{
    Replaces each fused op with a `tile.schedule` by a `tile.launch` and emits
    its kernel into a gpu.module. A `#tile.schedule` has one persistent launch
    for norm, products, activation, quantization and residual adds. A
    `#tile.prefill_schedule` has a launch for the norm and one for each product,
    which share a workspace. A `#tile.mma_schedule` has either. Ops with equal
    kernels share one; scales are arguments of the launch. A launch has the
    arguments of which weights are slices, transposes or concatenations, and its
    plan has the views.

    An op without a schedule does not change; the portable path lowers it. An op
    that its schedule does not fit is an error.

    Kernels of a `#tile.mma_schedule` come from the stages of the op, which the
    pass forms and maps as the schedule states. A `stage.graph` with a mapping
    in the text becomes launches in the same way.

    Launches are destination-style ops on tensors. `fuse-gpu-pipeline`
    bufferizes them with the other ops of their function.

    After this pass no op has a `tile.schedule`. The `plan` of the launch
    describes the arguments of the kernel, the packing of weights and the size
    of the workspace.

    Example: `fuse-opt block.mlir --fuse-select-schedules
    --convert-fuse-to-tile`
  }];
  let options = [
    Option<"moduleName", "module-name", "std::string",
           /*default=*/"\"fuse_kernels\"",
           "Name of the gpu.module that kernels are emitted into">
  ];
  let statistics = [
    Statistic<"numConverted", "kernels-launched", "Fused ops replaced">,
    Statistic<"numShared", "kernels-shared",
              "Fused ops that use the kernel of another">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect", "::stage::StageDialect",
    "::tile::TileDialect"
  ];
}

def ConvertTileToNVVMPass
    : Pass<"convert-tile-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Lower tile kernels to nvvm, llvm, scf and arith";
  let description = [{
    Converts each `tile.kernel` of a gpu.module to an `llvm.func`, and each tile
    op inside it as the op's description states. Accumulators become one value
    per register, also in loops. `math.erf`, which PTX lacks, becomes a
    polynomial.

    Every op that verifies is lowered. Rings, `tile.mma` and what goes with them
    need sm_90a and PTX 8.0; other ops need sm_80 and PTX 7.0. Instructions of
    8-bit floats need sm_89, and `tile.mma_sync` of them PTX 8.4. With
    `float8=false`, integer arithmetic converts these floats on older chips.
    With `float8-products=false`, which older chips need too, products are of
    f16.

    After this pass the module contains no tile op. The next passes are
    `convert-scf-to-cf` and `convert-to-llvm`.

    Example: `fuse-opt kernel.mlir
    --pass-pipeline='builtin.module(gpu.module(convert-tile-to-nvvm))'`
  }];
  let statistics = [
    Statistic<"numKernels", "kernels-lowered", "Kernels lowered">,
    Statistic<"numOps", "ops-lowered", "Ops inside of kernels lowered">
  ];
  let options = [
    Option<"float8", "float8", "bool", /*default=*/"true",
           "Whether the chip has conversions of 8-bit floats">,
    Option<"float8Products", "float8-products", "bool", /*default=*/"true",
           "Whether the chip multiplies 8-bit floats with mma.sync">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect"
  ];
}

#endif // FUSE_CONVERSION_PASSES_TD
