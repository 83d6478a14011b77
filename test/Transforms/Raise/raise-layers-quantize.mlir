// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// Divided by the scale.

// CHECK-LABEL: func @divide(
// CHECK-NEXT:    fuse.quantize %{{.*}} scale 0.021 order divide : (tensor<4x64xbf16>) -> tensor<4x64xf8E4M3FN>
// CHECK-NEXT:    return
func.func @divide(%x: tensor<4x64xbf16>)
    -> tensor<4x64xf8E4M3FN> {
  %lo = arith.constant dense<-448.0> : tensor<4x64xf32>
  %hi = arith.constant dense<448.0> : tensor<4x64xf32>
  %scale = arith.constant dense<2.1e-2> : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %s = arith.divf %f, %scale : tensor<4x64xf32>
  %l = arith.maximumf %s, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// Multiplied by a computed reciprocal of the scale.

// CHECK-LABEL: func @reciprocal(
// CHECK-NEXT:    fuse.quantize %{{.*}} scale 0.021 : (tensor<4x64xbf16>) -> tensor<4x64xf8E4M3FN>
// CHECK-NEXT:    return
func.func @reciprocal(%x: tensor<4x64xbf16>)
    -> tensor<4x64xf8E4M3FN> {
  %lo = arith.constant dense<-448.0> : tensor<4x64xf32>
  %hi = arith.constant dense<448.0> : tensor<4x64xf32>
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %scale = arith.constant dense<2.1e-2> : tensor<4x64xf32>
  %r = arith.divf %one, %scale : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %s = arith.mulf %f, %r : tensor<4x64xf32>
  %l = arith.maximumf %s, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// Multiplied by a constant: the scale is its reciprocal.

// CHECK-LABEL: func @factor(
// CHECK-NEXT:    fuse.quantize %{{.*}} scale 0.021 :
// CHECK-NEXT:    return
func.func @factor(%x: tensor<4x64xbf16>)
    -> tensor<4x64xf8E4M3FN> {
  %lo = arith.constant dense<-448.0> : tensor<4x64xf32>
  %hi = arith.constant dense<448.0> : tensor<4x64xf32>
  %r = arith.constant dense<47.6190491> : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %s = arith.mulf %f, %r : tensor<4x64xf32>
  %l = arith.maximumf %s, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// Clamped to the range of f8E5M2 by comparisons that propagate NaN.

// CHECK-LABEL: func @clamp_by_select(
// CHECK-NEXT:    fuse.quantize %{{.*}} scale 0.5 order divide : (tensor<4x64xf32>) -> tensor<4x64xf8E5M2>
// CHECK-NEXT:    return
func.func @clamp_by_select(%x: tensor<4x64xf32>)
    -> tensor<4x64xf8E5M2> {
  %lo = arith.constant dense<-57344.0> : tensor<4x64xf32>
  %hi = arith.constant dense<57344.0> : tensor<4x64xf32>
  %scale = arith.constant dense<0.5> : tensor<4x64xf32>
  %s = arith.divf %x, %scale : tensor<4x64xf32>
  %p = arith.cmpf olt, %s, %lo : tensor<4x64xf32>
  %l = arith.select %p, %lo, %s : tensor<4x64xi1>, tensor<4x64xf32>
  %g = arith.cmpf ogt, %l, %hi : tensor<4x64xf32>
  %c = arith.select %g, %hi, %l : tensor<4x64xi1>, tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E5M2>
  return %q : tensor<4x64xf8E5M2>
}

// -----

// Without saturation, 465 would become NaN.

// CHECK-LABEL: func @missing_clamp(
// CHECK-NOT:     fuse.quantize
func.func @missing_clamp(%x: tensor<4x64xbf16>)
    -> tensor<4x64xf8E4M3FN> {
  %scale = arith.constant dense<2.1e-2> : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %c = arith.divf %f, %scale : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] quantize{{.*}}At=arith.truncf{{.*}}FUSE-N119 missing-clamp}}
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// Clamped to the range of another 8-bit float.

// CHECK-LABEL: func @clamp_range(
// CHECK-NOT:     fuse.quantize
func.func @clamp_range(%x: tensor<4x64xbf16>)
    -> tensor<4x64xf8E4M3FN> {
  %lo = arith.constant dense<-240.0> : tensor<4x64xf32>
  %hi = arith.constant dense<240.0> : tensor<4x64xf32>
  %scale = arith.constant dense<2.1e-2> : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %s = arith.divf %f, %scale : tensor<4x64xf32>
  %l = arith.maximumf %s, %lo : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] quantize{{.*}}clamped to -240{{.*}}FUSE-N120 clamp-range}}
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// A clamp that replaces NaN by -448.

// CHECK-LABEL: func @clamp_loses_nan(
// CHECK-NOT:     fuse.quantize
func.func @clamp_loses_nan(%x: tensor<4x64xbf16>)
    -> tensor<4x64xf8E4M3FN> {
  %lo = arith.constant dense<-448.0> : tensor<4x64xf32>
  %hi = arith.constant dense<448.0> : tensor<4x64xf32>
  %scale = arith.constant dense<2.1e-2> : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %s = arith.divf %f, %scale : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] quantize{{.*}}FUSE-N118 nan}}
  %l = arith.maxnumf %s, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// Scaled in bf16, so the product is rounded before it is quantized.

// CHECK-LABEL: func @scaled_in_bf16(
// CHECK-NOT:     fuse.quantize
func.func @scaled_in_bf16(%x: tensor<4x64xbf16>)
    -> tensor<4x64xf8E4M3FN> {
  %lo = arith.constant dense<-448.0> : tensor<4x64xf32>
  %hi = arith.constant dense<448.0> : tensor<4x64xf32>
  %scale = arith.constant dense<0.0209961> : tensor<4x64xbf16>
  // expected-remark-re @below {{[Missed] quantize{{.*}}FUSE-N101 extra-rounding}}
  %p = arith.divf %x, %scale : tensor<4x64xbf16>
  %s = arith.extf %p : tensor<4x64xbf16> to tensor<4x64xf32>
  %l = arith.maximumf %s, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// The scale is computed.

// CHECK-LABEL: func @dynamic_scale(
// CHECK-NOT:     fuse.quantize
func.func @dynamic_scale(%x: tensor<4x64xf32>, %scale: tensor<4x64xf32>)
    -> tensor<4x64xf8E4M3FN> {
  %lo = arith.constant dense<-448.0> : tensor<4x64xf32>
  %hi = arith.constant dense<448.0> : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] quantize{{.*}}FUSE-N122 scale-not-static}}
  %s = arith.divf %x, %scale : tensor<4x64xf32>
  %l = arith.maximumf %s, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// A negative factor is not a reciprocal of a scale.

// CHECK-LABEL: func @negative_factor(
// CHECK-NOT:     fuse.quantize
func.func @negative_factor(%x: tensor<4x64xf32>)
    -> tensor<4x64xf8E4M3FN> {
  %lo = arith.constant dense<-448.0> : tensor<4x64xf32>
  %hi = arith.constant dense<448.0> : tensor<4x64xf32>
  %r = arith.constant dense<-2.0> : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] quantize{{.*}}factor -2.0{{.*}}FUSE-N123 scale-value}}
  %s = arith.mulf %x, %r : tensor<4x64xf32>
  %l = arith.maximumf %s, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// Integers: rounded to nearest even, clamped, cast.

// CHECK-LABEL: func @int8(
// CHECK-NEXT:    fuse.quantize %{{.*}} scale 0.05 order divide : (tensor<4x64xf32>) -> tensor<4x64xi8>
// CHECK-NEXT:    return
func.func @int8(%x: tensor<4x64xf32>) -> tensor<4x64xi8> {
  %lo = arith.constant dense<-128.0> : tensor<4x64xf32>
  %hi = arith.constant dense<127.0> : tensor<4x64xf32>
  %scale = arith.constant dense<0.05> : tensor<4x64xf32>
  %s = arith.divf %x, %scale : tensor<4x64xf32>
  %e = math.roundeven %s : tensor<4x64xf32>
  %l = arith.maximumf %e, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.fptosi %c : tensor<4x64xf32> to tensor<4x64xi8>
  return %q : tensor<4x64xi8>
}

// -----

// Truncated instead of rounded.

// CHECK-LABEL: func @int8_truncated(
// CHECK-NOT:     fuse.quantize
func.func @int8_truncated(%x: tensor<4x64xf32>) -> tensor<4x64xi8> {
  %lo = arith.constant dense<-128.0> : tensor<4x64xf32>
  %hi = arith.constant dense<127.0> : tensor<4x64xf32>
  %scale = arith.constant dense<0.05> : tensor<4x64xf32>
  %s = arith.divf %x, %scale : tensor<4x64xf32>
  %l = arith.maximumf %s, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] quantize{{.*}}At=arith.fptosi{{.*}}FUSE-N121 no-rounding}}
  %q = arith.fptosi %c : tensor<4x64xf32> to tensor<4x64xi8>
  return %q : tensor<4x64xi8>
}

// -----

// Rounded with ties away from zero.

// CHECK-LABEL: func @int8_ties_away(
// CHECK-NOT:     fuse.quantize
func.func @int8_ties_away(%x: tensor<4x64xf32>) -> tensor<4x64xi8> {
  %lo = arith.constant dense<-128.0> : tensor<4x64xf32>
  %hi = arith.constant dense<127.0> : tensor<4x64xf32>
  %scale = arith.constant dense<0.05> : tensor<4x64xf32>
  %s = arith.divf %x, %scale : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] quantize{{.*}}At=math.round{{.*}}FUSE-N121 no-rounding}}
  %e = math.round %s : tensor<4x64xf32>
  %l = arith.maximumf %e, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.fptosi %c : tensor<4x64xf32> to tensor<4x64xi8>
  return %q : tensor<4x64xi8>
}

// -----

// A scale per output channel, for a weight.

// CHECK-LABEL: func @channel_scale(
// CHECK-SAME:    %[[X:.*]]: tensor<4x64xf32>, %[[S:.*]]: tensor<4xf32>
// CHECK-NEXT:    fuse.quantize %[[X]] channel_scale(%[[S]]) order divide : (tensor<4x64xf32>, tensor<4xf32>) -> tensor<4x64xf8E4M3FN>
// CHECK-NEXT:    return
func.func @channel_scale(%x: tensor<4x64xf32>, %scale: tensor<4xf32>)
    -> tensor<4x64xf8E4M3FN> {
  %lo = arith.constant dense<-448.0> : tensor<4x64xf32>
  %hi = arith.constant dense<448.0> : tensor<4x64xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sb = linalg.broadcast ins(%scale : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %s = arith.divf %x, %sb : tensor<4x64xf32>
  %l = arith.maximumf %s, %lo : tensor<4x64xf32>
  %c = arith.minimumf %l, %hi : tensor<4x64xf32>
  %q = arith.truncf %c : tensor<4x64xf32> to tensor<4x64xf8E4M3FN>
  return %q : tensor<4x64xf8E4M3FN>
}

// -----

// CHECK-LABEL: func @dequantize(
// CHECK-NEXT:    fuse.dequantize %{{.*}} scale 0.021 : (tensor<4x64xf8E4M3FN>) -> tensor<4x64xbf16>
// CHECK-NEXT:    return
func.func @dequantize(%q: tensor<4x64xf8E4M3FN>)
    -> tensor<4x64xbf16> {
  %f = arith.extf %q : tensor<4x64xf8E4M3FN> to tensor<4x64xf32>
  %scale = arith.constant dense<2.1e-2> : tensor<4x64xf32>
  %p = arith.mulf %f, %scale : tensor<4x64xf32>
  %y = arith.truncf %p : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// Divided by a constant, which is the inverse of a scale.

// CHECK-LABEL: func @dequantize_inverted(
// CHECK-NOT:     fuse.dequantize
func.func @dequantize_inverted(%q: tensor<4x64xf8E4M3FN>)
    -> tensor<4x64xbf16> {
  %f = arith.extf %q : tensor<4x64xf8E4M3FN> to tensor<4x64xf32>
  %scale = arith.constant dense<2.1e-2> : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] dequantize{{.*}}At=arith.divf{{.*}}FUSE-N124 inverted-scale}}
  %p = arith.divf %f, %scale : tensor<4x64xf32>
  %y = arith.truncf %p : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// Integers with a scale per output channel, the scale with a unit dimension.

// CHECK-LABEL: func @dequantize_channels(
// CHECK:         %[[S:.*]] = tensor.collapse_shape
// CHECK-NEXT:    fuse.dequantize %{{.*}} channel_scale(%[[S]]) : (tensor<4x64xi8>, tensor<4xf32>) -> tensor<4x64xf32>
func.func @dequantize_channels(%q: tensor<4x64xi8>, %s: tensor<4x1xf32>)
    -> tensor<4x64xf32> {
  %init = tensor.empty() : tensor<4x64xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0, 0)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<4x64xi8>, tensor<4x1xf32>)
      outs(%init : tensor<4x64xf32>) {
  ^bb0(%a: i8, %b: f32, %out: f32):
    %0 = arith.sitofp %a : i8 to f32
    %1 = arith.mulf %0, %b : f32
    linalg.yield %1 : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @dequantize_zero_point(
// CHECK-NOT:     fuse.dequantize
func.func @dequantize_zero_point(%q: tensor<4x64xi8>) -> tensor<4x64xf32> {
  %z = arith.constant dense<3.0> : tensor<4x64xf32>
  %scale = arith.constant dense<2.1e-2> : tensor<4x64xf32>
  %f = arith.sitofp %q : tensor<4x64xi8> to tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] dequantize{{.*}}At=arith.subf{{.*}}FUSE-N131 zero-point}}
  %s = arith.subf %f, %z : tensor<4x64xf32>
  %y = arith.mulf %s, %scale : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
