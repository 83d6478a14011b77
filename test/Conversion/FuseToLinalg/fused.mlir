// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s
// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s --check-prefix=ALL
// RUN: fuse-opt %s --pass-pipeline='builtin.module(func.func(convert-fuse-to-linalg))' | FileCheck %s

// ALL-NOT: fuse.

// A kernel and the chain that it stands for become the same code.

// CHECK-LABEL: func @kernel
// CHECK: math.exp
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: arith.mulf
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: arith.minimumf
// CHECK: arith.truncf %{{.*}} : f32 to f8E4M3FN
func.func @kernel(%g: tensor<?x8xbf16>, %u: tensor<?x8xbf16>)
    -> tensor<?x8xf8E4M3FN> {
  %q = fuse.act_quantize %g times(%u) act(silu)
         scales(f8E4M3FN, hidden = 4.0e-2) rounding(exact)
     : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  return %q : tensor<?x8xf8E4M3FN>
}

// CHECK-LABEL: func @chain
// CHECK: math.exp
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: arith.mulf
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: arith.minimumf
// CHECK: arith.truncf %{{.*}} : f32 to f8E4M3FN
func.func @chain(%g: tensor<?x8xbf16>, %u: tensor<?x8xbf16>)
    -> tensor<?x8xf8E4M3FN> {
  %a = fuse.activation silu %g : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %q = fuse.quantize %p scale 4.0e-2
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  return %q : tensor<?x8xf8E4M3FN>
}

// Groups may hold ops of other dialects.

// CHECK-LABEL: func @group
// CHECK: arith.maximumf
// CHECK: arith.negf
// CHECK: math.tanh
func.func @group(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.group(%a = %x : tensor<?x8xf32>) -> (tensor<?x8xf32>)
         rounding(exact) {
    %r = fuse.activation relu %a : tensor<?x8xf32> -> tensor<?x8xf32>
    %n = arith.negf %r : tensor<?x8xf32>
    %g = fuse.activation gelu_tanh %n : tensor<?x8xf32> -> tensor<?x8xf32>
    fuse.yield %g : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}
