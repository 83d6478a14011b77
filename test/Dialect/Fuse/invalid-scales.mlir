// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// A scale is positive and finite, and it and its reciprocal are normal numbers
// in f32. The rule is the same on layer ops and in #fuse.static_scales.

func.func @zero(%x: tensor<?x64xf32>) {
  // expected-error @below {{'fuse.quantize' op scale is zero in f32, got 0.000000e+00}}
  %0 = fuse.quantize %x scale 0.0 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @negative_zero(%x: tensor<?x64xf32>) {
  // expected-error @below {{scale is zero in f32, got -0.000000e+00}}
  %0 = fuse.quantize %x scale -0.0 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @zero_in_f32(%x: tensor<?x64xf32>) {
  // expected-error @below {{scale is zero in f32, got 1.000000e-50}}
  %0 = fuse.quantize %x scale 1.0e-50 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @negative(%x: tensor<?x64xf32>) {
  // expected-error @below {{scale is negative, got -2.000000e+00}}
  %0 = fuse.quantize %x scale -2.0 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @negative_infinity(%x: tensor<?x64xf32>) {
  // expected-error @below {{scale is not finite, got -INF}}
  %0 = fuse.quantize %x scale 0xFFF0000000000000
    : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @infinity(%q: tensor<?x64xi8>) {
  // expected-error @below {{'fuse.dequantize' op scale is not finite, got INF}}
  %0 = fuse.dequantize %q scale 0x7FF0000000000000
    : (tensor<?x64xi8>) -> tensor<?x64xf32>
  return
}

// -----

func.func @infinity_in_f32(%q: tensor<?x64xi8>) {
  // expected-error @below {{scale is not a normal number in f32, got 1.000000e+40}}
  %0 = fuse.dequantize %q scale 1.0e40 : (tensor<?x64xi8>) -> tensor<?x64xf32>
  return
}

// -----

func.func @nan(%q: tensor<?x64xi8>) {
  // expected-error @below {{scale is not a number, got nan}}
  %0 = fuse.dequantize %q scale 0x7FF8000000000000
    : (tensor<?x64xi8>) -> tensor<?x64xf32>
  return
}

// -----

// 2^-127
func.func @subnormal(%q: tensor<?x64xi8>) {
  // expected-error @below {{scale is not a normal number in f32, got 5.877472e-39}}
  %0 = fuse.dequantize %q scale 0x3800000000000000
    : (tensor<?x64xi8>) -> tensor<?x64xf32>
  return
}

// -----

// 2^127
func.func @subnormal_reciprocal(%q: tensor<?x64xi8>) {
  // expected-error @below {{scale has no normal reciprocal in f32, got 1.701412e+38}}
  %0 = fuse.dequantize %q scale 0x47E0000000000000
    : (tensor<?x64xi8>) -> tensor<?x64xf32>
  return
}

// -----

// expected-error @below {{scale 'input' is zero in f32, got 0.000000e+00}}
#scales = #fuse.static_scales<i8, input = 0.0>

// -----

// expected-error @below {{scale 'input' is negative, got -1.000000e+00}}
#scales = #fuse.static_scales<i8, input = -1.0>

// -----

// expected-error @below {{scale 'up' is not a number, got nan}}
#scales = #fuse.static_scales<i8, input = 1.0, up = 0x7FF8000000000000>

// -----

// expected-error @below {{scale 'up' is not finite, got INF}}
#scales = #fuse.static_scales<i8, input = 1.0, up = 0x7FF0000000000000>

// -----

// expected-error @below {{scale 'up' is not a normal number in f32, got 5.877472e-39}}
#scales = #fuse.static_scales<i8, input = 1.0, up = 0x3800000000000000>

// -----

// expected-error @below {{scale 'up' has no normal reciprocal in f32, got 1.701412e+38}}
#scales = #fuse.static_scales<i8, input = 1.0, up = 0x47E0000000000000>

// -----

// expected-error @below {{scale 'input' is given twice}}
#scales = #fuse.static_scales<i8, input = 1.0, input = 2.0>

// -----

// expected-error @below {{unknown scale 'a.b'; expected one of input, gate, up, hidden, down, weight0, weight1, ...}}
#scales = #fuse.static_scales<i8, a.b = 1.0>

// -----

// expected-error @below {{storage type must be f8E4M3FN, f8E5M2 or i8, got 'bf16'}}
#scales = #fuse.static_scales<bf16, input = 1.0>

// -----

// expected-error @below {{storage type must be f8E4M3FN, f8E5M2 or i8, got 'ui8'}}
#scales = #fuse.static_scales<ui8, input = 1.0>

// -----

// expected-error @below {{storage type must be f8E4M3FN, f8E5M2 or i8, got 'f8E4M3FNUZ'}}
#scales = #fuse.static_scales<f8E4M3FNUZ, input = 1.0>

// -----

// expected-error @below {{unknown order 'multiply'; expected one of reciprocal, divide}}
#scales = #fuse.static_scales<i8, input = 1.0, order = multiply>

// -----

// expected-error @below {{unknown form 'fused'; expected one of scaled, qdq, weight_only}}
#scales = #fuse.static_scales<i8, input = 1.0, form = fused>

// -----

// expected-error @below {{expected floating point literal}}
#scales = #fuse.static_scales<i8, input = per_tensor>

// -----

// expected-error @below {{form weight_only quantizes nothing, so it has no order}}
#scales = #fuse.static_scales<i8, up = 1.0, order = divide, form = weight_only>
