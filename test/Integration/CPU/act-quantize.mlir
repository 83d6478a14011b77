// RUN: fuse-run %s --verify --dim=0,1,3,17 | FileCheck %s

// Elementwise kernels, and a group.

// CHECK-NOT: FAILED
// CHECK-COUNT-3: bit-equal
// CHECK-NOT: FAILED

func.func @gated(%g: tensor<?x21xbf16>, %u: tensor<?x21xbf16>)
    -> tensor<?x21xf8E4M3FN> {
  %q = fuse.act_quantize %g times(%u) act(silu)
         scales(f8E4M3FN, hidden = 4.0e-2) rounding(exact)
     : (tensor<?x21xbf16>, tensor<?x21xbf16>) -> tensor<?x21xf8E4M3FN>
  return %q : tensor<?x21xf8E4M3FN>
}

func.func @plain(%x: tensor<?x21xf32>) -> tensor<?x21xf8E5M2> {
  %a = fuse.activation gelu_tanh %x : tensor<?x21xf32> -> tensor<?x21xf32>
  %q = fuse.quantize %a scale 0.25 order divide
    : (tensor<?x21xf32>) -> tensor<?x21xf8E5M2>
  return %q : tensor<?x21xf8E5M2>
}

func.func @group(%x: tensor<?x21xf16>) -> tensor<?x21xf16> {
  %y = fuse.group(%a = %x : tensor<?x21xf16>) -> (tensor<?x21xf16>)
         rounding(exact) {
    %s = fuse.activation silu %a : tensor<?x21xf16> -> tensor<?x21xf16>
    %t = fuse.residual_add %s, %a
      : (tensor<?x21xf16>, tensor<?x21xf16>) -> tensor<?x21xf16>
    fuse.yield %t : tensor<?x21xf16>
  }
  return %y : tensor<?x21xf16>
}
