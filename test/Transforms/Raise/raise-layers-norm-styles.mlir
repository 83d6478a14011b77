// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// The 22 styles of a norm that have the bits' contract of the layer op.
// The others are in raise-layers-norm-styles-refused.mlir.

// 1. The reciprocal root.

// CHECK-LABEL: func @reciprocal_root(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @reciprocal_root(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 2. Divided by the root.

// CHECK-LABEL: func @root_and_quotient(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @root_and_quotient(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.sqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.divf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 3. The root as a power.

// CHECK-LABEL: func @power_of_minus_half(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @power_of_minus_half(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %half = arith.constant dense<-0.5> : tensor<2xf32>
  %r = math.powf %v, %half : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 4. The same in the denominator.

// CHECK-LABEL: func @power_of_half(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @power_of_half(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %half = arith.constant dense<0.5> : tensor<2xf32>
  %r = math.powf %v, %half : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.divf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 5. One divided by the root.

// CHECK-LABEL: func @one_over_root(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @one_over_root(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %one = arith.constant dense<1.0> : tensor<2xf32>
  %s = math.sqrt %v : tensor<2xf32>
  %r = arith.divf %one, %s : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 6. The square as a power of floats.

// CHECK-LABEL: func @square_by_powf(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @square_by_powf(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %two = arith.constant dense<2.0> : tensor<2x4xf32>
  %sq = math.powf %x, %two : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 7. The square as a power with an integer.

// CHECK-LABEL: func @square_by_fpowi(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @square_by_fpowi(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %two = arith.constant dense<2> : tensor<2x4xi32>
  %sq = math.fpowi %x, %two : tensor<2x4xf32>, tensor<2x4xi32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 8. The mean as a product.

// CHECK-LABEL: func @mean_by_product(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @mean_by_product(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %q = arith.constant dense<0.25> : tensor<2xf32>
  %mean = arith.mulf %sum, %q : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 9. One factor divided before the sum.

// CHECK-LABEL: func @mean_in_the_sum(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @mean_in_the_sum(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %q = arith.constant dense<0.25> : tensor<2x4xf32>
  %part = arith.mulf %x, %q : tensor<2x4xf32>
  %sq = arith.mulf %x, %part : tensor<2x4xf32>
  %mean = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 10. The mean as a product of a matrix and a vector.

// CHECK-LABEL: func @product_with_a_vector(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @product_with_a_vector(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %quarters = arith.constant dense<0.25> : tensor<4xf32>
  %mean = linalg.matvec ins(%sq, %quarters : tensor<2x4xf32>, tensor<4xf32>)
      outs(%zero : tensor<2xf32>) -> tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 11. Squares summed by a fused multiply-add.

// CHECK-LABEL: func @fused_multiply_add(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @fused_multiply_add(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<2x4xf32>) outs(%zero : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.fma %in, %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<2xf32>
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 12. Named ops of linalg.

// CHECK-LABEL: func @named_ops(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @named_ops(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %row = tensor.empty() : tensor<2xf32>
  %sq = linalg.square ins(%x : tensor<2x4xf32>)
      outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = linalg.div ins(%sum, %n : tensor<2xf32>, tensor<2xf32>)
      outs(%row : tensor<2xf32>) -> tensor<2xf32>
  %v = linalg.add ins(%mean, %eps : tensor<2xf32>, tensor<2xf32>)
      outs(%row : tensor<2xf32>) -> tensor<2xf32>
  %r = linalg.rsqrt ins(%v : tensor<2xf32>)
      outs(%row : tensor<2xf32>) -> tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = linalg.mul ins(%x, %rb : tensor<2x4xf32>, tensor<2x4xf32>)
      outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 13. Maps.

// CHECK-LABEL: func @maps(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @maps(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = linalg.map { arith.mulf } ins(%x, %x : tensor<2x4xf32>, tensor<2x4xf32>)
      outs(%init : tensor<2x4xf32>)
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %row = tensor.empty() : tensor<2xf32>
  %r = linalg.map { math.rsqrt } ins(%v : tensor<2xf32>)
      outs(%row : tensor<2xf32>)
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 14. A filled accumulator, kept dimensions, the statistic in the last op.

// CHECK-LABEL: func @filled_accumulator(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @filled_accumulator(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %init = tensor.empty() : tensor<2x4xf32>
  %f0 = arith.constant 0.0 : f32
  %row = tensor.empty() : tensor<2x1xf32>
  %fill = linalg.fill ins(%f0 : f32) outs(%row : tensor<2x1xf32>)
      -> tensor<2x1xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0, 0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<2x4xf32>) outs(%fill : tensor<2x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.mulf %in, %in : f32
    %1 = arith.addf %out, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x1xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0, 0)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<2x4xf32>, tensor<2x1xf32>)
      outs(%init : tensor<2x4xf32>) {
  ^bb0(%in: f32, %s: f32, %out: f32):
    %four = arith.constant 4.0 : f32
    %tiny = arith.constant 1.0e-5 : f32
    %0 = arith.divf %s, %four : f32
    %1 = arith.addf %0, %tiny : f32
    %2 = math.rsqrt %1 : f32
    %3 = arith.mulf %in, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 15. The weight on the input.

// CHECK-LABEL: func @weight_on_the_input(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @weight_on_the_input(%x: tensor<2x4xf32>, %w: tensor<4xf32>)
    -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %xw = arith.mulf %x, %wb : tensor<2x4xf32>
  %y = arith.mulf %xw, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 16. The weight on the reciprocal root.

// CHECK-LABEL: func @weight_on_the_root(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @weight_on_the_root(%x: tensor<2x4xf32>, %w: tensor<4xf32>)
    -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %rw = arith.mulf %rb, %wb : tensor<2x4xf32>
  %y = arith.mulf %rw, %x : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 17. One plus the weight.

// CHECK-LABEL: func @one_plus_weight(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-05 offset 1 :
// CHECK-NEXT:    return
func.func @one_plus_weight(%x: tensor<2x4xf32>, %w: tensor<4xf32>)
    -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  %w1 = arith.addf %ones, %w : tensor<4xf32>
  %wb = linalg.broadcast ins(%w1 : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %n0 = arith.mulf %x, %rb : tensor<2x4xf32>
  %y = arith.mulf %n0, %wb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 18. The same as a sum of two products.

// CHECK-LABEL: func @one_plus_weight_distributed(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-05 offset 1 :
// CHECK-NEXT:    return
func.func @one_plus_weight_distributed(%x: tensor<2x4xf32>, %w: tensor<4xf32>)
    -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %n0 = arith.mulf %x, %rb : tensor<2x4xf32>
  %nw = arith.mulf %n0, %wb : tensor<2x4xf32>
  %y = arith.addf %n0, %nw : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// In f32 between casts from and to bf16, it is rounded once, after the weight.

// CHECK-LABEL: func @one_plus_weight_distributed_between_casts(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 1.0e-05 offset 1 cast after_weight : (tensor<2x4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
// CHECK-NEXT:    return
func.func @one_plus_weight_distributed_between_casts(%xb: tensor<2x4xbf16>,
                                                     %wn: tensor<4xbf16>)
    -> tensor<2x4xbf16> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %x = arith.extf %xb : tensor<2x4xbf16> to tensor<2x4xf32>
  %w = arith.extf %wn : tensor<4xbf16> to tensor<4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %n0 = arith.mulf %x, %rb : tensor<2x4xf32>
  %nw = arith.mulf %n0, %wb : tensor<2x4xf32>
  %s = arith.addf %n0, %nw : tensor<2x4xf32>
  %y = arith.truncf %s : tensor<2x4xf32> to tensor<2x4xbf16>
  return %y : tensor<2x4xbf16>
}

// -----

// 19. The square of the magnitude.

// CHECK-LABEL: func @squared_magnitude(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @squared_magnitude(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %a = math.absf %x : tensor<2x4xf32>
  %sq = arith.mulf %a, %a : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 20. The square of the negated input.

// CHECK-LABEL: func @squared_negation(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @squared_negation(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %a = arith.negf %x : tensor<2x4xf32>
  %sq = arith.mulf %a, %a : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 21. Times the root of the number of features, instead of a mean.

// CHECK-LABEL: func @root_of_the_count(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @root_of_the_count(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %four_eps = arith.constant dense<4.0e-5> : tensor<2xf32>
  %v = arith.addf %sum, %four_eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %two = arith.constant dense<2.0> : tensor<2xf32>
  %r2 = arith.mulf %r, %two : tensor<2xf32>
  %rb = linalg.broadcast ins(%r2 : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 22. A layer norm of a sum, in f32.

// CHECK-LABEL: func @layer_norm_of_a_sum(
// CHECK-NEXT:    %[[H:.*]] = fuse.residual_add
// CHECK-NEXT:    fuse.layer_norm %[[H]] weight(%{{.*}}) bias(%{{.*}}) eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @layer_norm_of_a_sum(%x: tensor<2x4xf32>, %res: tensor<2x4xf32>,
    %w: tensor<4xf32>, %b: tensor<4xf32>)
    -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %h = arith.addf %x, %res : tensor<2x4xf32>
  %s = linalg.reduce { arith.addf } ins(%h : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %m = arith.divf %s, %n : tensor<2xf32>
  %mb = linalg.broadcast ins(%m : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %c = arith.subf %h, %mb : tensor<2x4xf32>
  %sq = arith.mulf %c, %c : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %bb = linalg.broadcast ins(%b : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %n0 = arith.mulf %c, %rb : tensor<2x4xf32>
  %nw = arith.mulf %n0, %wb : tensor<2x4xf32>
  %y = arith.addf %nw, %bb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
