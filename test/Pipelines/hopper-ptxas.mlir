// REQUIRES: ptxas
// RUN: fuse-opt %s --fuse-hopper-pipeline=tokens=128 \
// RUN:   --fuse-emit-ptx=output=%t.ptx -o /dev/null
// RUN: ptxas -arch=sm_90a -v %t.ptx -o /dev/null 2>&1 | FileCheck %s

// The widest token tile needs the most registers. No kernel spills, and ptxas
// serializes no wgmma (C7510 and its like).

// CHECK-NOT: C75
// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: C75
// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: C75
// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: C75
// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: C75

func.func @f8(%x: tensor<?x2048xbf16>, %w: tensor<2048xbf16>,
              %g: tensor<16384x2048xf8E4M3FN>, %u: tensor<16384x2048xf8E4M3FN>,
              %d: tensor<2048x16384xf8E4M3FN>) -> tensor<?x2048xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(gelu_tanh) scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3,
                               up = 1.1e-3, hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
    : (tensor<?x2048xbf16>, tensor<2048xbf16>, tensor<16384x2048xf8E4M3FN>,
       tensor<16384x2048xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}

func.func @bf16(%x: tensor<?x4096xbf16>, %r: tensor<?x4096xbf16>,
                %w: tensor<4096xbf16>, %g: tensor<12288x4096xbf16>,
                %u: tensor<12288x4096xbf16>, %d: tensor<4096x12288xbf16>)
    -> tensor<?x4096xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %w eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(silu) add_stream rounding(exact)
    : (tensor<?x4096xbf16>, tensor<?x4096xbf16>, tensor<4096xbf16>,
       tensor<12288x4096xbf16>, tensor<12288x4096xbf16>,
       tensor<4096x12288xbf16>) -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

// Dense, with everything that a kernel can have.

func.func @dense(%x: tensor<?x784xbf16>, %w: tensor<784xbf16>,
                 %b: tensor<784xbf16>, %u: tensor<2000x784xbf16>,
                 %ub: tensor<2000xbf16>, %d: tensor<784x2000xbf16>,
                 %db: tensor<784xbf16>) -> tensor<?x784xbf16> {
  %y = fuse.mlp %x norm(layer %w, %b eps 1.0e-5) up(%u bias %ub)
         down(%d bias %db) act(gelu) then_add(%x) rounding(exact)
    : (tensor<?x784xbf16>, tensor<784xbf16>, tensor<784xbf16>,
       tensor<2000x784xbf16>, tensor<2000xbf16>, tensor<784x2000xbf16>,
       tensor<784xbf16>, tensor<?x784xbf16>) -> tensor<?x784xbf16>
  return %y : tensor<?x784xbf16>
}

// Few k-steps, in which the most is alive at a time.

func.func @short(%x: tensor<?x1024xbf16>, %w: tensor<1024xbf16>,
                 %b: tensor<1024xbf16>, %u: tensor<3072x1024xf8E4M3FN>,
                 %d: tensor<1024x3072xf8E4M3FN>) -> tensor<?x1024xbf16> {
  %y = fuse.mlp %x norm(layer %w, %b eps 1.0e-5) up(%u) down(%d) act(gelu)
         scales(f8E4M3FN, input = 2.1e-2, up = 1.1e-3, hidden = 4.0e-2,
                down = 9.0e-4) rounding(exact)
    : (tensor<?x1024xbf16>, tensor<1024xbf16>, tensor<1024xbf16>,
       tensor<3072x1024xf8E4M3FN>, tensor<1024x3072xf8E4M3FN>)
      -> tensor<?x1024xbf16>
  return %y : tensor<?x1024xbf16>
}
