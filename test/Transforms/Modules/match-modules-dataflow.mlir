// RUN: fuse-opt %s -split-input-file -verify-diagnostics -o %t.fused \
// RUN:   --fuse-match-modules='patterns=((*,**.first),(*,**.second))->Kernel'
// RUN: FileCheck %s --input-file=%t.fused
// RUN: fuse-opt %s -split-input-file -verify-diagnostics -o /dev/null \
// RUN:   --fuse-check-unfuse='patterns=((*,**.first),(*,**.second))->Kernel'

// The fused call has the signature of the first member, what it was called
// with: a default that was left out stays left out. The second member keeps its
// interface too, whatever of it comes from outside.

// CHECK-LABEL: nn.model @signature
// CHECK:      %[[F:.*]] = nn.fused_call @Kernel [@first, @second](%arg0, %arg1)
// CHECK-SAME:   sides(%arg2) site("first+second#0")
// CHECK-NEXT: %[[S:.*]] = nn.identity_call @second(%[[F]]) ignores(%arg2)
// CHECK-SAME:   interface [-1, 0] site("first+second#0")
// CHECK-NEXT: return %[[S]]
nn.model @signature class "M" {
  nn.kernel @Kernel targets(["cpu"])
  nn.module @first class "Add" {
    func.func private @forward(
        tensor<8xf32> {fuse.name = "hidden_states"},
        tensor<8xf32> {fuse.name = "residual"},
        f32 {fuse.name = "scale", fuse.default = 1.0 : f32})
        -> (tensor<8xf32> {fuse.name = "hidden_states"},
            tensor<8xf32> {fuse.name = "residual"})
  }
  nn.module @second class "Act" {
    func.func private @forward(tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>, %r: tensor<8xf32>, %mask: tensor<8xi1>)
      -> tensor<8xf32> {
    // The second output is ignored.
    %a:2 = nn.call_module @first(%x, %r)
      : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %b = nn.call_module @second(%a#0, %mask)
      : (tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

// A value that skips a member, and one that is used twice.

// CHECK-LABEL: nn.model @which_output
// CHECK:      %[[F:.*]] = nn.fused_call @Kernel [@first, @second](%arg0)
// CHECK-NEXT: nn.identity_call @second(%[[F]]) interface [-2, -1, -2]
nn.model @which_output class "M" {
  nn.kernel @Kernel targets(["cpu"])
  nn.module @first class "Split" {
    func.func private @forward(tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  }
  nn.module @second class "Join" {
    func.func private @forward(tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
        -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %a:2 = nn.call_module @first(%x)
      : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %b = nn.call_module @second(%a#1, %a#0, %a#1)
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

// What a later module produces is no input of an earlier one.

nn.model @later class "M" {
  nn.kernel @Kernel targets(["cpu"])
  nn.module @first class "A" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @second class "B" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{operand #0 does not dominate this use}}
    %a = nn.call_module @first(%b) : (tensor<8xf32>) -> tensor<8xf32>
    // expected-note @below {{operand defined here}}
    %b = nn.call_module @second(%a) : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

// Nor does a module get more or other inputs than it names.

nn.model @count class "M" {
  nn.module @first class "A" {
    func.func private @forward(tensor<8xf32>, f32 {fuse.default = 1.0 : f32})
        -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{passes 0 values, 'first' expects 1 to 2}}
    %a = nn.call_module @first() : () -> tensor<8xf32>
    return %a : tensor<8xf32>
  }
}
