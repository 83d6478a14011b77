// RUN: fuse-opt %s -split-input-file -verify-diagnostics

func.func @norm_result_shape(%x: tensor<4x64xf32>) {
  // expected-error @below {{'x' and 'y' must have the same shape, got 'tensor<4x64xf32>' and 'tensor<4x32xf32>'}}
  %0 = fuse.rms_norm %x eps 1.0e-6 : (tensor<4x64xf32>) -> tensor<4x32xf32>
  return
}

// -----

func.func @norm_result_rank(%x: tensor<4x64xf32>) {
  // expected-error @below {{'x' and 'y' must have the same shape, got 'tensor<4x64xf32>' and 'tensor<64xf32>'}}
  %0 = fuse.rms_norm %x eps 1.0e-6 : (tensor<4x64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @norm_weight_size(%x: tensor<?x64xf32>, %w: tensor<32xf32>) {
  // expected-error @below {{'weight' must have one entry per feature (64), got 'tensor<32xf32>'}}
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x64xf32>, tensor<32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @norm_weight_rank(%x: tensor<?x64xf32>, %w: tensor<1x64xf32>) {
  // expected-error @below {{'weight' must have one entry per feature (64), got 'tensor<1x64xf32>'}}
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x64xf32>, tensor<1x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @norm_weight_rank_0(%x: tensor<?x64xf32>, %w: tensor<f32>) {
  // expected-error @below {{'weight' must have one entry per feature (64), got 'tensor<f32>'}}
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x64xf32>, tensor<f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @norm_weight_dynamic(%x: tensor<?x64xf32>, %w: tensor<?xf32>) {
  // expected-error @below {{'weight' must have one entry per feature (64), got 'tensor<?xf32>'}}
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x64xf32>, tensor<?xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @eps_negative(%x: tensor<?x64xf32>) {
  // expected-error @below {{eps must be finite and not negative, got -1.000000e-06}}
  %0 = fuse.rms_norm %x eps -1.0e-6 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @eps_nan(%x: tensor<?x64xf32>) {
  // expected-error @below {{eps must be finite and not negative, got nan}}
  %0 = fuse.rms_norm %x eps 0x7FF8000000000000
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @eps_infinite(%x: tensor<?x64xf32>) {
  // expected-error @below {{eps must be finite and not negative, got INF}}
  %0 = fuse.rms_norm %x eps 0x7FF0000000000000
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

// Finite in f64 but not in f32, the type in which norms compute.
func.func @eps_infinite_in_f32(%x: tensor<?x64xf32>) {
  // expected-error @below {{eps must be finite and not negative, got 1.000000e+39}}
  %0 = fuse.rms_norm %x eps 1.0e39 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @offset_2(%x: tensor<?x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{offset must be 0 or 1, got 2}}
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6 offset 2
    : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @offset_negative(%x: tensor<?x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{offset must be 0 or 1, got -1}}
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6 offset -1
    : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @offset_without_weight(%x: tensor<?x64xf32>) {
  // expected-error @below {{offset 1 needs a weight to be added to}}
  %0 = fuse.rms_norm %x eps 1.0e-6 offset 1
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @layer_norm_bias_size(%x: tensor<?x64xf32>, %w: tensor<64xf32>,
                                %b: tensor<63xf32>) {
  // expected-error @below {{'bias' must have one entry per feature (64), got 'tensor<63xf32>'}}
  %0 = fuse.layer_norm %x weight(%w) bias(%b) eps 1.0e-5
    : (tensor<?x64xf32>, tensor<64xf32>, tensor<63xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @layer_norm_bias_without_weight(%x: tensor<?x64xf32>,
                                          %b: tensor<64xf32>) {
  // expected-error @below {{'fuse.layer_norm' op has a bias but no weight}}
  %0 = fuse.layer_norm %x bias(%b) eps 1.0e-5
    : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return
}
