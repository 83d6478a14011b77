// RUN: fuse-opt %s -allow-unregistered-dialect --fuse-unfuse \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s -allow-unregistered-dialect --fuse-unfuse=sites=one#0 \
// RUN:   | FileCheck %s --check-prefix=ONE

// Without provenance, members are built in canonical order.

// CHECK-LABEL: func @one
// CHECK-NEXT:  %[[U:.*]] = fuse.linear %arg0, %arg1
// CHECK-NEXT:  %[[A:.*]] = fuse.activation gelu %[[U]]
// CHECK-NEXT:  %[[D:.*]] = fuse.linear %[[A]], %arg2
// CHECK-NEXT:  return %[[D]]
// ONE-LABEL:   func @one
// ONE-NOT:     fuse.mlp
func.func @one(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
               %w2: tensor<8x16xbf16>) -> tensor<?x8xbf16> {
  %0 = fuse.mlp %x up(%w1) down(%w2) act(gelu) rounding(exact) site("one#0")
     : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>)
       -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}

// Discardable attributes come from provenance, and the type of a rounding point
// from the rounding contract.

// CHECK-LABEL: func @two
// CHECK-NEXT:  %[[U:.*]] = fuse.linear %arg0, %arg1
// CHECK-NEXT:  "test.between"()
// CHECK-NEXT:  %[[A:.*]] = fuse.activation gelu %[[U]] {tag}
// CHECK-SAME:    -> tensor<?x16xf32>
// CHECK-NEXT:  %[[G:.*]] = fuse.quantize %[[A]] scale 0.5
// CHECK-NEXT:  "test.after"()
// ONE-LABEL:   func @two
// ONE:         fuse.act_quantize
func.func @two(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>)
    -> tensor<?x16xf8E4M3FN> {
  %0 = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  "test.between"() : () -> ()
  %1 = fuse.act_quantize %0 act(gelu) scales(f8E4M3FN, hidden = 0.5)
         rounding(exact types {act = f32}) site("two#0")
         provenance(attributes = [{tag}, {}])
     : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  "test.after"() : () -> ()
  return %1 : tensor<?x16xf8E4M3FN>
}

// If a place no longer exists, the members replace the kernel.

// CHECK-LABEL: func @surroundings_changed
// CHECK-NEXT:  fuse.linear
// CHECK-NEXT:  %[[W:.*]] = "test.weight"()
// CHECK-NEXT:  fuse.activation
// CHECK-NEXT:  fuse.linear %{{.*}}, %[[W]]
func.func @surroundings_changed(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>)
    -> tensor<?x8xbf16> {
  %w2 = "test.weight"() : () -> tensor<8x16xbf16>
  %0 = fuse.mlp %x up(%w1) down(%w2) act(gelu) rounding(exact)
         provenance(places = [0, 2, 3], before = 1)
     : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>)
       -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}

// CHECK-LABEL: func @displaced
// CHECK-NEXT:  %[[W:.*]] = "test.weight"()
// CHECK-NEXT:  fuse.linear %arg0, %[[W]]
// CHECK-NEXT:  fuse.activation
// CHECK-NEXT:  fuse.linear
func.func @displaced(%x: tensor<?x8xbf16>, %w2: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %w1 = "test.weight"() : () -> tensor<16x8xbf16>
  %0 = fuse.mlp %x up(%w1) down(%w2) act(gelu) rounding(exact)
         provenance(places = [0, 2, 3], before = 1)
     : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>)
       -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}

// CHECK-LABEL: func @group
// CHECK-NEXT:  %[[S:.*]] = fuse.activation silu %arg0
// CHECK-NEXT:  return %[[S]]
func.func @group(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %0 = fuse.group(%a = %x : tensor<?x8xbf16>) -> tensor<?x8xbf16>
         rounding(exact) {
    %1 = fuse.activation silu %a : tensor<?x8xbf16> -> tensor<?x8xbf16>
    fuse.yield %1 : tensor<?x8xbf16>
  }
  return %0 : tensor<?x8xbf16>
}
