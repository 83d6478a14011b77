// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s

// A model is a tree of modules. Names can be numbers. A container needs no
// forward, and a private forward only declares the interface.

// CHECK-LABEL: nn.model @tiny class "TinyForCausalLM"
// CHECK:       nn.fusion_pattern @norm_mlp
// CHECK-SAME:    [("RMSNorm", "layers.*.norm"), ("MLP", "layers.*.mlp")]
// CHECK:       nn.kernel @RMSNormMLP targets(["sm_90"]) returns_intermediates
// CHECK:       nn.module @layers class "ModuleList"
// CHECK:       nn.module @"0" class "DecoderLayer"
// CHECK:       nn.module @norm class "RMSNorm"
// CHECK-NEXT:  nn.parameter @weight : tensor<8xbf16>
// CHECK:       nn.get_parameter @weight : tensor<8xbf16>
// CHECK:       nn.module @mlp class "MLP" hooks(["accelerate"])
// CHECK-SAME:    tensor_parallel(<kind = colwise, axis = "tp", size = 2>)
// CHECK-NEXT:  nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
// CHECK-SAME:    : tensor<8x8xbf16>
// CHECK:       func.func private @forward
// CHECK:       %[[N:.*]] = nn.call_module @norm(%arg0)
// CHECK:       nn.call_module @mlp(%[[N]])
// CHECK:       nn.call_module @layers::@"0"(%arg0)
nn.model @tiny class "TinyForCausalLM"
    attributes {fuse.must_fuse = ["layers.*.mlp"], fuse.expect_sites = 1} {
  nn.fusion_pattern @norm_mlp [("RMSNorm", "layers.*.norm"),
                                 ("MLP", "layers.*.mlp")]
  nn.kernel @RMSNormMLP targets(["sm_90"]) returns_intermediates
  nn.module @layers class "ModuleList" {
    nn.module @"0" class "DecoderLayer" {
      nn.module @norm class "RMSNorm" {
        nn.parameter @weight : tensor<8xbf16>
        func.func @forward(%x: tensor<?x8xbf16> {fuse.name = "hidden_states"})
            -> tensor<?x8xbf16> {
          %w = nn.get_parameter @weight : tensor<8xbf16>
          %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
            : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
          return %y : tensor<?x8xbf16>
        }
      }
      nn.module @mlp class "MLP" hooks(["accelerate"])
          tensor_parallel(<kind = colwise, axis = "tp", size = 2>) {
        nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
          : tensor<8x8xbf16>
        func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
      }
      func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
        %n = nn.call_module @norm(%x)
          : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
        %m = nn.call_module @mlp(%n)
          : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
        return %m : tensor<?x8xbf16>
      }
    }
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %y = nn.call_module @layers::@"0"(%x)
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %y : tensor<?x8xbf16>
  }
}

// Two calls of one module share its parameters.

// CHECK-LABEL: nn.model @shared
// CHECK:       %[[A:.*]] = nn.call_module @norm(%arg0)
// CHECK:       nn.call_module @norm(%[[A]])
nn.model @shared class "Shared" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %a = nn.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %b = nn.call_module @norm(%a) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %b : tensor<?x8xbf16>
  }
}

// Several inputs and outputs, of which the caller ignores one. A call can omit
// a trailing argument with a default.

// CHECK-LABEL: nn.model @interface
// CHECK:       %[[N:.*]]:2 = nn.call_module @split(%arg0) :
// CHECK:       nn.call_module @split(%[[N]]#1, %{{.*}}) :
nn.model @interface class "Interface" {
  nn.module @split class "Split" {
    func.func private @forward(tensor<?x8xbf16> {fuse.name = "x"},
        f32 {fuse.name = "scale", fuse.default = 1.0 : f32})
        -> (tensor<?x8xbf16>, tensor<?x8xbf16>)
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %two = arith.constant 2.0 : f32
    %a:2 = nn.call_module @split(%x)
      : (tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>)
    %b:2 = nn.call_module @split(%a#1, %two)
      : (tensor<?x8xbf16>, f32) -> (tensor<?x8xbf16>, tensor<?x8xbf16>)
    return %b#0 : tensor<?x8xbf16>
  }
}

// A fused chain. The fused call replaces the call of the first member, and an
// identity call that of the other, whose ignored value is a side input.

// CHECK-LABEL: nn.model @fused
// CHECK:       %[[F:.*]]:2 = nn.fused_call @Kernel [@norm, @mlp](%arg0)
// CHECK-SAME:    sides(%arg1) also [0] site("norm+mlp#0")
// CHECK:       nn.identity_call @mlp(%[[F]]#0) ignores(%arg1)
// CHECK-SAME:    interface [-1, 0] site("norm+mlp#0")
nn.model @fused class "Fused" {
  nn.kernel @Kernel targets(["cpu"]) returns_intermediates
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>)
      -> (tensor<?x8xbf16>, tensor<?x8xf32>) {
    %f:2 = nn.fused_call @Kernel [@norm, @mlp](%x) sides(%mask) also [0]
             site("norm+mlp#0")
      : (tensor<?x8xbf16>, tensor<?xi1>) -> (tensor<?x8xf32>, tensor<?x8xbf16>)
    %m = nn.identity_call @mlp(%f#0) ignores(%mask) interface [-1, 0]
           site("norm+mlp#0")
      : (tensor<?x8xf32>, tensor<?xi1>) -> tensor<?x8xf32>
    return %f#1, %m : tensor<?x8xbf16>, tensor<?x8xf32>
  }
}
