// RUN: fuse-opt %s --convert-fuse-to-host --remarks-filter=codegen \
// RUN:     --remark-format=emitRemark -o %t 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=NONE < %t

// What has no kernel stays as it is.

// NONE-NOT: fuse.host_plan
// NONE-NOT: host_kernels

// CHECK: [[@LINE+3]]:8: remark: [Missed] host-kernel | Category:codegen | Reason="the op is quantized", Suggestion="the portable path takes this kernel"
func.func @quantized(%x: tensor<?x8xbf16>, %u: tensor<8x8xf8E4M3FN>,
                     %d: tensor<8x8xf8E4M3FN>) -> tensor<?x8xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu)
         scales(f8E4M3FN, input = 1.0, up = 1.0, hidden = 1.0, down = 1.0)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<8x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>)
      -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// CHECK: Reason="an operand is f16, not f32 or bf16"
func.func @half(%x: tensor<?x8xf16>, %u: tensor<8x8xf16>, %d: tensor<8x8xf16>)
    -> tensor<?x8xf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x8xf16>, tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<?x8xf16>
  return %y : tensor<?x8xf16>
}

// CHECK: Reason="the width 7 is odd"
func.func @odd(%x: tensor<?x7xbf16>, %u: tensor<8x7xbf16>,
               %d: tensor<7x8xbf16>) -> tensor<?x7xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x7xbf16>, tensor<8x7xbf16>, tensor<7x8xbf16>)
      -> tensor<?x7xbf16>
  return %y : tensor<?x7xbf16>
}

// CHECK: Reason="the intermediate 'gate' is f16, not f32 or bf16"
func.func @half_point(%x: tensor<?x8xbf16>, %g: tensor<8x8xbf16>,
                      %u: tensor<8x8xbf16>, %d: tensor<8x8xbf16>)
    -> tensor<?x8xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         rounding(exact types {gate = f16})
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>,
       tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// CHECK: Reason="there is no scheduled kernel for fuse.group"
func.func @group(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.group(%a = %x : tensor<?x8xf32>) -> (tensor<?x8xf32>)
         rounding(exact) {
    %s = fuse.activation silu %a : tensor<?x8xf32> -> tensor<?x8xf32>
    fuse.yield %s : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// A function of several ops is not looked at, and has no plan afterwards.
// CHECK-NOT: remark
func.func @two(%x: tensor<?x8xf32>, %u: tensor<8x8xf32>, %d: tensor<8x8xf32>)
    -> tensor<?x8xf32> attributes {fuse.host_plan = {}} {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %z = fuse.residual_add %x, %y
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}
