// RUN: fuse-opt %s --fuse-raise-layers -o %t.raised.mlir
// RUN: fuse-opt %t.raised.mlir --fuse-form-kernels -o %t.formed.mlir
// RUN: FileCheck %s --input-file=%t.formed.mlir
// RUN: fuse-opt %t.formed.mlir --fuse-unfuse | diff %t.raised.mlir -
// RUN: python3 %S/Inputs/same_results.py %s %t.formed.mlir 1e-5
// RUN: fuse-run %t.formed.mlir --verify --chip=sm_80 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=VERIFY
// RUN: fuse-run %t.formed.mlir --emit=ptx --chip=sm_90a \
// RUN:   | FileCheck %s --check-prefix=PTX

// A decoder block of Llama as torch-mlir lowers it: tokens are flattened before
// each product, weights are transposed, and rotary embeddings and attention are
// written out.

// VERIFY: V0 {{.*}} identical (kernels: 2,
// VERIFY: V1 {{.*}} bit-equal
// VERIFY: V2 portable on fuse emulator unchecked {{.*}} the same bits 2 times
// VERIFY: and against reference ok
// PTX: .target sm_90a

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map2 = affine_map<(d0, d1, d2) -> (d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
#map5 = affine_map<(d0, d1, d2) -> (d1, d2)>

// CHECK-LABEL: func @llama(
// CHECK:         fuse.norm_linear %arg0 norm(rms %arg4 eps 1.0e-06) linear(%arg5, %arg6, %arg7)
// CHECK:         %[[O:.*]] = fuse.linear %{{.*}}, %arg8 :
// CHECK-NEXT:    %[[Y:.*]] = fuse.gated_mlp %arg0 residual(%[[O]]) norm(rms %arg9 eps 1.0e-06) gate(%arg10) up(%arg11) down(%arg12) act(silu) add_stream
// CHECK-NEXT:    return %[[Y]]
func.func @llama(
    %x: tensor<1x3x8xf32>,
    %cos: tensor<3x4xf32>,
    %sin: tensor<3x4xf32>,
    %mask: tensor<3x3xf32>,
    %n1: tensor<8xf32>,
    %wq: tensor<8x8xf32>,
    %wk: tensor<8x8xf32>,
    %wv: tensor<8x8xf32>,
    %wo: tensor<8x8xf32>,
    %n2: tensor<8xf32>,
    %wg: tensor<12x8xf32>,
    %wu: tensor<12x8xf32>,
    %wd: tensor<8x12xf32>) -> tensor<1x3x8xf32> {
  %cst_0 = arith.constant 0.0 : f32
  %cst_1 = arith.constant 8.0 : f32
  %cst_2 = arith.constant 1.0e-06 : f32
  %cst_3 = arith.constant 0.5 : f32
  %cst_4 = arith.constant 0xFF800000 : f32
  %cst_5 = arith.constant 1.0 : f32
  %0 = tensor.empty() : tensor<1x3x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x3x8xf32>) outs(%0 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.mulf %in0, %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %2 = tensor.empty() : tensor<1x3x1xf32>
  %3 = linalg.fill ins(%cst_0 : f32) outs(%2 : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%1 : tensor<1x3x8xf32>) outs(%3 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %5 = tensor.empty() : tensor<1x3x1xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%4 : tensor<1x3x1xf32>) outs(%5 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.divf %in0, %cst_1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %7 = tensor.empty() : tensor<1x3x1xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%6 : tensor<1x3x1xf32>) outs(%7 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %cst_2 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %9 = tensor.empty() : tensor<1x3x1xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%8 : tensor<1x3x1xf32>) outs(%9 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = math.rsqrt %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %11 = tensor.empty() : tensor<1x3x8xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %10 : tensor<1x3x8xf32>, tensor<1x3x1xf32>) outs(%11 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %13 = tensor.empty() : tensor<1x3x8xf32>
  %14 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%n1, %12 : tensor<8xf32>, tensor<1x3x8xf32>) outs(%13 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %15 = tensor.collapse_shape %14 [[0, 1], [2]] : tensor<1x3x8xf32> into tensor<3x8xf32>
  %16 = tensor.empty() : tensor<8x8xf32>
  %17 = linalg.transpose ins(%wq : tensor<8x8xf32>) outs(%16 : tensor<8x8xf32>) permutation = [1, 0]
  %18 = tensor.empty() : tensor<3x8xf32>
  %19 = linalg.fill ins(%cst_0 : f32) outs(%18 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %20 = linalg.matmul ins(%15, %17 : tensor<3x8xf32>, tensor<8x8xf32>) outs(%19 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %21 = tensor.expand_shape %20 [[0, 1], [2]] output_shape [1, 3, 8] : tensor<3x8xf32> into tensor<1x3x8xf32>
  %22 = tensor.expand_shape %21 [[0], [1], [2, 3]] output_shape [1, 3, 2, 4] : tensor<1x3x8xf32> into tensor<1x3x2x4xf32>
  %23 = tensor.empty() : tensor<1x2x3x4xf32>
  %24 = linalg.transpose ins(%22 : tensor<1x3x2x4xf32>) outs(%23 : tensor<1x2x3x4xf32>) permutation = [0, 2, 1, 3]
  %25 = tensor.collapse_shape %14 [[0, 1], [2]] : tensor<1x3x8xf32> into tensor<3x8xf32>
  %26 = tensor.empty() : tensor<8x8xf32>
  %27 = linalg.transpose ins(%wk : tensor<8x8xf32>) outs(%26 : tensor<8x8xf32>) permutation = [1, 0]
  %28 = tensor.empty() : tensor<3x8xf32>
  %29 = linalg.fill ins(%cst_0 : f32) outs(%28 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %30 = linalg.matmul ins(%25, %27 : tensor<3x8xf32>, tensor<8x8xf32>) outs(%29 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %31 = tensor.expand_shape %30 [[0, 1], [2]] output_shape [1, 3, 8] : tensor<3x8xf32> into tensor<1x3x8xf32>
  %32 = tensor.expand_shape %31 [[0], [1], [2, 3]] output_shape [1, 3, 2, 4] : tensor<1x3x8xf32> into tensor<1x3x2x4xf32>
  %33 = tensor.empty() : tensor<1x2x3x4xf32>
  %34 = linalg.transpose ins(%32 : tensor<1x3x2x4xf32>) outs(%33 : tensor<1x2x3x4xf32>) permutation = [0, 2, 1, 3]
  %35 = tensor.collapse_shape %14 [[0, 1], [2]] : tensor<1x3x8xf32> into tensor<3x8xf32>
  %36 = tensor.empty() : tensor<8x8xf32>
  %37 = linalg.transpose ins(%wv : tensor<8x8xf32>) outs(%36 : tensor<8x8xf32>) permutation = [1, 0]
  %38 = tensor.empty() : tensor<3x8xf32>
  %39 = linalg.fill ins(%cst_0 : f32) outs(%38 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %40 = linalg.matmul ins(%35, %37 : tensor<3x8xf32>, tensor<8x8xf32>) outs(%39 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %41 = tensor.expand_shape %40 [[0, 1], [2]] output_shape [1, 3, 8] : tensor<3x8xf32> into tensor<1x3x8xf32>
  %42 = tensor.expand_shape %41 [[0], [1], [2, 3]] output_shape [1, 3, 2, 4] : tensor<1x3x8xf32> into tensor<1x3x2x4xf32>
  %43 = tensor.empty() : tensor<1x2x3x4xf32>
  %44 = linalg.transpose ins(%42 : tensor<1x3x2x4xf32>) outs(%43 : tensor<1x2x3x4xf32>) permutation = [0, 2, 1, 3]
  %45 = tensor.extract_slice %24[0, 0, 0, 0] [1, 2, 3, 2] [1, 1, 1, 1] : tensor<1x2x3x4xf32> to tensor<1x2x3x2xf32>
  %46 = tensor.extract_slice %24[0, 0, 0, 2] [1, 2, 3, 2] [1, 1, 1, 1] : tensor<1x2x3x4xf32> to tensor<1x2x3x2xf32>
  %47 = tensor.empty() : tensor<1x2x3x2xf32>
  %48 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%46 : tensor<1x2x3x2xf32>) outs(%47 : tensor<1x2x3x2xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.negf %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x2x3x2xf32>
  %49 = tensor.empty() : tensor<1x2x3x4xf32>
  %50 = tensor.insert_slice %48 into %49[0, 0, 0, 0] [1, 2, 3, 2] [1, 1, 1, 1] : tensor<1x2x3x2xf32> into tensor<1x2x3x4xf32>
  %51 = tensor.insert_slice %45 into %50[0, 0, 0, 2] [1, 2, 3, 2] [1, 1, 1, 1] : tensor<1x2x3x2xf32> into tensor<1x2x3x4xf32>
  %52 = tensor.empty() : tensor<1x2x3x4xf32>
  %53 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%24, %cos : tensor<1x2x3x4xf32>, tensor<3x4xf32>) outs(%52 : tensor<1x2x3x4xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x2x3x4xf32>
  %54 = tensor.empty() : tensor<1x2x3x4xf32>
  %55 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%51, %sin : tensor<1x2x3x4xf32>, tensor<3x4xf32>) outs(%54 : tensor<1x2x3x4xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x2x3x4xf32>
  %56 = tensor.empty() : tensor<1x2x3x4xf32>
  %57 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%53, %55 : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) outs(%56 : tensor<1x2x3x4xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x2x3x4xf32>
  %58 = tensor.extract_slice %34[0, 0, 0, 0] [1, 2, 3, 2] [1, 1, 1, 1] : tensor<1x2x3x4xf32> to tensor<1x2x3x2xf32>
  %59 = tensor.extract_slice %34[0, 0, 0, 2] [1, 2, 3, 2] [1, 1, 1, 1] : tensor<1x2x3x4xf32> to tensor<1x2x3x2xf32>
  %60 = tensor.empty() : tensor<1x2x3x2xf32>
  %61 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%59 : tensor<1x2x3x2xf32>) outs(%60 : tensor<1x2x3x2xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.negf %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x2x3x2xf32>
  %62 = tensor.empty() : tensor<1x2x3x4xf32>
  %63 = tensor.insert_slice %61 into %62[0, 0, 0, 0] [1, 2, 3, 2] [1, 1, 1, 1] : tensor<1x2x3x2xf32> into tensor<1x2x3x4xf32>
  %64 = tensor.insert_slice %58 into %63[0, 0, 0, 2] [1, 2, 3, 2] [1, 1, 1, 1] : tensor<1x2x3x2xf32> into tensor<1x2x3x4xf32>
  %65 = tensor.empty() : tensor<1x2x3x4xf32>
  %66 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%34, %cos : tensor<1x2x3x4xf32>, tensor<3x4xf32>) outs(%65 : tensor<1x2x3x4xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x2x3x4xf32>
  %67 = tensor.empty() : tensor<1x2x3x4xf32>
  %68 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%64, %sin : tensor<1x2x3x4xf32>, tensor<3x4xf32>) outs(%67 : tensor<1x2x3x4xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x2x3x4xf32>
  %69 = tensor.empty() : tensor<1x2x3x4xf32>
  %70 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%66, %68 : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) outs(%69 : tensor<1x2x3x4xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x2x3x4xf32>
  %71 = tensor.collapse_shape %57 [[0, 1], [2], [3]] : tensor<1x2x3x4xf32> into tensor<2x3x4xf32>
  %72 = tensor.collapse_shape %70 [[0, 1], [2], [3]] : tensor<1x2x3x4xf32> into tensor<2x3x4xf32>
  %73 = tensor.collapse_shape %44 [[0, 1], [2], [3]] : tensor<1x2x3x4xf32> into tensor<2x3x4xf32>
  %74 = tensor.empty() : tensor<2x4x3xf32>
  %75 = linalg.transpose ins(%72 : tensor<2x3x4xf32>) outs(%74 : tensor<2x4x3xf32>) permutation = [0, 2, 1]
  %76 = tensor.empty() : tensor<2x3x3xf32>
  %77 = linalg.fill ins(%cst_0 : f32) outs(%76 : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %78 = linalg.batch_matmul ins(%71, %75 : tensor<2x3x4xf32>, tensor<2x4x3xf32>) outs(%77 : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %79 = tensor.empty() : tensor<2x3x3xf32>
  %80 = linalg.generic {indexing_maps = [#map, #map5, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%78, %mask : tensor<2x3x3xf32>, tensor<3x3xf32>) outs(%79 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %cst_3 : f32
    %t1 = arith.addf %t0, %in1 : f32
    linalg.yield %t1 : f32
  } -> tensor<2x3x3xf32>
  %81 = tensor.empty() : tensor<2x3x1xf32>
  %82 = linalg.fill ins(%cst_4 : f32) outs(%81 : tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %83 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%80 : tensor<2x3x3xf32>) outs(%82 : tensor<2x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.maximumf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x1xf32>
  %84 = tensor.empty() : tensor<2x3x3xf32>
  %85 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%80, %83 : tensor<2x3x3xf32>, tensor<2x3x1xf32>) outs(%84 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.subf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x3xf32>
  %86 = tensor.empty() : tensor<2x3x3xf32>
  %87 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%85 : tensor<2x3x3xf32>) outs(%86 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = math.exp %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x3xf32>
  %88 = tensor.empty() : tensor<2x3x1xf32>
  %89 = linalg.fill ins(%cst_0 : f32) outs(%88 : tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %90 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%87 : tensor<2x3x3xf32>) outs(%89 : tensor<2x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x1xf32>
  %91 = tensor.empty() : tensor<2x3x3xf32>
  %92 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%87, %90 : tensor<2x3x3xf32>, tensor<2x3x1xf32>) outs(%91 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.divf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x3xf32>
  %93 = tensor.empty() : tensor<2x3x4xf32>
  %94 = linalg.fill ins(%cst_0 : f32) outs(%93 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %95 = linalg.batch_matmul ins(%92, %73 : tensor<2x3x3xf32>, tensor<2x3x4xf32>) outs(%94 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %96 = tensor.expand_shape %95 [[0, 1], [2], [3]] output_shape [1, 2, 3, 4] : tensor<2x3x4xf32> into tensor<1x2x3x4xf32>
  %97 = tensor.empty() : tensor<1x3x2x4xf32>
  %98 = linalg.transpose ins(%96 : tensor<1x2x3x4xf32>) outs(%97 : tensor<1x3x2x4xf32>) permutation = [0, 2, 1, 3]
  %99 = tensor.collapse_shape %98 [[0], [1], [2, 3]] : tensor<1x3x2x4xf32> into tensor<1x3x8xf32>
  %100 = tensor.collapse_shape %99 [[0, 1], [2]] : tensor<1x3x8xf32> into tensor<3x8xf32>
  %101 = tensor.empty() : tensor<8x8xf32>
  %102 = linalg.transpose ins(%wo : tensor<8x8xf32>) outs(%101 : tensor<8x8xf32>) permutation = [1, 0]
  %103 = tensor.empty() : tensor<3x8xf32>
  %104 = linalg.fill ins(%cst_0 : f32) outs(%103 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %105 = linalg.matmul ins(%100, %102 : tensor<3x8xf32>, tensor<8x8xf32>) outs(%104 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %106 = tensor.expand_shape %105 [[0, 1], [2]] output_shape [1, 3, 8] : tensor<3x8xf32> into tensor<1x3x8xf32>
  %107 = tensor.empty() : tensor<1x3x8xf32>
  %108 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %106 : tensor<1x3x8xf32>, tensor<1x3x8xf32>) outs(%107 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %109 = tensor.empty() : tensor<1x3x8xf32>
  %110 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%108 : tensor<1x3x8xf32>) outs(%109 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.mulf %in0, %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %111 = tensor.empty() : tensor<1x3x1xf32>
  %112 = linalg.fill ins(%cst_0 : f32) outs(%111 : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %113 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%110 : tensor<1x3x8xf32>) outs(%112 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %114 = tensor.empty() : tensor<1x3x1xf32>
  %115 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%113 : tensor<1x3x1xf32>) outs(%114 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.divf %in0, %cst_1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %116 = tensor.empty() : tensor<1x3x1xf32>
  %117 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%115 : tensor<1x3x1xf32>) outs(%116 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %cst_2 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %118 = tensor.empty() : tensor<1x3x1xf32>
  %119 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%117 : tensor<1x3x1xf32>) outs(%118 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = math.rsqrt %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %120 = tensor.empty() : tensor<1x3x8xf32>
  %121 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%108, %119 : tensor<1x3x8xf32>, tensor<1x3x1xf32>) outs(%120 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %122 = tensor.empty() : tensor<1x3x8xf32>
  %123 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%n2, %121 : tensor<8xf32>, tensor<1x3x8xf32>) outs(%122 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %124 = tensor.collapse_shape %123 [[0, 1], [2]] : tensor<1x3x8xf32> into tensor<3x8xf32>
  %125 = tensor.empty() : tensor<8x12xf32>
  %126 = linalg.transpose ins(%wg : tensor<12x8xf32>) outs(%125 : tensor<8x12xf32>) permutation = [1, 0]
  %127 = tensor.empty() : tensor<3x12xf32>
  %128 = linalg.fill ins(%cst_0 : f32) outs(%127 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %129 = linalg.matmul ins(%124, %126 : tensor<3x8xf32>, tensor<8x12xf32>) outs(%128 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %130 = tensor.expand_shape %129 [[0, 1], [2]] output_shape [1, 3, 12] : tensor<3x12xf32> into tensor<1x3x12xf32>
  %131 = tensor.empty() : tensor<1x3x12xf32>
  %132 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%130 : tensor<1x3x12xf32>) outs(%131 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.negf %in0 : f32
    %t1 = math.exp %t0 : f32
    %t2 = arith.addf %t1, %cst_5 : f32
    %t3 = arith.divf %cst_5, %t2 : f32
    linalg.yield %t3 : f32
  } -> tensor<1x3x12xf32>
  %133 = tensor.empty() : tensor<1x3x12xf32>
  %134 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%132, %130 : tensor<1x3x12xf32>, tensor<1x3x12xf32>) outs(%133 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x12xf32>
  %135 = tensor.collapse_shape %123 [[0, 1], [2]] : tensor<1x3x8xf32> into tensor<3x8xf32>
  %136 = tensor.empty() : tensor<8x12xf32>
  %137 = linalg.transpose ins(%wu : tensor<12x8xf32>) outs(%136 : tensor<8x12xf32>) permutation = [1, 0]
  %138 = tensor.empty() : tensor<3x12xf32>
  %139 = linalg.fill ins(%cst_0 : f32) outs(%138 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %140 = linalg.matmul ins(%135, %137 : tensor<3x8xf32>, tensor<8x12xf32>) outs(%139 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %141 = tensor.expand_shape %140 [[0, 1], [2]] output_shape [1, 3, 12] : tensor<3x12xf32> into tensor<1x3x12xf32>
  %142 = tensor.empty() : tensor<1x3x12xf32>
  %143 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%134, %141 : tensor<1x3x12xf32>, tensor<1x3x12xf32>) outs(%142 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x12xf32>
  %144 = tensor.collapse_shape %143 [[0, 1], [2]] : tensor<1x3x12xf32> into tensor<3x12xf32>
  %145 = tensor.empty() : tensor<12x8xf32>
  %146 = linalg.transpose ins(%wd : tensor<8x12xf32>) outs(%145 : tensor<12x8xf32>) permutation = [1, 0]
  %147 = tensor.empty() : tensor<3x8xf32>
  %148 = linalg.fill ins(%cst_0 : f32) outs(%147 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %149 = linalg.matmul ins(%144, %146 : tensor<3x12xf32>, tensor<12x8xf32>) outs(%148 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %150 = tensor.expand_shape %149 [[0, 1], [2]] output_shape [1, 3, 8] : tensor<3x8xf32> into tensor<1x3x8xf32>
  %151 = tensor.empty() : tensor<1x3x8xf32>
  %152 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%108, %150 : tensor<1x3x8xf32>, tensor<1x3x8xf32>) outs(%151 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  return %152 : tensor<1x3x8xf32>
}
