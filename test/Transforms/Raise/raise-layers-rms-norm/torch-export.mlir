// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s

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
