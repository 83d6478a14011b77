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
    `linalg.generic` ops whose bodies compute in f32 and round once to the
    element type of the result. Layer ops that were never fused are lowered in
    the same way, so a fused chain and the unfused one become the same code.

    Every `linalg.generic` works on a rank-2 view, tokens times features:
    leading dimensions are collapsed before a layer and expanded after it, and
    `canonicalize` removes the pairs between neighbors. A linear is

    - `linalg.fill` with 0 and one reduction over `(token, output, input)`
      with both operands contiguous along `input`: `math.fma` in f32, or
      integer multiply-add in i32 for i8 operands;
    - one elementwise op for scale, bias and rounding, where any is needed.

    Norm statistics are row reductions in f32, again with `math.fma`; the sum
    is divided by the feature size and the reciprocal square root is taken
    with `math.rsqrt`. Conversions to 8-bit floats and i8 clamp to the finite
    range first and therefore saturate on every path below.

    Function ops become structured ops too; what they gather is read by
    `tensor.extract` in a body, at an index that is in bounds whatever the
    operands hold. A cross entropy takes two passes over its logits, one for
    the largest and one for the sum of exponentials and the label's logit;
    experts multiply with the weights they are routed to and no others.

    Declines nothing: each op that verifies is lowered.

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
  let statistics = [
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
    `gpu.module`. Buffers become bare pointers, which is why kernels take
    memrefs of rank 0 or static shape; indices become 64-bit integers.

    Functions of math that are an instruction (sqrt, fma, abs, rounding) become
    LLVM intrinsics. Unlike `convert-gpu-to-nvvm`, the pass never leaves a call
    of libdevice; it fails where it would need one.

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
    Unlike `gpu-module-to-binary`, which runs the pipeline of -O3, it runs the
    few passes of LLVM that find something in kernels from these pipelines: the
    assembler of PTX optimizes once more.

    Fails where a module has not exactly one `#nvvm.target` or is for a chip
    that is not supported; LLVM would compile for another one.

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
    Replaces every linalg op of every function by a `gpu.launch_func` and puts
    its kernel into the one `gpu.module` that the pass adds to the module.
    Kernels that are equal are there once, however many layers use them.

    The loops of an op decide on its kernel; its body is copied as it is:

    - `contract`, for a reduction loop k and two parallel loops m and n that
      no input along k names together: blocks of 256 threads compute tiles of
      64 x 64, each thread 4 x 4 points in registers. What the body computes
      along m and k only, or n and k only, is staged in workgroup memory in
      steps of 16 along k. Any number of batch loops.
    - `reduce`, for reductions that may be reordered (a commutative op with a
      neutral element, or a fused multiply-add) and have more than 8 elements:
      a block per result, partial results combined as a tree in workgroup
      memory. Rows that the body loads from, and operands along them, are read
      in vectors of 8 where all buffers begin at multiples of 16 bytes, and
      blocks that may load from the same rows are neighbors.
    - `map` and `map_reduce`, for everything else: a thread per result.

    All sizes may be dynamic and none need be a multiple of a tile. A constant
    that filled the output of a reduction becomes its initial value. Loops that
    are neighbors in all operands become one, so leading dimensions cost
    nothing.

    A body may load from buffers that are not operands, at any index, as long as
    the op does not write them.

    A kernel's parameters are, in this order: one pointer per distinct buffer
    of the op, then of its body (a memref of rank 0, which the bare-pointer
    convention passes as one address), one value per scalar operand that is not
    constant, one index per size, stride or offset that is not static. The
    number of threads is `known_block_size`, and the grid is an expression of
    sizes in front of the launch. A launch whose grid has a zero must be
    skipped.

    The pass fails on ops that it can neither put into a kernel nor leave on
    the host, which keeps allocations (the workspace), views, sizes and
    launches. Buffers of different function arguments must not overlap.

    After this pass no linalg op is left.

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
    Replaces `arith.extf` from and `arith.truncf` to f8E4M3FN and f8E5M2 by the
    instructions that sm_89 and later chips have. Extension is exact;
    truncation rounds to nearest even and saturates: a value beyond the range
    becomes the largest finite one. (`arith.truncf` alone would give NaN or
    infinity there; whatever the fuse dialect quantizes is limited before.)

    Declines vectors, f64 and other rounding modes. Chips before sm_89 need
    `fuse-expand-small-floats` instead.

    After this pass no scalar conversion of f8E4M3FN and f8E5M2 from or to
    f16, bf16 and f32 is left.

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
    Takes public functions with a `fuse.gated_mlp`, `fuse.mlp` or
    `fuse.norm_linear`, in which every op works on the same tokens: such fused
    ops, `fuse.rms_norm`, `fuse.layer_norm`, `fuse.linear`, `fuse.activation`,
    `fuse.residual_add`, and any `linalg.generic` that computes elements in f32.
    Weights are arguments of the function, as `[out, in]` or behind a
    `linalg.transpose`. The pass writes the phases of one kernel into the module
    `@cpu_kernels`. A fused op has up to three:

    1. *rows*: residual add and norm of each token, rounded as the contract
       says, to the input of the products; none if they read the input as it is;
    2. *hidden*: the first product on packed weights, with bias, activation and
       gated product after it;
    3. *output*: the last product of each linear, with bias and residual add.

    A norm has *rows* alone, a linear *output*. Elementwise ops that follow each
    other share the phase *map*: a vector of a row passes all of them in
    registers, rounded where they round.

    A product walks over panels: `registers` decides whether two or four
    vectors of outputs side by side, gate and up taking half of a panel each.
    For every k a panel has the weights of its outputs next to each other, in
    bf16 those of k and k + 1 as pairs. One call of `@multiply_*` keeps the sums
    of up to six tokens and one panel in registers. Every sum runs over k in
    order, one term (with `dot`: one pair, with `tiles`: 32 terms) after the
    other, so it depends
    neither on the number of tokens nor on that of threads.

    The caller runs the tasks of a phase in any order on any number of threads:
    a task is one panel and up to 128 tokens. `fuse.cpu_plan` on the function
    says what to pass, which weights to pack, and how much workspace a token
    needs.

    Leaves functions without a fused op. Declines, with a remark, functions with
    any other op, quantized ops, types other than f32 and bf16, an odd width in
    bf16, and results that are arguments or are there twice.

    After this pass functions with `fuse.cpu_plan` can be replaced by the
    phases that it names. Nothing else has changed.

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
    "mlir::vector::VectorDialect"
  ];
}

def ConvertFuseToTilePass
    : Pass<"convert-fuse-to-tile", "::mlir::ModuleOp"> {
  let summary = "Emit scheduled kernels of fused ops as tile kernels";
  let description = [{
    Replaces each fused op that carries a `tile.schedule` by a `tile.launch`
    and emits its kernel into a gpu.module: one persistent launch for norm,
    products, activation, quantization and residual adds; under a
    `#tile.prefill_schedule`, a launch for the norm and one for each product,
    which share a workspace. Ops whose kernels
    would be the same share one; scales are arguments of the launch.

    Declines nothing silently: an op without a schedule is left for the
    portable path, an op that its schedule does not fit is an error.

    After this pass no op has a `tile.schedule`. Which argument of a kernel is
    what, how weights are packed and how much scratch memory is needed stands
    in the `plan` of the launch.

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
    "::tile::TileDialect"
  ];
}

def ConvertTileToNVVMPass
    : Pass<"convert-tile-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Lower tile kernels to nvvm, llvm, scf and arith";
  let description = [{
    Turns each `tile.kernel` of a gpu.module into an `llvm.func` and each tile
    op inside it into what the op's description says. Accumulators become one
    value per register, in loops too. `math.erf`, which PTX lacks, becomes a
    polynomial.

    Declines nothing: an op that verifies is lowered, for sm_90a and PTX 8.0.

    After this pass the module has no tile op. `convert-scf-to-cf` and
    `convert-to-llvm` come next.

    Example: `fuse-opt kernel.mlir
    --pass-pipeline='builtin.module(gpu.module(convert-tile-to-nvvm))'`
  }];
  let statistics = [
    Statistic<"numKernels", "kernels-lowered", "Kernels lowered">,
    Statistic<"numOps", "ops-lowered", "Ops inside of kernels lowered">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect"
  ];
}

#endif // FUSE_CONVERSION_PASSES_TD
