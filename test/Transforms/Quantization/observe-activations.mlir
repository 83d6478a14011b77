// RUN: fuse-opt %s --fuse-observe-activations -split-input-file \
// RUN:   -verify-diagnostics --remarks-filter=quant --remark-format=emitRemark \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --fuse-observe-activations --fuse-observe-activations \
// RUN:   -split-input-file | FileCheck %s

// A value that two linears read is observed once, with both names. A second run
// observes nothing.

// CHECK-LABEL: func @mlp
// CHECK-SAME:    -> (tensor<?x4xf32>,
// CHECK-SAME:        tensor<?x8xf32> {fuse.observed = ["gate", "linear#1"]},
// CHECK-SAME:        tensor<?x4xf32> {fuse.observed = ["linear#2"]})
// CHECK:       return %{{.*}}, %arg0, %[[P:.*]] :
func.func @mlp(%x: tensor<?x8xf32>,
               %w: tensor<4x8xf32> {fuse.parameter = "gate.weight"},
               %u: tensor<4x8xf32>, %v: tensor<4x4xf32>) -> tensor<?x4xf32> {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  %1 = fuse.linear %x, %u
    : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  %2 = fuse.gated_mul %0, %1
    : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %3 = fuse.linear %2, %v
    : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  return %3 : tensor<?x4xf32>
}

// Linears that share a weight have different names.

// CHECK-LABEL: func @shared_weight
// CHECK-SAME:    {fuse.observed = ["tied", "tied@1"]}
func.func @shared_weight(%x: tensor<?x8xf32>,
                         %w: tensor<8x8xf32> {fuse.parameter = "tied.weight"})
    -> tensor<?x8xf32> {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %1 = fuse.linear %x, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// -----

// CHECK-LABEL: func @no_quantized
// CHECK-NOT:   fuse.observed
func.func @no_quantized(%x: tensor<?x8xi8>,
                        %w: tensor<4x8xi8> {fuse.parameter = "up.weight"})
    -> tensor<?x4xf32> {
  // expected-remark-re @below {{[Missed] up | Category:quant{{.*}}Reason="the linear is already quantized"}}
  %0 = fuse.linear %x, %w scales(1.0, 1.0)
    : (tensor<?x8xi8>, tensor<4x8xi8>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

// CHECK-LABEL: func @no_nested
// CHECK-NOT:   fuse.observed
func.func @no_nested(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>, %c: i1)
    -> tensor<?x8xf32> {
  %0 = scf.if %c -> tensor<?x8xf32> {
    // expected-remark-re @below {{[Missed] linear#0 | Category:quant{{.*}}Reason="the linear is in a nested region"}}
    %1 = fuse.linear %x, %w
      : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
    scf.yield %1 : tensor<?x8xf32>
  } else {
    scf.yield %x : tensor<?x8xf32>
  }
  return %0 : tensor<?x8xf32>
}
