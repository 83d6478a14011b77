// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// The statistic of an rms norm: spellings of the root, the mean and eps.

// The root as sqrt and division, the mean as a product with 1/64, in f32.

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

// The root and the square as powers, the mean inside of the sum.

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

// The export of torch.export: one op after the other, any number of tokens.

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

// -----

// The statistic has another user, so its op stays.

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

// The sum is not divided by the number of features.

// CHECK-LABEL: func @mean_count(
// CHECK-NOT:     fuse.rms_norm
func.func @mean_count(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<32.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}At=linalg.reduce{{.*}}for 64 features{{.*}}FUSE-N105 mean-count}}
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

// The mean of squares in bf16.

// CHECK-LABEL: func @mean_rounded(
// CHECK-NOT:     fuse.rms_norm
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
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N101 extra-rounding}}
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

// The sum of squares is in bf16.

// CHECK-LABEL: func @narrow_sum(
// CHECK-NOT:     fuse.rms_norm
func.func @narrow_sum(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xbf16>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xbf16>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N108 narrow-sum}}
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

// Normalized over dimension 0.

// CHECK-LABEL: func @reduced_dimension(
// CHECK-NOT:     fuse.rms_norm
func.func @reduced_dimension(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %n = arith.constant dense<64.0> : tensor<64xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<64xf32>
  %init = tensor.empty() : tensor<64x64xf32>
  %sq = arith.mulf %x, %x : tensor<64x64xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N104 reduced-dimension}}
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

// Of two added constants, eps is the one under the root.

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

// Eps is added to the root instead of the mean.

// CHECK-LABEL: func @eps_beside_root(
// CHECK-NOT:     fuse.rms_norm
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
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N132 eps-place}}
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
func.func @eps_computed(%x: tensor<4x64xf32>, %e: tensor<4xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N103 statistic-form}}
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
func.func @eps_negative(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<-1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}eps -1.0{{.*}}FUSE-N110 eps}}
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
