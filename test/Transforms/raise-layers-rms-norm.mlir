// RUN: fuse-opt %s --fuse-raise-layers --split-input-file | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers --split-input-file -o /dev/null \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

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

// One plus the weight rounded to the weight's type, after the cast.

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

// The sum in f32 behind a cast of the normalized value is no variant of the
// layer; as a weight of its own it is exact.

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

// The same, rounded at the end: the weight is not rounded to bf16 first.

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

// The root as sqrt and division, the mean as a product with 1/64, elements
// f32.

// CHECK-LABEL: func @sqrt_and_divide(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>) -> tensor<4x64xf32>
// CHECK-NEXT:    return
func.func @sqrt_and_divide(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<0.015625> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.mulf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.sqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.divf %x, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The root as a power, the square too, the mean inside of the sum.

// CHECK-LABEL: func @powers(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>) -> tensor<4x64xf32>
// CHECK-NEXT:    return
func.func @powers(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %two = arith.constant dense<2.0> : tensor<4x64xf32>
  %n = arith.constant dense<0.015625> : tensor<4x64xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %half = arith.constant dense<-0.5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = math.powf %x, %two : tensor<4x64xf32>
  %part = arith.mulf %sq, %n : tensor<4x64xf32>
  %mean = linalg.reduce { arith.addf } ins(%part : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %v = arith.addf %eps, %mean : tensor<4xf32>
  %r = math.powf %v, %half : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.mulf %rb, %x : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// A sum in f32 that was never rounded is the input of the norm; the stream
// is rounded for itself.

// CHECK-LABEL: func @wide_add(
// CHECK:         %[[S:.*]] = fuse.residual_add %{{.*}} -> tensor<4x64xf32>
// CHECK:         %[[Y:.*]] = fuse.rms_norm %[[S]] eps 1.0e-06 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
// CHECK:         return %[[Y]]
func.func @wide_add(%a: tensor<4x64xbf16>, %b: tensor<4x64xbf16>)
    -> (tensor<4x64xbf16>, tensor<4x64xbf16>) {
  %af = arith.extf %a : tensor<4x64xbf16> to tensor<4x64xf32>
  %bf = arith.extf %b : tensor<4x64xbf16> to tensor<4x64xf32>
  %x = arith.addf %af, %bf : tensor<4x64xf32>
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
  %p = arith.mulf %x, %rb : tensor<4x64xf32>
  %y = arith.truncf %p : tensor<4x64xf32> to tensor<4x64xbf16>
  %s = arith.truncf %x : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y, %s : tensor<4x64xbf16>, tensor<4x64xbf16>
}

// -----

// A cast between the add and the norm: both see the rounded sum.

// CHECK-LABEL: func @add_cast_norm(
// CHECK-NEXT:    %[[S:.*]] = fuse.residual_add %{{.*}} -> tensor<4x64xbf16>
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %[[S]] eps 1.0e-06 : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
// CHECK-NEXT:    return %[[Y]], %[[S]]
func.func @add_cast_norm(%a: tensor<4x64xbf16>, %b: tensor<4x64xbf16>)
    -> (tensor<4x64xbf16>, tensor<4x64xbf16>) {
  %x = arith.addf %a, %b : tensor<4x64xbf16>
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
  return %nb, %x : tensor<4x64xbf16>, tensor<4x64xbf16>
}

// -----

// Nothing but the norm uses the sum.

// CHECK-LABEL: func @dead_residual(
// CHECK-NEXT:    %[[S:.*]] = fuse.residual_add
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %[[S]]
// CHECK-NEXT:    return %[[Y]]
func.func @dead_residual(%a: tensor<4x64xbf16>, %b: tensor<4x64xbf16>)
    -> tensor<4x64xbf16> {
  %x = arith.addf %a, %b : tensor<4x64xbf16>
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

// Two small constants are added; eps is the one under the root.

// CHECK-LABEL: func @eps_under_root(
// CHECK:         %[[X:.*]] = arith.addf
// CHECK-NEXT:    fuse.rms_norm %[[X]] weight(%{{.*}}) eps 1.0e-05 :
func.func @eps_under_root(%a: tensor<4x64xf32>, %w: tensor<64xf32>)
    -> tensor<4x64xf32> {
  %shift = arith.constant dense<1.0e-6> : tensor<4x64xf32>
  %x = arith.addf %a, %shift : tensor<4x64xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %nf = arith.mulf %x, %rb : tensor<4x64xf32>
  %y = arith.mulf %nf, %wb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// Eps beside the root instead of under it.

// CHECK-LABEL: func @eps_beside_root(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N132 eps-place
func.func @eps_beside_root(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %root = math.sqrt %mean : tensor<4xf32>
  %r = arith.addf %root, %eps : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.divf %x, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// Eps is a tensor.

// CHECK-LABEL: func @eps_computed(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N103 statistic-form
func.func @eps_computed(%x: tensor<4x64xf32>, %e: tensor<4xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %e : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @eps_negative(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: eps -1.0
// REMARK-SAME: FUSE-N110 eps
func.func @eps_negative(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<-1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The mean divides by another number than that of the features.

// CHECK-LABEL: func @mean_count(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: At=linalg.reduce
// REMARK-SAME: for 64 features
// REMARK-SAME: FUSE-N105 mean-count
func.func @mean_count(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<32.0> : tensor<4xf32>
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
  %y = arith.mulf %x, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// Normalized over dimension 0.

// CHECK-LABEL: func @reduced_dimension(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N104 reduced-dimension
func.func @reduced_dimension(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %n = arith.constant dense<64.0> : tensor<64xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<64xf32>
  %init = tensor.empty() : tensor<64x64xf32>
  %sq = arith.mulf %x, %x : tensor<64x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<64x64xf32>)
      outs(%zero : tensor<64xf32>) dimensions = [0]
  %mean = arith.divf %sum, %n : tensor<64xf32>
  %v = arith.addf %mean, %eps : tensor<64xf32>
  %r = math.rsqrt %v : tensor<64xf32>
  %rb = linalg.broadcast ins(%r : tensor<64xf32>)
      outs(%init : tensor<64x64xf32>) dimensions = [0]
  %y = arith.mulf %x, %rb : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// -----

// The mean of squares in bf16.

// CHECK-LABEL: func @mean_rounded(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N101 extra-rounding
func.func @mean_rounded(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %wide = arith.divf %sum, %n : tensor<4xf32>
  %narrow = arith.truncf %wide : tensor<4xf32> to tensor<4xbf16>
  %mean = arith.extf %narrow : tensor<4xbf16> to tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  return %nb : tensor<4x64xbf16>
}

// -----

// Squares are summed up in bf16.

// CHECK-LABEL: func @narrow_sum(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N108 narrow-sum
func.func @narrow_sum(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xbf16>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xbf16>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xbf16>)
      outs(%zero : tensor<4xbf16>) dimensions = [1]
  %wide = arith.extf %sum : tensor<4xbf16> to tensor<4xf32>
  %mean = arith.divf %wide, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  return %nb : tensor<4x64xbf16>
}

// -----

// The normalized value of an f32 input is rounded to bf16 before the weight;
// the layer would round it to f32. What is normalized is a layer all the same.

// CHECK-LABEL: func @norm_cast_type(
// CHECK:         fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
// CHECK:         arith.mulf
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: rounded to bf16, input is f32
// REMARK-SAME: FUSE-N114 norm-cast-type
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
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  %initb = tensor.empty() : tensor<4x64xbf16>
  %wb = linalg.broadcast ins(%w : tensor<64xbf16>)
      outs(%initb : tensor<4x64xbf16>) dimensions = [0]
  %y = arith.mulf %nb, %wb : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// A gate multiplied to a norm is not its weight.

// CHECK-LABEL: func @gate_is_no_weight(
// CHECK-NEXT:    %[[N:.*]] = fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>)
// CHECK-NEXT:    %[[Y:.*]] = arith.mulf %[[N]], %
// CHECK-NEXT:    return %[[Y]]
// REMARK-NOT: remark:
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

// A weight with unit dimensions around it.

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

// The statistic is used elsewhere; the norm is raised, the op stays.

// CHECK-LABEL: func @statistic_used(
// CHECK:         %[[R:.*]] = math.rsqrt
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm
// CHECK-NEXT:    return %[[Y]], %[[R]]
func.func @statistic_used(%x: tensor<4x64xf32>)
    -> (tensor<4x64xf32>, tensor<4xf32>) {
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
  %y = arith.mulf %x, %rb : tensor<4x64xf32>
  return %y, %r : tensor<4x64xf32>, tensor<4xf32>
}

// -----

// A gate in one op with the norm: there is no tensor to be the norm's result.

// CHECK-LABEL: func @gate_in_one_op(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N113 weight-shape
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

// -----

// One plus the weight is kept in f32 behind a rounded value, and no tensor.

// CHECK-LABEL: func @offset_in_one_op(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N115 offset-rounding
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

// As torch.export gives it: one op after the other, any number of tokens.

// CHECK-LABEL: func @torch_export(
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-06 : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
// CHECK-NEXT:    return %[[Y]]
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0, 0)>
#map4 = affine_map<(d0, d1) -> (d1)>
func.func @torch_export(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<?x64xbf16> {
  %c0 = arith.constant 0 : index
  %dim = tensor.dim %x, %c0 : tensor<?x64xbf16>
  %init = tensor.empty(%dim) : tensor<?x64xf32>
  %to = linalg.generic {indexing_maps = [#map, #map],
      iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?x64xbf16>)
    outs(%init : tensor<?x64xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %0 = arith.extf %in : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<?x64xf32>
  %init_1 = tensor.empty(%dim) : tensor<?x64xf32>
  %pow_1 = linalg.generic {indexing_maps = [#map, #map],
      iterator_types = ["parallel", "parallel"]}
    ins(%to : tensor<?x64xf32>)
    outs(%init_1 : tensor<?x64xf32>) {
  ^bb0(%in_2: f32, %out_3: f32):
    %4 = arith.mulf %in_2, %in_2 : f32
    linalg.yield %4 : f32
  } -> tensor<?x64xf32>
  %init_5 = tensor.empty(%dim) : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %fill = linalg.fill ins(%zero : f32)
      outs(%init_5 : tensor<?xf32>) -> tensor<?xf32>
  %mean_sum = linalg.generic {indexing_maps = [#map, #map1],
      iterator_types = ["parallel", "reduction"]}
    ins(%pow_1 : tensor<?x64xf32>)
    outs(%fill : tensor<?xf32>) {
  ^bb0(%in_6: f32, %out_7: f32):
    %8 = arith.addf %out_7, %in_6 : f32
    linalg.yield %8 : f32
  } -> tensor<?xf32>
  %init_9 = tensor.empty(%dim) : tensor<?xf32>
  %mean_quotient = linalg.generic {indexing_maps = [#map2, #map2],
      iterator_types = ["parallel"]}
    ins(%mean_sum : tensor<?xf32>)
    outs(%init_9 : tensor<?xf32>) {
  ^bb0(%in_10: f32, %out_11: f32):
    %cst = arith.constant 64.0 : f32
    %12 = arith.divf %in_10, %cst : f32
    linalg.yield %12 : f32
  } -> tensor<?xf32>
  %mean = tensor.expand_shape %mean_quotient [[0, 1]]
      output_shape [%dim, 1] : tensor<?xf32> into tensor<?x1xf32>
  %init_13 = tensor.empty(%dim) : tensor<?x1xf32>
  %add = linalg.generic {indexing_maps = [#map, #map],
      iterator_types = ["parallel", "parallel"]}
    ins(%mean : tensor<?x1xf32>)
    outs(%init_13 : tensor<?x1xf32>) {
  ^bb0(%in_14: f32, %out_15: f32):
    %cst_16 = arith.constant 1.0e-06 : f32
    %17 = arith.addf %in_14, %cst_16 : f32
    linalg.yield %17 : f32
  } -> tensor<?x1xf32>
  %init_18 = tensor.empty(%dim) : tensor<?x1xf32>
  %rsqrt = linalg.generic {indexing_maps = [#map, #map],
      iterator_types = ["parallel", "parallel"]}
    ins(%add : tensor<?x1xf32>)
    outs(%init_18 : tensor<?x1xf32>) {
  ^bb0(%in_19: f32, %out_20: f32):
    %21 = math.rsqrt %in_19 : f32
    linalg.yield %21 : f32
  } -> tensor<?x1xf32>
  %init_22 = tensor.empty(%dim) : tensor<?x64xf32>
  %mul = linalg.generic {indexing_maps = [#map, #map3, #map],
      iterator_types = ["parallel", "parallel"]}
    ins(%to, %rsqrt : tensor<?x64xf32>, tensor<?x1xf32>)
    outs(%init_22 : tensor<?x64xf32>) {
  ^bb0(%in_23: f32, %in_24: f32, %out_25: f32):
    %26 = arith.mulf %in_23, %in_24 : f32
    linalg.yield %26 : f32
  } -> tensor<?x64xf32>
  %init_27 = tensor.empty(%dim) : tensor<?x64xbf16>
  %to_1 = linalg.generic {indexing_maps = [#map, #map],
      iterator_types = ["parallel", "parallel"]}
    ins(%mul : tensor<?x64xf32>)
    outs(%init_27 : tensor<?x64xbf16>) {
  ^bb0(%in_28: f32, %out_29: bf16):
    %30 = arith.truncf %in_28 : f32 to bf16
    linalg.yield %30 : bf16
  } -> tensor<?x64xbf16>
  %init_31 = tensor.empty(%dim) : tensor<?x64xbf16>
  %mul_1 = linalg.generic {indexing_maps = [#map4, #map, #map],
      iterator_types = ["parallel", "parallel"]}
    ins(%w, %to_1 : tensor<64xbf16>, tensor<?x64xbf16>)
    outs(%init_31 : tensor<?x64xbf16>) {
  ^bb0(%in_32: bf16, %in_33: bf16, %out_34: bf16):
    %35 = arith.extf %in_32 : bf16 to f32
    %36 = arith.extf %in_33 : bf16 to f32
    %37 = arith.mulf %35, %36 : f32
    %38 = arith.truncf %37 : f32 to bf16
    linalg.yield %38 : bf16
  } -> tensor<?x64xbf16>
  return %mul_1 : tensor<?x64xbf16>
}
