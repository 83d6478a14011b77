// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// The attributes of the contract, and the clauses that print their bodies.

// CHECK-LABEL: @attributes
// CHECK-SAME: activation = #fuse.activation<silu>
// CHECK-SAME: cast = #fuse.norm_cast<after_weight>
// CHECK-SAME: norm = #fuse.norm<rms, eps = {{.*}} : f64, offset = 1, cast = before_weight>
// CHECK-SAME: order = #fuse.quant_order<divide>
// CHECK-SAME: provenance = #fuse.provenance<places = [1, 0], commuted = [product], attributes = [{note}, {}]>
// CHECK-SAME: rounding = #fuse.rounding<relaxed skip [act, product] types {gate = f32, up = f16}>
// CHECK-SAME: scales = #fuse.static_scales<f8E4M3FN, input = 0.1, weight12 = per_channel, order = divide, form = qdq>
func.func private @attributes() attributes {
  activation = #fuse.activation<silu>,
  cast = #fuse.norm_cast<after_weight>,
  norm = #fuse.norm<rms, eps = 1.0e-6 : f64, offset = 1, cast = before_weight>,
  order = #fuse.quant_order<divide>,
  provenance = #fuse.provenance<places = [1, 0], commuted = [product],
                                attributes = [{note}, {}]>,
  rounding = #fuse.rounding<relaxed skip [act, product]
                            types {gate = f32, up = f16}>,
  scales = #fuse.static_scales<f8E4M3FN, input = 0.1, weight12 = per_channel,
                               order = divide, form = qdq>
}

// Biases after rounding, and scales of weights only.
// CHECK-LABEL: @forms
// CHECK-SAME: rounding = #fuse.rounding<exact bias after_rounding types {gate = f32}>
// CHECK-SAME: scales = #fuse.static_scales<i8, up = 0.1, form = weight_only>
func.func private @forms() attributes {
  rounding = #fuse.rounding<exact bias after_rounding types {gate = f32}>,
  scales = #fuse.static_scales<i8, up = 0.1, form = weight_only>
}

// Default values are not printed.
// CHECK-LABEL: @defaults
// CHECK-SAME: scales = #fuse.static_scales<i8>
func.func private @defaults() attributes {
  scales = #fuse.static_scales<i8, order = reciprocal, form = scaled>
}

// Numbers are printed with all their bits.
// CHECK-LABEL: @scale_digits
// CHECK-SAME: input = 0.1, gate = 0.10000000149011612, up = 1.0e+20, hidden = 1.1754943508222875e-38, down = 3.0
func.func private @scale_digits() attributes {
  scales = #fuse.static_scales<i8, input = 0.1, gate = 0.100000001490116119384765625,
                               up = 1.0e20, hidden = 0x3810000000000000, down = 3.0>
}

// CHECK-LABEL: @relaxed
func.func @relaxed(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>) {
  // All rounding points.
  // CHECK: rounding(relaxed skip [stream, normed, dequantized, up, act, down])
  %0 = fuse.mlp %x up(%w) down(%w) act(silu)
         rounding(relaxed skip [stream, normed, dequantized, up, act, down])
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
         -> tensor<?x64xbf16>
  // Relaxed without skipped points.
  // CHECK: rounding(relaxed) :
  %1 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(relaxed)
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
         -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @provenance
func.func @provenance(%x: tensor<?x64xbf16>, %r: tensor<?x64xbf16>,
                      %w: tensor<64x64xbf16>) {
  // Members that were not adjacent.
  // CHECK: provenance(places = [0, 3, 5], before = 2)
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
         provenance(places = [0, 3, 5], before = 2)
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
         -> tensor<?x64xbf16>
  // Members with commuted operands.
  // CHECK: provenance(commuted = [then_add])
  %1 = fuse.mlp %x up(%w) down(%w) act(silu) then_add(%r) rounding(exact)
         provenance(commuted = [then_add])
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>,
          tensor<?x64xbf16>) -> tensor<?x64xbf16>
  // Members with discardable attributes.
  // CHECK: provenance(attributes = [{}, {note = "kept"}, {}])
  %2 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
         provenance(attributes = [{}, {note = "kept"}, {}])
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
         -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @origins_and_site
func.func @origins_and_site(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>) {
  // CHECK: origins(["model.layers.0.norm", "model.layers.0.mlp"]) site("layers.0.mlp#0")
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
         origins(["model.layers.0.norm", "model.layers.0.mlp"])
         site("layers.0.mlp#0")
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
         -> tensor<?x64xbf16>
  // A site can be any text.
  // CHECK: origins([]) site("\22\0A")
  %1 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
         origins([]) site("\22\0A")
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
         -> tensor<?x64xbf16>
  return
}
