// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @act_quantize
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>
func.func @act_quantize(%x: tensor<?x64xbf16>) {
  // CHECK: fuse.act_quantize %[[X]] act(relu) scales(f8E5M2, hidden = 0.04) rounding(exact) : (tensor<?x64xbf16>) -> tensor<?x64xf8E5M2>
  %0 = fuse.act_quantize %x act(relu) scales(f8E5M2, hidden = 4.0e-2)
         rounding(exact)
       : (tensor<?x64xbf16>) -> tensor<?x64xf8E5M2>
  return
}

// CHECK-LABEL: @gated
// CHECK-SAME: %[[G:.*]]: tensor<?x64xbf16>, %[[U:.*]]: tensor<?x64xbf16>
func.func @gated(%g: tensor<?x64xbf16>, %u: tensor<?x64xbf16>) {
  // CHECK: %{{.*}}:3 = fuse.act_quantize %[[G]] times(%[[U]]) act(silu) also([product, act]) scales(i8, hidden = 0.04) rounding(exact types {act = f32})
  // CHECK-SAME: -> (tensor<?x64xi8>, tensor<?x64xbf16>, tensor<?x64xf32>)
  %0:3 = fuse.act_quantize %g times(%u) act(silu) also([product, act])
           scales(i8, hidden = 4.0e-2) rounding(exact types {act = f32})
         : (tensor<?x64xbf16>, tensor<?x64xbf16>)
           -> (tensor<?x64xi8>, tensor<?x64xbf16>, tensor<?x64xf32>)
  return
}
