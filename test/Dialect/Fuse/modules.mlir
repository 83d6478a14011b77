// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s

// A model is a tree of modules. Names can be numbers. A container needs no
// forward, and a private forward only declares the interface.

// CHECK-LABEL: fuse.model @tiny class "TinyForCausalLM"
// CHECK:       fuse.fusion_pattern @norm_mlp
// CHECK-SAME:    [("RMSNorm", "layers.*.norm"), ("MLP", "layers.*.mlp")]
// CHECK:       fuse.kernel @RMSNormMLP targets(["sm_90"]) returns_intermediates
// CHECK:       fuse.module @layers class "ModuleList"
// CHECK:       fuse.module @"0" class "DecoderLayer"
// CHECK:       fuse.module @norm class "RMSNorm"
// CHECK-NEXT:  fuse.parameter @weight : tensor<8xbf16>
// CHECK:       fuse.get_parameter @weight : tensor<8xbf16>
// CHECK:       fuse.module @mlp class "MLP" hooks(["accelerate"])
// CHECK-SAME:    tensor_parallel("colwise")
// CHECK:       func.func private @forward
// CHECK:       %[[N:.*]] = fuse.call_module @norm(%arg0)
// CHECK:       fuse.call_module @mlp(%[[N]])
// CHECK:       fuse.call_module @layers::@"0"(%arg0)
fuse.model @tiny class "TinyForCausalLM"
    attributes {fuse.must_fuse = ["layers.*.mlp"], fuse.expect_sites = 1} {
  fuse.fusion_pattern @norm_mlp [("RMSNorm", "layers.*.norm"),
                                 ("MLP", "layers.*.mlp")]
  fuse.kernel @RMSNormMLP targets(["sm_90"]) returns_intermediates
  fuse.module @layers class "ModuleList" {
    fuse.module @"0" class "DecoderLayer" {
      fuse.module @norm class "RMSNorm" {
        fuse.parameter @weight : tensor<8xbf16>
        func.func @forward(%x: tensor<?x8xbf16> {fuse.name = "hidden_states"})
            -> tensor<?x8xbf16> {
          %w = fuse.get_parameter @weight : tensor<8xbf16>
          %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
            : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
          return %y : tensor<?x8xbf16>
        }
      }
      fuse.module @mlp class "MLP" hooks(["accelerate"])
          tensor_parallel("colwise") {
        func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
      }
      func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
        %n = fuse.call_module @norm(%x)
          : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
        %m = fuse.call_module @mlp(%n)
          : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
        return %m : tensor<?x8xbf16>
      }
    }
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %y = fuse.call_module @layers::@"0"(%x)
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %y : tensor<?x8xbf16>
  }
}

// Two calls of one module share its parameters.

// CHECK-LABEL: fuse.model @shared
// CHECK:       %[[A:.*]] = fuse.call_module @norm(%arg0)
// CHECK:       fuse.call_module @norm(%[[A]])
fuse.model @shared class "Shared" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %a = fuse.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %b = fuse.call_module @norm(%a) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %b : tensor<?x8xbf16>
  }
}

// Several inputs and outputs, of which the caller ignores one. A call can omit
// a trailing argument with a default.

// CHECK-LABEL: fuse.model @interface
// CHECK:       %[[N:.*]]:2 = fuse.call_module @split(%arg0) :
// CHECK:       fuse.call_module @split(%[[N]]#1, %{{.*}}) :
fuse.model @interface class "Interface" {
  fuse.module @split class "Split" {
    func.func private @forward(tensor<?x8xbf16> {fuse.name = "x"},
        f32 {fuse.name = "scale", fuse.default = 1.0 : f32})
        -> (tensor<?x8xbf16>, tensor<?x8xbf16>)
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %two = arith.constant 2.0 : f32
    %a:2 = fuse.call_module @split(%x)
      : (tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>)
    %b:2 = fuse.call_module @split(%a#1, %two)
      : (tensor<?x8xbf16>, f32) -> (tensor<?x8xbf16>, tensor<?x8xbf16>)
    return %b#0 : tensor<?x8xbf16>
  }
}

// A fused chain. The fused call replaces the call of the first member, and an
// identity call that of the other, whose ignored value is a side input.

// CHECK-LABEL: fuse.model @fused
// CHECK:       %[[F:.*]]:2 = fuse.fused_call @Kernel [@norm, @mlp](%arg0)
// CHECK-SAME:    sides(%arg1) also [0] site("norm+mlp#0")
// CHECK:       fuse.identity_call @mlp(%[[F]]#0) ignores(%arg1)
// CHECK-SAME:    interface [-1, 0] site("norm+mlp#0")
fuse.model @fused class "Fused" {
  fuse.kernel @Kernel targets(["cpu"]) returns_intermediates
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>)
      -> (tensor<?x8xbf16>, tensor<?x8xf32>) {
    %f:2 = fuse.fused_call @Kernel [@norm, @mlp](%x) sides(%mask) also [0]
             site("norm+mlp#0")
      : (tensor<?x8xbf16>, tensor<?xi1>) -> (tensor<?x8xf32>, tensor<?x8xbf16>)
    %m = fuse.identity_call @mlp(%f#0) ignores(%mask) interface [-1, 0]
           site("norm+mlp#0")
      : (tensor<?x8xf32>, tensor<?xi1>) -> tensor<?x8xf32>
    return %f#1, %m : tensor<?x8xbf16>, tensor<?x8xf32>
  }
}
