// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// Variants of the rms norm, by the places of the weight and the casts.

// Llama, Qwen, Mistral: normalized, cast, then multiplied by the weight.

// CHECK-LABEL: func @before_weight(
// CHECK-SAME:    %[[X:.*]]: tensor<4x64xbf16>, %[[W:.*]]: tensor<64xbf16>
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %[[X]] weight(%[[W]]) eps 1.0e-06 :
// CHECK-NEXT:    return %[[Y]]
func.func @before_weight(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  %initb = tensor.empty() : tensor<4x64xbf16>
  %wb = linalg.broadcast ins(%w : tensor<64xbf16>)
      outs(%initb : tensor<4x64xbf16>) dimensions = [0]
  %y = arith.mulf %wb, %nb : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// GPT-OSS, Helium: multiplied by the weight in f32, then cast.

// CHECK-LABEL: func @after_weight(
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-06 cast after_weight :
// CHECK-NEXT:    return %[[Y]]
func.func @after_weight(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %wf = arith.extf %w : tensor<64xbf16> to tensor<64xf32>
  %wb = linalg.broadcast ins(%wf : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %p = arith.mulf %nf, %wb : tensor<4x64xf32>
  %y = arith.truncf %p : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// CHECK-LABEL: func @unweighted(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
func.func @unweighted(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  return %nb : tensor<4x64xbf16>
}

// -----

// A weight in f32 with an input in bf16 keeps its type; the result is f32.

// CHECK-LABEL: func @weight_f32(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-06 : (tensor<4x64xbf16>, tensor<64xf32>) -> tensor<4x64xf32>
func.func @weight_f32(%x: tensor<4x64xbf16>, %w: tensor<64xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  %wb = linalg.broadcast ins(%w : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %nw = arith.extf %nb : tensor<4x64xbf16> to tensor<4x64xf32>
  %y = arith.mulf %wb, %nw : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The same, rounded at the end: the weight stays in f32.

// CHECK-LABEL: func @weight_f32_after(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-06 cast after_weight : (tensor<4x64xbf16>, tensor<64xf32>) -> tensor<4x64xbf16>
func.func @weight_f32_after(%x: tensor<4x64xbf16>, %w: tensor<64xf32>)
    -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %rw = arith.mulf %rb, %wb : tensor<4x64xf32>
  %p = arith.mulf %f, %rw : tensor<4x64xf32>
  %y = arith.truncf %p : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// A weight with unit dimensions.

// CHECK-LABEL: func @weight_unit_dims(
// CHECK-SAME:    %[[X:.*]]: tensor<4x64xf32>, %[[W:.*]]: tensor<1x64xf32>
// CHECK-NEXT:    %[[V:.*]] = tensor.collapse_shape %[[W]] {{\[}}[0, 1]] : tensor<1x64xf32> into tensor<64xf32>
// CHECK-NEXT:    fuse.rms_norm %[[X]] weight(%[[V]])
func.func @weight_unit_dims(%x: tensor<4x64xf32>, %w: tensor<1x64xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %x, %rb : tensor<4x64xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (0, d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%nf, %w : tensor<4x64xf32>, tensor<1x64xf32>)
      outs(%init : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// One plus the weight is rounded to the type of the weight, after the cast.

// CHECK-LABEL: func @offset_before_weight(
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-06 offset 1 :
// CHECK-NEXT:    return %[[Y]]
func.func @offset_before_weight(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  %one = arith.constant dense<1.0> : tensor<64xbf16>
  %w1 = arith.addf %w, %one : tensor<64xbf16>
  %initb = tensor.empty() : tensor<4x64xbf16>
  %wb = linalg.broadcast ins(%w1 : tensor<64xbf16>)
      outs(%initb : tensor<4x64xbf16>) dimensions = [0]
  %y = arith.mulf %nb, %wb : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// Gemma: one plus the weight in f32.

// CHECK-LABEL: func @offset_after_weight(
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-06 offset 1 cast after_weight :
// CHECK-NEXT:    return %[[Y]]
func.func @offset_after_weight(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %one = arith.constant dense<1.0> : tensor<64xf32>
  %wf = arith.extf %w : tensor<64xbf16> to tensor<64xf32>
  %w1 = arith.addf %one, %wf : tensor<64xf32>
  %wb = linalg.broadcast ins(%w1 : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %p = arith.mulf %nf, %wb : tensor<4x64xf32>
  %y = arith.truncf %p : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// An f32 sum after a cast of the normalized value is not a variant of the
// layer. The sum itself is the weight.

// CHECK-LABEL: func @offset_mixed(
// CHECK-SAME:    %[[X:.*]]: tensor<4x64xbf16>, %[[W:.*]]: tensor<64xbf16>
// CHECK:         %[[W1:.*]] = arith.addf %{{.*}} : tensor<64xf32>
// CHECK-NEXT:    fuse.rms_norm %[[X]] weight(%[[W1]]) eps 1.0e-06 :
func.func @offset_mixed(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  %one = arith.constant dense<1.0> : tensor<64xf32>
  %wf = arith.extf %w : tensor<64xbf16> to tensor<64xf32>
  %w1 = arith.addf %one, %wf : tensor<64xf32>
  %wb = linalg.broadcast ins(%w1 : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %nw = arith.extf %nb : tensor<4x64xbf16> to tensor<4x64xf32>
  %y = arith.mulf %nw, %wb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// One plus the weight stays in f32 after a rounded value, and no tensor holds
// it.

// CHECK-LABEL: func @offset_in_one_op(
// CHECK-NOT:     fuse.rms_norm
func.func @offset_in_one_op(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N115 offset-rounding}}
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0)>,
                       affine_map<(d0, d1) -> (d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %r, %w : tensor<4x64xbf16>, tensor<4xf32>, tensor<64xbf16>)
      outs(%init : tensor<4x64xf32>) {
  ^bb0(%a: bf16, %s: f32, %c: bf16, %out: f32):
    %one = arith.constant 1.0 : f32
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.mulf %0, %s : f32
    %2 = arith.truncf %1 : f32 to bf16
    %3 = arith.extf %2 : bf16 to f32
    %4 = arith.extf %c : bf16 to f32
    %5 = arith.addf %one, %4 : f32
    %6 = arith.mulf %3, %5 : f32
    linalg.yield %6 : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The normalized value of an f32 input is rounded to bf16 before the weight.
// The layer would round it to f32, so only the norm without the weight is
// raised.

// CHECK-LABEL: func @norm_cast_type(
// CHECK:         fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
// CHECK:         arith.mulf
func.func @norm_cast_type(%x: tensor<4x64xf32>, %w: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %x, %rb : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}rounded to bf16, input is f32{{.*}}FUSE-N114 norm-cast-type}}
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  %initb = tensor.empty() : tensor<4x64xbf16>
  %wb = linalg.broadcast ins(%w : tensor<64xbf16>)
      outs(%initb : tensor<4x64xbf16>) dimensions = [0]
  %y = arith.mulf %nb, %wb : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// The factor of a norm is a gate, not a weight.

// CHECK-LABEL: func @gate_is_no_weight(
// CHECK-NEXT:    %[[N:.*]] = fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>)
// CHECK-NEXT:    %[[Y:.*]] = arith.mulf %[[N]], %
// CHECK-NEXT:    return %[[Y]]
func.func @gate_is_no_weight(%x: tensor<4x64xf32>, %g: tensor<4x64xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %x, %rb : tensor<4x64xf32>
  %y = arith.mulf %nf, %g : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The norm and a gate are in one op, so no tensor holds the result of the norm.

// CHECK-LABEL: func @gate_in_one_op(
// CHECK-NOT:     fuse.rms_norm
func.func @gate_in_one_op(%x: tensor<4x64xf32>, %w: tensor<4x64xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N113 weight-shape}}
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0)>,
                       affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %r, %w : tensor<4x64xf32>, tensor<4xf32>, tensor<4x64xf32>)
      outs(%init : tensor<4x64xf32>) {
  ^bb0(%a: f32, %s: f32, %c: f32, %out: f32):
    %0 = arith.mulf %a, %s : f32
    %1 = arith.mulf %0, %c : f32
    linalg.yield %1 : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
