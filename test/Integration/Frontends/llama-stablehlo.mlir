// RUN: fuse-opt %s --fuse-raise-layers -o %t.raised.mlir
// RUN: fuse-opt %t.raised.mlir --fuse-form-kernels -o %t.formed.mlir
// RUN: FileCheck %s --input-file=%t.formed.mlir
// RUN: fuse-opt %t.formed.mlir --fuse-unfuse | diff %t.raised.mlir -
// RUN: python3 %S/Inputs/same_results.py %s %t.formed.mlir 1e-5
// RUN: fuse-run %t.formed.mlir --verify --chip=sm_80 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=VERIFY
// RUN: fuse-run %t.formed.mlir --emit=ptx --chip=sm_90a \
// RUN:   | FileCheck %s --check-prefix=PTX

// A decoder block of Llama as StableHLO lowers it: weights are [in, out], and all
// operands are broadcast to the shape of the result.

// VERIFY: V0 {{.*}} identical (kernels: 2,
// VERIFY: V1 {{.*}} bit-equal
// VERIFY: V2 portable on fuse emulator unchecked {{.*}} the same bits 2 times
// VERIFY: and against reference ok
// PTX: .target sm_90a

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0) -> (d0)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map3 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map5 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#map7 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map9 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>

// CHECK-LABEL: func @llama(
// CHECK-DAG:     %[[Q:.*]] = linalg.transpose ins(%arg5 :
// CHECK-DAG:     %[[K:.*]] = linalg.transpose ins(%arg6 :
// CHECK-DAG:     %[[V:.*]] = linalg.transpose ins(%arg7 :
// CHECK-DAG:     %[[WO:.*]] = linalg.transpose ins(%arg8 :
// CHECK-DAG:     %[[G:.*]] = linalg.transpose ins(%arg10 :
// CHECK-DAG:     %[[U:.*]] = linalg.transpose ins(%arg11 :
// CHECK-DAG:     %[[D:.*]] = linalg.transpose ins(%arg12 :
// CHECK:         fuse.norm_linear %arg0 norm(rms %arg4 eps 1.0e-06) linear(%[[Q]], %[[K]], %[[V]])
// CHECK:         %[[O:.*]] = fuse.linear %{{.*}}, %[[WO]] :
// CHECK-NEXT:    %[[Y:.*]] = fuse.gated_mlp %arg0 residual(%[[O]]) norm(rms %arg9 eps 1.0e-06) gate(%[[G]]) up(%[[U]]) down(%[[D]]) act(silu) add_stream
// CHECK-NEXT:    return %[[Y]]
func.func @llama(
    %x: tensor<3x8xf32>,
    %cos: tensor<3x4xf32>,
    %sin: tensor<3x4xf32>,
    %mask: tensor<3x3xf32>,
    %n1: tensor<8xf32>,
    %wq: tensor<8x8xf32>,
    %wk: tensor<8x8xf32>,
    %wv: tensor<8x8xf32>,
    %wo: tensor<8x8xf32>,
    %n2: tensor<8xf32>,
    %wg: tensor<8x12xf32>,
    %wu: tensor<8x12xf32>,
    %wd: tensor<12x8xf32>) -> tensor<3x8xf32> {
  %cst_0 = arith.constant 0.0 : f32
  %cst_1 = arith.constant 8.0 : f32
  %cst_2 = arith.constant 1.0e-06 : f32
  %cst_3 = arith.constant 0.5 : f32
  %cst_4 = arith.constant 0xFF800000 : f32
  %cst_5 = arith.constant 1.0 : f32
  %0 = tensor.empty() : tensor<3x8xf32>
  %1 = linalg.map { arith.mulf } ins(%x, %x : tensor<3x8xf32>, tensor<3x8xf32>) outs(%0 : tensor<3x8xf32>)
  %2 = tensor.empty() : tensor<3xf32>
  %3 = linalg.fill ins(%cst_0 : f32) outs(%2 : tensor<3xf32>) -> tensor<3xf32>
  %4 = linalg.reduce { arith.addf } ins(%1 : tensor<3x8xf32>) outs(%3 : tensor<3xf32>) dimensions = [1]
  %5 = tensor.empty() : tensor<3xf32>
  %6 = linalg.fill ins(%cst_1 : f32) outs(%5 : tensor<3xf32>) -> tensor<3xf32>
  %7 = tensor.empty() : tensor<3xf32>
  %8 = linalg.map { arith.divf } ins(%4, %6 : tensor<3xf32>, tensor<3xf32>) outs(%7 : tensor<3xf32>)
  %9 = tensor.empty() : tensor<3xf32>
  %10 = linalg.fill ins(%cst_2 : f32) outs(%9 : tensor<3xf32>) -> tensor<3xf32>
  %11 = tensor.empty() : tensor<3xf32>
  %12 = linalg.map { arith.addf } ins(%8, %10 : tensor<3xf32>, tensor<3xf32>) outs(%11 : tensor<3xf32>)
  %13 = tensor.empty() : tensor<3xf32>
  %14 = linalg.map { math.rsqrt } ins(%12 : tensor<3xf32>) outs(%13 : tensor<3xf32>)
  %15 = tensor.empty() : tensor<3x8xf32>
  %16 = linalg.broadcast ins(%14 : tensor<3xf32>) outs(%15 : tensor<3x8xf32>) dimensions = [1]
  %17 = tensor.empty() : tensor<3x8xf32>
  %18 = linalg.map { arith.mulf } ins(%x, %16 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%17 : tensor<3x8xf32>)
  %19 = tensor.empty() : tensor<3x8xf32>
  %20 = linalg.broadcast ins(%n1 : tensor<8xf32>) outs(%19 : tensor<3x8xf32>) dimensions = [0]
  %21 = tensor.empty() : tensor<3x8xf32>
  %22 = linalg.map { arith.mulf } ins(%18, %20 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%21 : tensor<3x8xf32>)
  %23 = tensor.empty() : tensor<3x8xf32>
  %24 = linalg.fill ins(%cst_0 : f32) outs(%23 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %25 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%22, %wq : tensor<3x8xf32>, tensor<8x8xf32>) outs(%24 : tensor<3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x8xf32>
  %26 = tensor.expand_shape %25 [[0], [1, 2]] output_shape [3, 2, 4] : tensor<3x8xf32> into tensor<3x2x4xf32>
  %27 = tensor.empty() : tensor<2x3x4xf32>
  %28 = linalg.transpose ins(%26 : tensor<3x2x4xf32>) outs(%27 : tensor<2x3x4xf32>) permutation = [1, 0, 2]
  %29 = tensor.empty() : tensor<3x8xf32>
  %30 = linalg.fill ins(%cst_0 : f32) outs(%29 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %31 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%22, %wk : tensor<3x8xf32>, tensor<8x8xf32>) outs(%30 : tensor<3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x8xf32>
  %32 = tensor.expand_shape %31 [[0], [1, 2]] output_shape [3, 2, 4] : tensor<3x8xf32> into tensor<3x2x4xf32>
  %33 = tensor.empty() : tensor<2x3x4xf32>
  %34 = linalg.transpose ins(%32 : tensor<3x2x4xf32>) outs(%33 : tensor<2x3x4xf32>) permutation = [1, 0, 2]
  %35 = tensor.empty() : tensor<3x8xf32>
  %36 = linalg.fill ins(%cst_0 : f32) outs(%35 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %37 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%22, %wv : tensor<3x8xf32>, tensor<8x8xf32>) outs(%36 : tensor<3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x8xf32>
  %38 = tensor.expand_shape %37 [[0], [1, 2]] output_shape [3, 2, 4] : tensor<3x8xf32> into tensor<3x2x4xf32>
  %39 = tensor.empty() : tensor<2x3x4xf32>
  %40 = linalg.transpose ins(%38 : tensor<3x2x4xf32>) outs(%39 : tensor<2x3x4xf32>) permutation = [1, 0, 2]
  %41 = tensor.extract_slice %28[0, 0, 0] [2, 3, 2] [1, 1, 1] : tensor<2x3x4xf32> to tensor<2x3x2xf32>
  %42 = tensor.extract_slice %28[0, 0, 2] [2, 3, 2] [1, 1, 1] : tensor<2x3x4xf32> to tensor<2x3x2xf32>
  %43 = tensor.empty() : tensor<2x3x2xf32>
  %44 = linalg.map { arith.negf } ins(%42 : tensor<2x3x2xf32>) outs(%43 : tensor<2x3x2xf32>)
  %45 = tensor.concat dim(2) %44, %41 : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>
  %46 = tensor.empty() : tensor<2x3x4xf32>
  %47 = linalg.broadcast ins(%cos : tensor<3x4xf32>) outs(%46 : tensor<2x3x4xf32>) dimensions = [0]
  %48 = tensor.empty() : tensor<2x3x4xf32>
  %49 = linalg.map { arith.mulf } ins(%28, %47 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%48 : tensor<2x3x4xf32>)
  %50 = tensor.empty() : tensor<2x3x4xf32>
  %51 = linalg.broadcast ins(%sin : tensor<3x4xf32>) outs(%50 : tensor<2x3x4xf32>) dimensions = [0]
  %52 = tensor.empty() : tensor<2x3x4xf32>
  %53 = linalg.map { arith.mulf } ins(%45, %51 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%52 : tensor<2x3x4xf32>)
  %54 = tensor.empty() : tensor<2x3x4xf32>
  %55 = linalg.map { arith.addf } ins(%49, %53 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%54 : tensor<2x3x4xf32>)
  %56 = tensor.extract_slice %34[0, 0, 0] [2, 3, 2] [1, 1, 1] : tensor<2x3x4xf32> to tensor<2x3x2xf32>
  %57 = tensor.extract_slice %34[0, 0, 2] [2, 3, 2] [1, 1, 1] : tensor<2x3x4xf32> to tensor<2x3x2xf32>
  %58 = tensor.empty() : tensor<2x3x2xf32>
  %59 = linalg.map { arith.negf } ins(%57 : tensor<2x3x2xf32>) outs(%58 : tensor<2x3x2xf32>)
  %60 = tensor.concat dim(2) %59, %56 : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>
  %61 = tensor.empty() : tensor<2x3x4xf32>
  %62 = linalg.broadcast ins(%cos : tensor<3x4xf32>) outs(%61 : tensor<2x3x4xf32>) dimensions = [0]
  %63 = tensor.empty() : tensor<2x3x4xf32>
  %64 = linalg.map { arith.mulf } ins(%34, %62 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%63 : tensor<2x3x4xf32>)
  %65 = tensor.empty() : tensor<2x3x4xf32>
  %66 = linalg.broadcast ins(%sin : tensor<3x4xf32>) outs(%65 : tensor<2x3x4xf32>) dimensions = [0]
  %67 = tensor.empty() : tensor<2x3x4xf32>
  %68 = linalg.map { arith.mulf } ins(%60, %66 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%67 : tensor<2x3x4xf32>)
  %69 = tensor.empty() : tensor<2x3x4xf32>
  %70 = linalg.map { arith.addf } ins(%64, %68 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%69 : tensor<2x3x4xf32>)
  %71 = tensor.empty() : tensor<2x3x3xf32>
  %72 = linalg.fill ins(%cst_0 : f32) outs(%71 : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %73 = linalg.generic {indexing_maps = [#map6, #map7, #map8], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%55, %70 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%72 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<2x3x3xf32>
  %74 = tensor.empty() : tensor<2x3x3xf32>
  %75 = linalg.fill ins(%cst_3 : f32) outs(%74 : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %76 = tensor.empty() : tensor<2x3x3xf32>
  %77 = linalg.map { arith.mulf } ins(%73, %75 : tensor<2x3x3xf32>, tensor<2x3x3xf32>) outs(%76 : tensor<2x3x3xf32>)
  %78 = tensor.empty() : tensor<2x3x3xf32>
  %79 = linalg.broadcast ins(%mask : tensor<3x3xf32>) outs(%78 : tensor<2x3x3xf32>) dimensions = [0]
  %80 = tensor.empty() : tensor<2x3x3xf32>
  %81 = linalg.map { arith.addf } ins(%77, %79 : tensor<2x3x3xf32>, tensor<2x3x3xf32>) outs(%80 : tensor<2x3x3xf32>)
  %82 = tensor.empty() : tensor<2x3xf32>
  %83 = linalg.fill ins(%cst_4 : f32) outs(%82 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %84 = linalg.reduce { arith.maximumf } ins(%81 : tensor<2x3x3xf32>) outs(%83 : tensor<2x3xf32>) dimensions = [2]
  %85 = tensor.empty() : tensor<2x3x3xf32>
  %86 = linalg.broadcast ins(%84 : tensor<2x3xf32>) outs(%85 : tensor<2x3x3xf32>) dimensions = [2]
  %87 = tensor.empty() : tensor<2x3x3xf32>
  %88 = linalg.map { arith.subf } ins(%81, %86 : tensor<2x3x3xf32>, tensor<2x3x3xf32>) outs(%87 : tensor<2x3x3xf32>)
  %89 = tensor.empty() : tensor<2x3x3xf32>
  %90 = linalg.map { math.exp } ins(%88 : tensor<2x3x3xf32>) outs(%89 : tensor<2x3x3xf32>)
  %91 = tensor.empty() : tensor<2x3xf32>
  %92 = linalg.fill ins(%cst_0 : f32) outs(%91 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %93 = linalg.reduce { arith.addf } ins(%90 : tensor<2x3x3xf32>) outs(%92 : tensor<2x3xf32>) dimensions = [2]
  %94 = tensor.empty() : tensor<2x3x3xf32>
  %95 = linalg.broadcast ins(%93 : tensor<2x3xf32>) outs(%94 : tensor<2x3x3xf32>) dimensions = [2]
  %96 = tensor.empty() : tensor<2x3x3xf32>
  %97 = linalg.map { arith.divf } ins(%90, %95 : tensor<2x3x3xf32>, tensor<2x3x3xf32>) outs(%96 : tensor<2x3x3xf32>)
  %98 = tensor.empty() : tensor<2x3x4xf32>
  %99 = linalg.fill ins(%cst_0 : f32) outs(%98 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %100 = linalg.generic {indexing_maps = [#map6, #map9, #map8], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%97, %40 : tensor<2x3x3xf32>, tensor<2x3x4xf32>) outs(%99 : tensor<2x3x4xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<2x3x4xf32>
  %101 = tensor.empty() : tensor<3x2x4xf32>
  %102 = linalg.transpose ins(%100 : tensor<2x3x4xf32>) outs(%101 : tensor<3x2x4xf32>) permutation = [1, 0, 2]
  %103 = tensor.collapse_shape %102 [[0], [1, 2]] : tensor<3x2x4xf32> into tensor<3x8xf32>
  %104 = tensor.empty() : tensor<3x8xf32>
  %105 = linalg.fill ins(%cst_0 : f32) outs(%104 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %106 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%103, %wo : tensor<3x8xf32>, tensor<8x8xf32>) outs(%105 : tensor<3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x8xf32>
  %107 = tensor.empty() : tensor<3x8xf32>
  %108 = linalg.map { arith.addf } ins(%x, %106 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%107 : tensor<3x8xf32>)
  %109 = tensor.empty() : tensor<3x8xf32>
  %110 = linalg.map { arith.mulf } ins(%108, %108 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%109 : tensor<3x8xf32>)
  %111 = tensor.empty() : tensor<3xf32>
  %112 = linalg.fill ins(%cst_0 : f32) outs(%111 : tensor<3xf32>) -> tensor<3xf32>
  %113 = linalg.reduce { arith.addf } ins(%110 : tensor<3x8xf32>) outs(%112 : tensor<3xf32>) dimensions = [1]
  %114 = tensor.empty() : tensor<3xf32>
  %115 = linalg.fill ins(%cst_1 : f32) outs(%114 : tensor<3xf32>) -> tensor<3xf32>
  %116 = tensor.empty() : tensor<3xf32>
  %117 = linalg.map { arith.divf } ins(%113, %115 : tensor<3xf32>, tensor<3xf32>) outs(%116 : tensor<3xf32>)
  %118 = tensor.empty() : tensor<3xf32>
  %119 = linalg.fill ins(%cst_2 : f32) outs(%118 : tensor<3xf32>) -> tensor<3xf32>
  %120 = tensor.empty() : tensor<3xf32>
  %121 = linalg.map { arith.addf } ins(%117, %119 : tensor<3xf32>, tensor<3xf32>) outs(%120 : tensor<3xf32>)
  %122 = tensor.empty() : tensor<3xf32>
  %123 = linalg.map { math.rsqrt } ins(%121 : tensor<3xf32>) outs(%122 : tensor<3xf32>)
  %124 = tensor.empty() : tensor<3x8xf32>
  %125 = linalg.broadcast ins(%123 : tensor<3xf32>) outs(%124 : tensor<3x8xf32>) dimensions = [1]
  %126 = tensor.empty() : tensor<3x8xf32>
  %127 = linalg.map { arith.mulf } ins(%108, %125 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%126 : tensor<3x8xf32>)
  %128 = tensor.empty() : tensor<3x8xf32>
  %129 = linalg.broadcast ins(%n2 : tensor<8xf32>) outs(%128 : tensor<3x8xf32>) dimensions = [0]
  %130 = tensor.empty() : tensor<3x8xf32>
  %131 = linalg.map { arith.mulf } ins(%127, %129 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%130 : tensor<3x8xf32>)
  %132 = tensor.empty() : tensor<3x12xf32>
  %133 = linalg.fill ins(%cst_0 : f32) outs(%132 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %134 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%131, %wg : tensor<3x8xf32>, tensor<8x12xf32>) outs(%133 : tensor<3x12xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x12xf32>
  %135 = tensor.empty() : tensor<3x12xf32>
  %136 = linalg.fill ins(%cst_5 : f32) outs(%135 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %137 = tensor.empty() : tensor<3x12xf32>
  %138 = linalg.map { arith.negf } ins(%134 : tensor<3x12xf32>) outs(%137 : tensor<3x12xf32>)
  %139 = tensor.empty() : tensor<3x12xf32>
  %140 = linalg.map { math.exp } ins(%138 : tensor<3x12xf32>) outs(%139 : tensor<3x12xf32>)
  %141 = tensor.empty() : tensor<3x12xf32>
  %142 = linalg.map { arith.addf } ins(%136, %140 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%141 : tensor<3x12xf32>)
  %143 = tensor.empty() : tensor<3x12xf32>
  %144 = linalg.map { arith.divf } ins(%136, %142 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%143 : tensor<3x12xf32>)
  %145 = tensor.empty() : tensor<3x12xf32>
  %146 = linalg.map { arith.mulf } ins(%134, %144 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%145 : tensor<3x12xf32>)
  %147 = tensor.empty() : tensor<3x12xf32>
  %148 = linalg.fill ins(%cst_0 : f32) outs(%147 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %149 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%131, %wu : tensor<3x8xf32>, tensor<8x12xf32>) outs(%148 : tensor<3x12xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x12xf32>
  %150 = tensor.empty() : tensor<3x12xf32>
  %151 = linalg.map { arith.mulf } ins(%146, %149 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%150 : tensor<3x12xf32>)
  %152 = tensor.empty() : tensor<3x8xf32>
  %153 = linalg.fill ins(%cst_0 : f32) outs(%152 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %154 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%151, %wd : tensor<3x12xf32>, tensor<12x8xf32>) outs(%153 : tensor<3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x8xf32>
  %155 = tensor.empty() : tensor<3x8xf32>
  %156 = linalg.map { arith.addf } ins(%108, %154 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%155 : tensor<3x8xf32>)
  return %156 : tensor<3x8xf32>
}
