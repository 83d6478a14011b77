// Every function op and data type assembles for every kind of chip, and no kernel
// spills registers to memory.

// REQUIRES: ptxas
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_80 \
// RUN:   --fuse-emit-ptx=output=%t.80.ptx -o /dev/null
// RUN: ptxas -arch=sm_80 -v %t.80.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_89 \
// RUN:   --fuse-emit-ptx=output=%t.89.ptx -o /dev/null
// RUN: ptxas -arch=sm_89 -v %t.89.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_90 \
// RUN:   --fuse-emit-ptx=output=%t.90.ptx -o /dev/null
// RUN: ptxas -arch=sm_90 -v %t.90.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_90a \
// RUN:   --fuse-emit-ptx=output=%t.90a.ptx -o /dev/null
// RUN: ptxas -arch=sm_90a -v %t.90a.ptx -o /dev/null 2>&1 | FileCheck %s

// CHECK-NOT: {{error|warning}}
// CHECK-NOT: {{[1-9][0-9]*}} bytes spill
// CHECK:     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: {{error|warning}}
// CHECK-NOT: {{[1-9][0-9]*}} bytes spill

func.func @rotary_bf16(%x: tensor<?x3x?x16xbf16>, %c: tensor<?x?x16xbf16>,
                       %s: tensor<?x?x16xbf16>) -> tensor<?x3x?x16xbf16> {
  %y = fuse.rotary %x cos(%c) sin(%s)
     : (tensor<?x3x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>)
       -> tensor<?x3x?x16xbf16>
  return %y : tensor<?x3x?x16xbf16>
}

func.func @rotary_partial(%x: tensor<2x?x3x24xbf16>, %c: tensor<1x?x16xf32>,
                          %s: tensor<1x?x16xf32>) -> tensor<2x?x3x24xbf16> {
  %y = fuse.rotary %x cos(%c) sin(%s) heads 2
     : (tensor<2x?x3x24xbf16>, tensor<1x?x16xf32>, tensor<1x?x16xf32>)
       -> tensor<2x?x3x24xbf16>
  return %y : tensor<2x?x3x24xbf16>
}

func.func @rotary_f16(%x: tensor<?x3x10xf16>, %c: tensor<?x6xf16>,
                      %s: tensor<?x6xf16>) -> tensor<?x3x10xf16> {
  %y = fuse.rotary %x cos(%c) sin(%s)
     : (tensor<?x3x10xf16>, tensor<?x6xf16>, tensor<?x6xf16>)
       -> tensor<?x3x10xf16>
  return %y : tensor<?x3x10xf16>
}

func.func @loss_causal(%x: tensor<?x?x300xbf16>, %l: tensor<?x?xi64>)
    -> tensor<f32> {
  %y = fuse.cross_entropy %x, %l mean causal
     : (tensor<?x?x300xbf16>, tensor<?x?xi64>) -> tensor<f32>
  return %y : tensor<f32>
}

func.func @loss_items(%x: tensor<?x37xf32>, %l: tensor<?xi32>, %n: tensor<i64>)
    -> tensor<f32> {
  %y = fuse.cross_entropy %x, %l items(%n) sum ignore_index 3
     : (tensor<?x37xf32>, tensor<?xi32>, tensor<i64>) -> tensor<f32>
  return %y : tensor<f32>
}

func.func @loss_sum(%x: tensor<2x?x37xf16>, %l: tensor<2x?xi64>)
    -> tensor<f32> {
  %y = fuse.cross_entropy %x, %l sum causal
     : (tensor<2x?x37xf16>, tensor<2x?xi64>) -> tensor<f32>
  return %y : tensor<f32>
}

func.func @experts_bf16(%x: tensor<?x40xbf16>, %i: tensor<?x2xi64>,
                        %r: tensor<?x2xbf16>, %u: tensor<5x48x40xbf16>,
                        %d: tensor<5x40x24xbf16>) -> tensor<?x40xbf16> {
  %y = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
     : (tensor<?x40xbf16>, tensor<?x2xi64>, tensor<?x2xbf16>,
        tensor<5x48x40xbf16>, tensor<5x40x24xbf16>) -> tensor<?x40xbf16>
  return %y : tensor<?x40xbf16>
}

func.func @experts_f32(%x: tensor<?x260xf32>, %i: tensor<?x3xi32>,
                       %r: tensor<?x3xf32>, %u: tensor<4x24x260xf32>,
                       %d: tensor<4x260x12xf32>) -> tensor<?x260xf32> {
  %y = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(gelu_tanh)
     : (tensor<?x260xf32>, tensor<?x3xi32>, tensor<?x3xf32>,
        tensor<4x24x260xf32>, tensor<4x260x12xf32>) -> tensor<?x260xf32>
  return %y : tensor<?x260xf32>
}
