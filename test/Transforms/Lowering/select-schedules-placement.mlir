// RUN: fuse-opt %s --fuse-select-schedules=tokens=8 --verify-diagnostics \
// RUN:   | FileCheck %s

// A host packs weights before the first launch, so a computed weight keeps the
// portable path. The other op of the function gets its kernel.

// CHECK-LABEL: func @computed_weight
// CHECK:         fuse.mlp {{.*}} rounding(exact) :
// CHECK:         fuse.mlp {{.*}} {tile.schedule =
func.func @computed_weight(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %up = fuse.activation relu %w : tensor<64x64xbf16> -> tensor<64x64xbf16>
  // expected-warning@+1 {{gets no scheduled kernel: operand 1 is a computed weight, and weights are packed before the first launch}}
  %0 = fuse.mlp %x up(%up) down(%down) act(silu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<?x64xbf16>
  %1 = fuse.mlp %0 up(%w) down(%down) act(silu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<?x64xbf16>
  return %1 : tensor<?x64xbf16>
}

// A plan is a list of launches, without conditions.

// CHECK-LABEL: func @condition
// CHECK-NOT:     tile.schedule
func.func @condition(%c: i1, %x: tensor<?x64xbf16>, %up: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %0 = scf.if %c -> tensor<?x64xbf16> {
    // expected-warning@+1 {{gets no scheduled kernel: it is under control flow, and a plan is a list of launches}}
    %1 = fuse.mlp %x up(%up) down(%down) act(silu) rounding(exact)
      : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
        -> tensor<?x64xbf16>
    scf.yield %1 : tensor<?x64xbf16>
  } else {
    scf.yield %x : tensor<?x64xbf16>
  }
  return %0 : tensor<?x64xbf16>
}

// CHECK-LABEL: func @chosen
// CHECK-NOT:     tile.schedule
func.func @chosen(%x: tensor<8x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<8x64xbf16> {
  %down = fuse.activation relu %w : tensor<64x64xbf16> -> tensor<64x64xbf16>
  // expected-warning@+1 {{gets no scheduled kernel: operand 1 is a computed weight}}
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%down) rounding(exact)
    {tile.schedule = #tile.schedule<tokens = 8, blocks = 2, split_k = 1,
      weight_stages = 2, token_stages = 2, max_in_flight = 0, partials = f32,
      hint = normal, dependent = false>}
    : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  return %0 : tensor<8x64xbf16>
}
