// RUN: fuse-opt %s --fuse-unfuse=sites=two#7 -split-input-file \
// RUN:   -verify-diagnostics

// expected-error @below {{no fused op has site 'two#7'; expected one of one#0, two#0}}
module {
  func.func @one(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
    %0 = fuse.mlp %x up(%w) down(%w) act(gelu) rounding(exact) site("one#0")
      : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }
  func.func @two(%x: tensor<?x8xf32>) -> tensor<?x8xi8> {
    %0 = fuse.act_quantize %x act(gelu) scales(i8, hidden = 0.5)
           rounding(exact) site("two#0")
      : (tensor<?x8xf32>) -> tensor<?x8xi8>
    return %0 : tensor<?x8xi8>
  }
}

// -----

// expected-error @below {{no fused op has site 'two#7'; there are no fused ops with a site}}
module {
}
