// REQUIRES: ptxas
// RUN: fuse-opt %s --fuse-hopper-pipeline='chip=sm_80 tokens=4096 dispatch=true' \
// RUN:   --fuse-emit-ptx=output=%t.80.ptx -o /dev/null
// RUN: ptxas -arch=sm_80 -v %t.80.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: ptxas -arch=sm_86 -v %t.80.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-hopper-pipeline='chip=sm_89 tokens=4096 dispatch=true' \
// RUN:   --fuse-emit-ptx=output=%t.89.ptx -o /dev/null
// RUN: ptxas -arch=sm_89 -v %t.89.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-hopper-pipeline='chip=sm_90 tokens=4096 dispatch=true' \
// RUN:   --fuse-emit-ptx=output=%t.90.ptx -o /dev/null
// RUN: ptxas -arch=sm_90 -v %t.90.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: ptxas -arch=sm_100 -v %t.90.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: ptxas -arch=sm_120 -v %t.89.ptx -o /dev/null 2>&1 | FileCheck %s

// Kernels of stored values for all numbers of tokens, without a spilled
// register: products of f16 before sm_89, and those of 8-bit floats from it on.
// On sm_90 and sm_100, ptxas makes 16-bit operands of these.

// CHECK-COUNT-8: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: {{[1-9][0-9]*}} bytes stack frame
// CHECK-NOT: {{[1-9][0-9]*}} bytes spill

func.func @f8(%x: tensor<?x2048xbf16>, %r: tensor<?x2048xbf16>,
              %w: tensor<2048xbf16>, %g: tensor<16384x2048xf8E4M3FN>,
              %u: tensor<16384x2048xf8E4M3FN>, %d: tensor<2048x16384xf8E4M3FN>)
    -> tensor<?x2048xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %w eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(gelu_tanh) add_stream
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
    : (tensor<?x2048xbf16>, tensor<?x2048xbf16>, tensor<2048xbf16>,
       tensor<16384x2048xf8E4M3FN>, tensor<16384x2048xf8E4M3FN>,
       tensor<2048x16384xf8E4M3FN>) -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}
