// RUN: fuse-opt %s --fuse-gpu-pipeline=stage=gpu | FileCheck %s
// RUN: fuse-opt %s --fuse-gpu-pipeline="stage=nvvm chip=sm_90a" \
// RUN:   | FileCheck %s --check-prefix=NVVM
// RUN: fuse-opt %s --fuse-gpu-pipeline="stage=nvvm chip=sm_80" \
// RUN:   | FileCheck %s --check-prefix=SM80
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_89 \
// RUN:   | FileCheck %s --check-prefix=PTX

// stage=gpu: functions on buffers that launch kernels and nothing else. The
// result is an argument; gate and up are launches of one kernel.

// CHECK-LABEL: func @block(
// CHECK-SAME:    memref<?x24xbf16> {fuse.result})
// CHECK-SAME:    fuse.launch_plan
// CHECK-NOT:     tensor
// CHECK-NOT:     linalg.
// CHECK:         gpu.launch_func @kernels::@reduce_bf16_f32 blocks
// CHECK:         gpu.launch_func @kernels::@map_bf16_f32_bf16_f8E4M3FN blocks
// CHECK:         gpu.launch_func @kernels::@[[UP:contract_f8E4M3FN_f8E4M3FN_f32]] blocks
// CHECK:         gpu.launch_func @kernels::@[[UP]] blocks
// CHECK:         gpu.launch_func @kernels::@[[ACT:map_f32_f32_f8E4M3FN]] blocks
// CHECK:         gpu.launch_func @kernels::@[[DOWN:contract_f8E4M3FN_f8E4M3FN_f32_.+]] blocks
// CHECK:         gpu.launch_func @kernels::@{{map_.*bf16}} blocks
// CHECK-NOT:     gpu.launch_func
// CHECK:         return

// The same block with other leading dimensions needs no kernel of its own.

// CHECK-LABEL: func @batched(
// CHECK:         gpu.launch_func @kernels::@[[UP]] blocks
// CHECK:         gpu.launch_func @kernels::@[[UP]] blocks
// CHECK:         gpu.launch_func @kernels::@[[DOWN]] blocks
// CHECK-LABEL: gpu.module @kernels
// CHECK-COUNT-6: gpu.func
// CHECK-NOT:   gpu.func

// stage=nvvm: one target, kernels in LLVM and NVVM, conversions as the chip
// has them, no library.

// NVVM:       gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_90a", features = "+ptx80">]
// NVVM-NOT:   {{gpu\.func|memref\.|arith\.|math\.|__nv}}
// NVVM:       nvvm.convert.f32x2.to.f8x2
// NVVM:       nvvm.barrier

// SM80:       gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_80", features = "+ptx70">]
// SM80-NOT:   nvvm.convert
// SM80:       nvvm.barrier
// SM80-NOT:   nvvm.convert

// stage=ptx: text.

// PTX:        gpu.binary @kernels [#gpu.object<#nvvm.target<O = 3, chip = "sm_89", features = "+ptx81">
// PTX-SAME:   .version 8.1
// PTX-SAME:   .target sm_89

func.func @block(%x: tensor<?x24xbf16>, %w: tensor<24xbf16>,
                 %g: tensor<40x24xf8E4M3FN>, %u: tensor<40x24xf8E4M3FN>,
                 %d: tensor<24x40xf8E4M3FN>) -> tensor<?x24xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(gelu_tanh)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
       : (tensor<?x24xbf16>, tensor<24xbf16>, tensor<40x24xf8E4M3FN>,
          tensor<40x24xf8E4M3FN>, tensor<24x40xf8E4M3FN>) -> tensor<?x24xbf16>
  return %y : tensor<?x24xbf16>
}

func.func @batched(%x: tensor<2x?x24xbf16>, %w: tensor<24xbf16>,
                   %g: tensor<40x24xf8E4M3FN>, %u: tensor<40x24xf8E4M3FN>,
                   %d: tensor<24x40xf8E4M3FN>) -> tensor<2x?x24xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(gelu_tanh)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
       : (tensor<2x?x24xbf16>, tensor<24xbf16>, tensor<40x24xf8E4M3FN>,
          tensor<40x24xf8E4M3FN>, tensor<24x40xf8E4M3FN>)
         -> tensor<2x?x24xbf16>
  return %y : tensor<2x?x24xbf16>
}
