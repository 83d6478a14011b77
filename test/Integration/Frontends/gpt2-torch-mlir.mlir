// RUN: fuse-opt %s --fuse-raise-layers -o %t.raised.mlir
// RUN: fuse-opt %t.raised.mlir --fuse-form-kernels -o %t.formed.mlir
// RUN: FileCheck %s --input-file=%t.formed.mlir
// RUN: fuse-opt %t.formed.mlir --fuse-unfuse | diff %t.raised.mlir -
// RUN: python3 %S/Inputs/same_results.py %s %t.formed.mlir 1e-5
// RUN: fuse-run %t.formed.mlir --verify --chip=sm_80 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=VERIFY
// RUN: fuse-run %t.formed.mlir --emit=ptx --chip=sm_90a \
// RUN:   | FileCheck %s --check-prefix=PTX

// A block of GPT-2 as torch-mlir lowers it: the weights of its Conv1D modules are
// [in, out], and biases are added in ops of their own.

// VERIFY: V0 {{.*}} identical (kernels: 2,
// VERIFY: V1 {{.*}} bit-equal
// VERIFY: V2 portable on fuse emulator unchecked {{.*}} the same bits 2 times
// VERIFY: and against reference ok
// PTX: .target sm_90a

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map2 = affine_map<(d0, d1, d2) -> (d2)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
#map4 = affine_map<(d0, d1) -> (d1)>
#map5 = affine_map<(d0, d1, d2) -> (d1, d2)>

// CHECK-LABEL: func @gpt2(
// CHECK-DAG:     %[[A:.*]] = linalg.transpose ins(%arg4 :
// CHECK-DAG:     %[[WO:.*]] = linalg.transpose ins(%arg6 :
// CHECK-DAG:     %[[U:.*]] = linalg.transpose ins(%arg10 :
// CHECK-DAG:     %[[D:.*]] = linalg.transpose ins(%arg12 :
// CHECK:         fuse.norm_linear %arg0 norm(layer %arg2, %arg3 eps 1.0e-05) linear(%[[A]] bias %arg5)
// CHECK:         %[[O:.*]] = fuse.linear %{{.*}}, %[[WO]] bias(%arg7)
// CHECK-NEXT:    %[[Y:.*]] = fuse.mlp %[[O]] residual(%arg0) norm(layer %arg8, %arg9 eps 1.0e-05) up(%[[U]] bias %arg11) down(%[[D]] bias %arg13) act(gelu_tanh) add_stream
// CHECK-NEXT:    return %[[Y]]
func.func @gpt2(
    %x: tensor<1x3x8xf32>,
    %mask: tensor<3x3xf32>,
    %n1: tensor<8xf32>,
    %b1: tensor<8xf32>,
    %wa: tensor<8x24xf32>,
    %ba: tensor<24xf32>,
    %wo: tensor<8x8xf32>,
    %bo: tensor<8xf32>,
    %n2: tensor<8xf32>,
    %b2: tensor<8xf32>,
    %wu: tensor<8x12xf32>,
    %bu: tensor<12xf32>,
    %wd: tensor<12x8xf32>,
    %bd: tensor<8xf32>) -> tensor<1x3x8xf32> {
  %cst_0 = arith.constant 0.0 : f32
  %cst_1 = arith.constant 8.0 : f32
  %cst_2 = arith.constant 1.0e-05 : f32
  %cst_3 = arith.constant 0.5 : f32
  %cst_4 = arith.constant 0xFF800000 : f32
  %cst_5 = arith.constant 0.044715 : f32
  %cst_6 = arith.constant 0.797884583 : f32
  %cst_7 = arith.constant 1.0 : f32
  %0 = tensor.empty() : tensor<1x3x1xf32>
  %1 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<1x3x8xf32>) outs(%1 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %3 = tensor.empty() : tensor<1x3x1xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%2 : tensor<1x3x1xf32>) outs(%3 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.divf %in0, %cst_1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %5 = tensor.empty() : tensor<1x3x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %4 : tensor<1x3x8xf32>, tensor<1x3x1xf32>) outs(%5 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.subf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %7 = tensor.empty() : tensor<1x3x8xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%6 : tensor<1x3x8xf32>) outs(%7 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.mulf %in0, %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %9 = tensor.empty() : tensor<1x3x1xf32>
  %10 = linalg.fill ins(%cst_0 : f32) outs(%9 : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%8 : tensor<1x3x8xf32>) outs(%10 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %12 = tensor.empty() : tensor<1x3x1xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%11 : tensor<1x3x1xf32>) outs(%12 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.divf %in0, %cst_1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %14 = tensor.empty() : tensor<1x3x1xf32>
  %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%13 : tensor<1x3x1xf32>) outs(%14 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %cst_2 : f32
    %t1 = math.rsqrt %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<1x3x1xf32>
  %16 = tensor.empty() : tensor<1x3x8xf32>
  %17 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%6, %15 : tensor<1x3x8xf32>, tensor<1x3x1xf32>) outs(%16 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %18 = tensor.empty() : tensor<1x3x8xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%17, %n1 : tensor<1x3x8xf32>, tensor<8xf32>) outs(%18 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %20 = tensor.empty() : tensor<1x3x8xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%19, %b1 : tensor<1x3x8xf32>, tensor<8xf32>) outs(%20 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %22 = tensor.collapse_shape %21 [[0, 1], [2]] : tensor<1x3x8xf32> into tensor<3x8xf32>
  %23 = tensor.empty() : tensor<3x24xf32>
  %24 = linalg.fill ins(%cst_0 : f32) outs(%23 : tensor<3x24xf32>) -> tensor<3x24xf32>
  %25 = linalg.matmul ins(%22, %wa : tensor<3x8xf32>, tensor<8x24xf32>) outs(%24 : tensor<3x24xf32>) -> tensor<3x24xf32>
  %26 = tensor.empty() : tensor<3x24xf32>
  %27 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]}
      ins(%25, %ba : tensor<3x24xf32>, tensor<24xf32>) outs(%26 : tensor<3x24xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<3x24xf32>
  %28 = tensor.expand_shape %27 [[0, 1], [2]] output_shape [1, 3, 24] : tensor<3x24xf32> into tensor<1x3x24xf32>
  %29 = tensor.extract_slice %28[0, 0, 0] [1, 3, 8] [1, 1, 1] : tensor<1x3x24xf32> to tensor<1x3x8xf32>
  %30 = tensor.expand_shape %29 [[0], [1], [2, 3]] output_shape [1, 3, 2, 4] : tensor<1x3x8xf32> into tensor<1x3x2x4xf32>
  %31 = tensor.empty() : tensor<1x2x3x4xf32>
  %32 = linalg.transpose ins(%30 : tensor<1x3x2x4xf32>) outs(%31 : tensor<1x2x3x4xf32>) permutation = [0, 2, 1, 3]
  %33 = tensor.extract_slice %28[0, 0, 8] [1, 3, 8] [1, 1, 1] : tensor<1x3x24xf32> to tensor<1x3x8xf32>
  %34 = tensor.expand_shape %33 [[0], [1], [2, 3]] output_shape [1, 3, 2, 4] : tensor<1x3x8xf32> into tensor<1x3x2x4xf32>
  %35 = tensor.empty() : tensor<1x2x3x4xf32>
  %36 = linalg.transpose ins(%34 : tensor<1x3x2x4xf32>) outs(%35 : tensor<1x2x3x4xf32>) permutation = [0, 2, 1, 3]
  %37 = tensor.extract_slice %28[0, 0, 16] [1, 3, 8] [1, 1, 1] : tensor<1x3x24xf32> to tensor<1x3x8xf32>
  %38 = tensor.expand_shape %37 [[0], [1], [2, 3]] output_shape [1, 3, 2, 4] : tensor<1x3x8xf32> into tensor<1x3x2x4xf32>
  %39 = tensor.empty() : tensor<1x2x3x4xf32>
  %40 = linalg.transpose ins(%38 : tensor<1x3x2x4xf32>) outs(%39 : tensor<1x2x3x4xf32>) permutation = [0, 2, 1, 3]
  %41 = tensor.collapse_shape %32 [[0, 1], [2], [3]] : tensor<1x2x3x4xf32> into tensor<2x3x4xf32>
  %42 = tensor.collapse_shape %36 [[0, 1], [2], [3]] : tensor<1x2x3x4xf32> into tensor<2x3x4xf32>
  %43 = tensor.collapse_shape %40 [[0, 1], [2], [3]] : tensor<1x2x3x4xf32> into tensor<2x3x4xf32>
  %44 = tensor.empty() : tensor<2x4x3xf32>
  %45 = linalg.transpose ins(%42 : tensor<2x3x4xf32>) outs(%44 : tensor<2x4x3xf32>) permutation = [0, 2, 1]
  %46 = tensor.empty() : tensor<2x3x3xf32>
  %47 = linalg.fill ins(%cst_0 : f32) outs(%46 : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %48 = linalg.batch_matmul ins(%41, %45 : tensor<2x3x4xf32>, tensor<2x4x3xf32>) outs(%47 : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %49 = tensor.empty() : tensor<2x3x3xf32>
  %50 = linalg.generic {indexing_maps = [#map, #map5, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%48, %mask : tensor<2x3x3xf32>, tensor<3x3xf32>) outs(%49 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %cst_3 : f32
    %t1 = arith.addf %t0, %in1 : f32
    linalg.yield %t1 : f32
  } -> tensor<2x3x3xf32>
  %51 = tensor.empty() : tensor<2x3x1xf32>
  %52 = linalg.fill ins(%cst_4 : f32) outs(%51 : tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %53 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%50 : tensor<2x3x3xf32>) outs(%52 : tensor<2x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.maximumf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x1xf32>
  %54 = tensor.empty() : tensor<2x3x3xf32>
  %55 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%50, %53 : tensor<2x3x3xf32>, tensor<2x3x1xf32>) outs(%54 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.subf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x3xf32>
  %56 = tensor.empty() : tensor<2x3x3xf32>
  %57 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%55 : tensor<2x3x3xf32>) outs(%56 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = math.exp %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x3xf32>
  %58 = tensor.empty() : tensor<2x3x1xf32>
  %59 = linalg.fill ins(%cst_0 : f32) outs(%58 : tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %60 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%57 : tensor<2x3x3xf32>) outs(%59 : tensor<2x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x1xf32>
  %61 = tensor.empty() : tensor<2x3x3xf32>
  %62 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%57, %60 : tensor<2x3x3xf32>, tensor<2x3x1xf32>) outs(%61 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.divf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<2x3x3xf32>
  %63 = tensor.empty() : tensor<2x3x4xf32>
  %64 = linalg.fill ins(%cst_0 : f32) outs(%63 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %65 = linalg.batch_matmul ins(%62, %43 : tensor<2x3x3xf32>, tensor<2x3x4xf32>) outs(%64 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %66 = tensor.expand_shape %65 [[0, 1], [2], [3]] output_shape [1, 2, 3, 4] : tensor<2x3x4xf32> into tensor<1x2x3x4xf32>
  %67 = tensor.empty() : tensor<1x3x2x4xf32>
  %68 = linalg.transpose ins(%66 : tensor<1x2x3x4xf32>) outs(%67 : tensor<1x3x2x4xf32>) permutation = [0, 2, 1, 3]
  %69 = tensor.collapse_shape %68 [[0], [1], [2, 3]] : tensor<1x3x2x4xf32> into tensor<1x3x8xf32>
  %70 = tensor.collapse_shape %69 [[0, 1], [2]] : tensor<1x3x8xf32> into tensor<3x8xf32>
  %71 = tensor.empty() : tensor<3x8xf32>
  %72 = linalg.fill ins(%cst_0 : f32) outs(%71 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %73 = linalg.matmul ins(%70, %wo : tensor<3x8xf32>, tensor<8x8xf32>) outs(%72 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %74 = tensor.empty() : tensor<3x8xf32>
  %75 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]}
      ins(%73, %bo : tensor<3x8xf32>, tensor<8xf32>) outs(%74 : tensor<3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<3x8xf32>
  %76 = tensor.expand_shape %75 [[0, 1], [2]] output_shape [1, 3, 8] : tensor<3x8xf32> into tensor<1x3x8xf32>
  %77 = tensor.empty() : tensor<1x3x8xf32>
  %78 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%76, %x : tensor<1x3x8xf32>, tensor<1x3x8xf32>) outs(%77 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %79 = tensor.empty() : tensor<1x3x1xf32>
  %80 = linalg.fill ins(%cst_0 : f32) outs(%79 : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %81 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%78 : tensor<1x3x8xf32>) outs(%80 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %82 = tensor.empty() : tensor<1x3x1xf32>
  %83 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%81 : tensor<1x3x1xf32>) outs(%82 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.divf %in0, %cst_1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %84 = tensor.empty() : tensor<1x3x8xf32>
  %85 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%78, %83 : tensor<1x3x8xf32>, tensor<1x3x1xf32>) outs(%84 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.subf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %86 = tensor.empty() : tensor<1x3x8xf32>
  %87 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%85 : tensor<1x3x8xf32>) outs(%86 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.mulf %in0, %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %88 = tensor.empty() : tensor<1x3x1xf32>
  %89 = linalg.fill ins(%cst_0 : f32) outs(%88 : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %90 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%87 : tensor<1x3x8xf32>) outs(%89 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %out : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %91 = tensor.empty() : tensor<1x3x1xf32>
  %92 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%90 : tensor<1x3x1xf32>) outs(%91 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.divf %in0, %cst_1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x1xf32>
  %93 = tensor.empty() : tensor<1x3x1xf32>
  %94 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%92 : tensor<1x3x1xf32>) outs(%93 : tensor<1x3x1xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %cst_2 : f32
    %t1 = math.rsqrt %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<1x3x1xf32>
  %95 = tensor.empty() : tensor<1x3x8xf32>
  %96 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%85, %94 : tensor<1x3x8xf32>, tensor<1x3x1xf32>) outs(%95 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %97 = tensor.empty() : tensor<1x3x8xf32>
  %98 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%96, %n2 : tensor<1x3x8xf32>, tensor<8xf32>) outs(%97 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %99 = tensor.empty() : tensor<1x3x8xf32>
  %100 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%98, %b2 : tensor<1x3x8xf32>, tensor<8xf32>) outs(%99 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  %101 = tensor.collapse_shape %100 [[0, 1], [2]] : tensor<1x3x8xf32> into tensor<3x8xf32>
  %102 = tensor.empty() : tensor<3x12xf32>
  %103 = linalg.fill ins(%cst_0 : f32) outs(%102 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %104 = linalg.matmul ins(%101, %wu : tensor<3x8xf32>, tensor<8x12xf32>) outs(%103 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %105 = tensor.empty() : tensor<3x12xf32>
  %106 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]}
      ins(%104, %bu : tensor<3x12xf32>, tensor<12xf32>) outs(%105 : tensor<3x12xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<3x12xf32>
  %107 = tensor.expand_shape %106 [[0, 1], [2]] output_shape [1, 3, 12] : tensor<3x12xf32> into tensor<1x3x12xf32>
  %108 = tensor.empty() : tensor<1x3x12xf32>
  %109 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%107 : tensor<1x3x12xf32>) outs(%108 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.mulf %in0, %in0 : f32
    %t1 = arith.mulf %t0, %in0 : f32
    linalg.yield %t1 : f32
  } -> tensor<1x3x12xf32>
  %110 = tensor.empty() : tensor<1x3x12xf32>
  %111 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%109 : tensor<1x3x12xf32>) outs(%110 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.mulf %in0, %cst_5 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x12xf32>
  %112 = tensor.empty() : tensor<1x3x12xf32>
  %113 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%107, %111 : tensor<1x3x12xf32>, tensor<1x3x12xf32>) outs(%112 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x12xf32>
  %114 = tensor.empty() : tensor<1x3x12xf32>
  %115 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%113 : tensor<1x3x12xf32>) outs(%114 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.mulf %in0, %cst_6 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x12xf32>
  %116 = tensor.empty() : tensor<1x3x12xf32>
  %117 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%115 : tensor<1x3x12xf32>) outs(%116 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = math.tanh %in0 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x12xf32>
  %118 = tensor.empty() : tensor<1x3x12xf32>
  %119 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%117 : tensor<1x3x12xf32>) outs(%118 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.addf %in0, %cst_7 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x12xf32>
  %120 = tensor.empty() : tensor<1x3x12xf32>
  %121 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%107 : tensor<1x3x12xf32>) outs(%120 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %out: f32):
    %t0 = arith.mulf %in0, %cst_3 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x12xf32>
  %122 = tensor.empty() : tensor<1x3x12xf32>
  %123 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%121, %119 : tensor<1x3x12xf32>, tensor<1x3x12xf32>) outs(%122 : tensor<1x3x12xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x12xf32>
  %124 = tensor.collapse_shape %123 [[0, 1], [2]] : tensor<1x3x12xf32> into tensor<3x12xf32>
  %125 = tensor.empty() : tensor<3x8xf32>
  %126 = linalg.fill ins(%cst_0 : f32) outs(%125 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %127 = linalg.matmul ins(%124, %wd : tensor<3x12xf32>, tensor<12x8xf32>) outs(%126 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %128 = tensor.empty() : tensor<3x8xf32>
  %129 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]}
      ins(%127, %bd : tensor<3x8xf32>, tensor<8xf32>) outs(%128 : tensor<3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<3x8xf32>
  %130 = tensor.expand_shape %129 [[0, 1], [2]] output_shape [1, 3, 8] : tensor<3x8xf32> into tensor<1x3x8xf32>
  %131 = tensor.empty() : tensor<1x3x8xf32>
  %132 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%78, %130 : tensor<1x3x8xf32>, tensor<1x3x8xf32>) outs(%131 : tensor<1x3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.addf %in0, %in1 : f32
    linalg.yield %t0 : f32
  } -> tensor<1x3x8xf32>
  return %132 : tensor<1x3x8xf32>
}
