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
  // expected-warning@+1 {{gets no scheduled kernel: FUSE-N160 computed-weight: operand 1 is a computed weight, and weights are packed before the first launch; it reads the result of 'fuse.activation'}}
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
  // expected-warning@+1 {{gets no scheduled kernel: FUSE-N160 computed-weight: operand 1 is a computed weight}}
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%down) rounding(exact)
    {tile.schedule = #tile.schedule<tokens = 8, blocks = 2, split_k = 1,
      weight_stages = 2, token_stages = 2, max_in_flight = 0, partials = f32,
      hint = normal, dependent = false>}
    : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  return %0 : tensor<8x64xbf16>
}

// Slices, transposes and concatenations of arguments are packed as weights are.

// CHECK-LABEL: func @views
// CHECK:         fuse.gated_mlp {{.*}} {tile.schedule =
func.func @views(%x: tensor<8x64xbf16>, %merged: tensor<256x64xbf16>,
    %a: tensor<64x64xbf16>, %b: tensor<64x64xbf16>) -> tensor<8x64xbf16> {
  %g = tensor.extract_slice %merged[0, 0] [128, 64] [1, 1]
    : tensor<256x64xbf16> to tensor<128x64xbf16>
  %u = tensor.extract_slice %merged[128, 0] [128, 64] [1, 1]
    : tensor<256x64xbf16> to tensor<128x64xbf16>
  %c = tensor.concat dim(0) %a, %b
    : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<128x64xbf16>
  %e = tensor.empty() : tensor<64x128xbf16>
  %d = linalg.transpose ins(%c : tensor<128x64xbf16>)
    outs(%e : tensor<64x128xbf16>) permutation = [1, 0]
  %0 = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<8x64xbf16>, tensor<128x64xbf16>, tensor<128x64xbf16>,
       tensor<64x128xbf16>) -> tensor<8x64xbf16>
  return %0 : tensor<8x64xbf16>
}

// One part is computed.

// CHECK-LABEL: func @computed_part
// CHECK-NOT:     tile.schedule
func.func @computed_part(%x: tensor<8x64xbf16>, %up: tensor<128x64xbf16>,
    %w: tensor<64x64xbf16>) -> tensor<8x64xbf16> {
  %s = arith.addf %w, %w : tensor<64x64xbf16>
  %d = tensor.concat dim(1) %w, %s
    : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x128xbf16>
  // expected-warning@+1 {{FUSE-N160 computed-weight: operand 2 is a computed weight, and weights are packed before the first launch; it reads the result of 'arith.addf'}}
  %0 = fuse.mlp %x up(%up) down(%d) act(silu) rounding(exact)
    : (tensor<8x64xbf16>, tensor<128x64xbf16>, tensor<64x128xbf16>)
      -> tensor<8x64xbf16>
  return %0 : tensor<8x64xbf16>
}
