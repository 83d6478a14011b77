// RUN: fuse-run %s --verify --dim=0,1,3,17 | FileCheck %s

// Sizes are no multiples of a vector or a block; tokens may be missing.

// CHECK-NOT: FAILED
// CHECK-COUNT-3: bit-equal
// CHECK-NOT: FAILED

func.func @bf16(
    %x: tensor<?x20xbf16>, %r: tensor<?x20xbf16>, %nw: tensor<20xbf16>,
    %g: tensor<37x20xbf16>, %u: tensor<37x20xbf16>,
    %d: tensor<20x37xbf16>) -> tensor<?x20xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %nw eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(silu) add_stream
         rounding(exact)
     : (tensor<?x20xbf16>, tensor<?x20xbf16>, tensor<20xbf16>,
        tensor<37x20xbf16>, tensor<37x20xbf16>, tensor<20x37xbf16>)
       -> tensor<?x20xbf16>
  return %y : tensor<?x20xbf16>
}

func.func @f16(
    %x: tensor<?x20xf16>, %r: tensor<?x20xf16>, %nw: tensor<20xf16>,
    %g: tensor<37x20xf16>, %u: tensor<37x20xf16>,
    %d: tensor<20x37xf16>) -> tensor<?x20xf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %nw eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(gelu_tanh) add_stream
         rounding(exact)
     : (tensor<?x20xf16>, tensor<?x20xf16>, tensor<20xf16>,
        tensor<37x20xf16>, tensor<37x20xf16>, tensor<20x37xf16>)
       -> tensor<?x20xf16>
  return %y : tensor<?x20xf16>
}

func.func @f32(
    %x: tensor<?x20xf32>, %r: tensor<?x20xf32>, %nw: tensor<20xf32>,
    %g: tensor<37x20xf32>, %u: tensor<37x20xf32>,
    %d: tensor<20x37xf32>) -> tensor<?x20xf32> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %nw eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(relu2) add_stream
         rounding(exact)
     : (tensor<?x20xf32>, tensor<?x20xf32>, tensor<20xf32>,
        tensor<37x20xf32>, tensor<37x20xf32>, tensor<20x37xf32>)
       -> tensor<?x20xf32>
  return %y : tensor<?x20xf32>
}
