// REQUIRES: ptxas
// RUN: fuse-opt %s --fuse-hopper-pipeline='chip=sm_80 tokens=4096 dispatch=true' \
// RUN:   --fuse-emit-ptx=output=%t.ptx -o /dev/null
// RUN: ptxas -arch=sm_80 -v %t.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: ptxas -arch=sm_86 -v %t.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: ptxas -arch=sm_89 -v %t.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: ptxas -arch=sm_90 -v %t.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: ptxas -arch=sm_100 -v %t.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: ptxas -arch=sm_120 -v %t.ptx -o /dev/null 2>&1 | FileCheck %s

// Kernels for all numbers of tokens, without a spilled register on any GPU that
// runs this PTX. Tiles of 256 rows by 128 tokens need the most registers.

// CHECK-COUNT-8: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: {{[1-9][0-9]*}} bytes stack frame
// CHECK-NOT: {{[1-9][0-9]*}} bytes spill

func.func @bf16(%x: tensor<?x2048xbf16>, %r: tensor<?x2048xbf16>,
                %w: tensor<2048xbf16>, %g: tensor<16384x2048xbf16>,
                %u: tensor<16384x2048xbf16>, %d: tensor<2048x16384xbf16>)
    -> tensor<?x2048xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %w eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(gelu_tanh) add_stream rounding(exact)
    : (tensor<?x2048xbf16>, tensor<?x2048xbf16>, tensor<2048xbf16>,
       tensor<16384x2048xbf16>, tensor<16384x2048xbf16>,
       tensor<2048x16384xbf16>) -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}
