// RUN: fuse-opt %s --convert-fuse-to-cpu --remarks-filter=codegen \
// RUN:   --remark-format=emitRemark -verify-diagnostics | FileCheck %s

// Functions without a kernel for a CPU are left to the portable path, with the
// reason.

// CHECK-NOT: fuse.cpu_plan
// CHECK-NOT: cpu_kernels

func.func @quantized(%x: tensor<?x8xbf16>, %u: tensor<8x8xf8E4M3FN>,
                     %d: tensor<8x8xf8E4M3FN>) -> tensor<?x8xbf16> {
  // expected-remark @below {{[Missed] cpu-kernel | Category:codegen | Reason="the op is quantized", Suggestion="the portable path compiles this kernel"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu)
         scales(f8E4M3FN, input = 1.0, up = 1.0, hidden = 1.0, down = 1.0)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<8x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>)
      -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

func.func @half(%x: tensor<?x8xf16>, %u: tensor<8x8xf16>, %d: tensor<8x8xf16>)
    -> tensor<?x8xf16> {
  // expected-remark @below {{Reason="an operand is f16, not f32 or bf16"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x8xf16>, tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<?x8xf16>
  return %y : tensor<?x8xf16>
}

func.func @odd(%x: tensor<?x7xbf16>, %u: tensor<8x7xbf16>,
               %d: tensor<7x8xbf16>) -> tensor<?x7xbf16> {
  // expected-remark @below {{Reason="the width 7 is odd"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x7xbf16>, tensor<8x7xbf16>, tensor<7x8xbf16>)
      -> tensor<?x7xbf16>
  return %y : tensor<?x7xbf16>
}

func.func @half_point(%x: tensor<?x8xbf16>, %g: tensor<8x8xbf16>,
                      %u: tensor<8x8xbf16>, %d: tensor<8x8xbf16>)
    -> tensor<?x8xbf16> {
  // expected-remark @below {{Reason="the intermediate 'gate' is f16, not f32 or bf16"}}
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         rounding(exact types {gate = f16})
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>,
       tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

func.func @group(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-remark @below {{Reason="there is no scheduled kernel for fuse.group"}}
  %y = fuse.group(%a = %x : tensor<?x8xf32>) -> (tensor<?x8xf32>)
         rounding(exact) {
    %s = fuse.activation silu %a : tensor<?x8xf32> -> tensor<?x8xf32>
    fuse.yield %s : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// Every op of a function must be a step of the kernel.

func.func @other(%x: tensor<?x8xf32>, %u: tensor<8x8xf32>, %d: tensor<8x8xf32>)
    -> tensor<?x8xf32> {
  // expected-remark @below {{Reason="there is no scheduled kernel for math.absf"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %z = math.absf %y : tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}

func.func @quantized_linear(%x: tensor<?x8xf32>, %u: tensor<8x8xf32>,
                            %d: tensor<8x8xf32>, %q: tensor<?x8xi8>,
                            %w: tensor<8x8xi8>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  // expected-remark @below {{Reason="a linear is quantized"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %z = fuse.linear %q, %w scales(1.0, 1.0)
    : (tensor<?x8xi8>, tensor<8x8xi8>) -> tensor<?x8xf32>
  return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}

func.func @inputs(%x: tensor<?x8xf32>, %w: tensor<?x8xf32>, %u: tensor<8x8xf32>,
                  %d: tensor<8x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  // expected-remark @below {{Reason="the input of an op is made by no earlier step"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %z = fuse.rms_norm %w eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}

func.func @sum(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %u: tensor<8x8xf32>,
               %d: tensor<8x8xf32>) -> tensor<?x8xf32> {
  // expected-remark @below {{Reason="an elementwise op reads a value that no earlier step makes"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %z = fuse.residual_add %y, %r
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}

func.func @twice(%x: tensor<?x8xf32>, %u: tensor<8x8xf32>, %d: tensor<8x8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  // expected-remark @below {{Reason="a result is an argument, or is returned twice"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %y, %y : tensor<?x8xf32>, tensor<?x8xf32>
}

func.func @weight(%x: tensor<?x8xf32>, %u: tensor<8x8xf32>, %d: tensor<8x8xf32>,
                  %w: tensor<8xf32>) -> tensor<?x8xf32> {
  %n = arith.constant dense<1.0> : tensor<8xf32>
  // expected-remark @below {{Reason="a parameter is neither an argument of the function nor a part of arguments"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %z = fuse.rms_norm %y weight(%n) eps 1.0e-6
    : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}

// A function without a fused op has no remark, and loses its plan.

func.func @layers(%x: tensor<?x8xf32>, %u: tensor<8x8xf32>)
    -> tensor<?x8xf32> attributes {fuse.cpu_plan = {}} {
  %y = fuse.linear %x, %u
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
