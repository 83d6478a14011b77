// RUN: fuse-opt %s --fuse-raise-layers -o %t.raised.mlir
// RUN: fuse-opt %t.raised.mlir --fuse-form-kernels -o %t.formed.mlir
// RUN: FileCheck %s --input-file=%t.formed.mlir
// RUN: fuse-opt %t.formed.mlir --fuse-unfuse | diff %t.raised.mlir -
// RUN: python3 %S/Inputs/same_results.py %s %t.formed.mlir 1e-5
// RUN: fuse-run %t.formed.mlir --verify --chip=sm_80 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=VERIFY
// RUN: fuse-run %t.formed.mlir --emit=ptx --chip=sm_90a \
// RUN:   | FileCheck %s --check-prefix=PTX

// A block of GPT-2 as StableHLO lowers it: weights are [in, out], and all operands
// are broadcast to the shape of the result.

// VERIFY: V0 {{.*}} identical (kernels: 2,
// VERIFY: V1 {{.*}} bit-equal
// VERIFY: V2 portable on fuse emulator unchecked {{.*}} the same bits 2 times
// VERIFY: and against reference ok
// PTX: .target sm_90a

#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map3 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#map7 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map8 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map9 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>

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
    %x: tensor<3x8xf32>,
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
    %bd: tensor<8xf32>) -> tensor<3x8xf32> {
  %cst_0 = arith.constant 0.0 : f32
  %cst_1 = arith.constant 8.0 : f32
  %cst_2 = arith.constant 1.0e-05 : f32
  %cst_3 = arith.constant 0.5 : f32
  %cst_4 = arith.constant 0xFF800000 : f32
  %cst_5 = arith.constant 0.044715 : f32
  %cst_6 = arith.constant 0.797884583 : f32
  %cst_7 = arith.constant 1.0 : f32
  %0 = tensor.empty() : tensor<3xf32>
  %1 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<3xf32>) -> tensor<3xf32>
  %2 = linalg.reduce { arith.addf } ins(%x : tensor<3x8xf32>) outs(%1 : tensor<3xf32>) dimensions = [1]
  %3 = tensor.empty() : tensor<3xf32>
  %4 = linalg.fill ins(%cst_1 : f32) outs(%3 : tensor<3xf32>) -> tensor<3xf32>
  %5 = tensor.empty() : tensor<3xf32>
  %6 = linalg.map { arith.divf } ins(%2, %4 : tensor<3xf32>, tensor<3xf32>) outs(%5 : tensor<3xf32>)
  %7 = tensor.empty() : tensor<3x8xf32>
  %8 = linalg.broadcast ins(%6 : tensor<3xf32>) outs(%7 : tensor<3x8xf32>) dimensions = [1]
  %9 = tensor.empty() : tensor<3x8xf32>
  %10 = linalg.map { arith.subf } ins(%x, %8 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>)
  %11 = tensor.empty() : tensor<3x8xf32>
  %12 = linalg.map { arith.mulf } ins(%10, %10 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%11 : tensor<3x8xf32>)
  %13 = tensor.empty() : tensor<3xf32>
  %14 = linalg.fill ins(%cst_0 : f32) outs(%13 : tensor<3xf32>) -> tensor<3xf32>
  %15 = linalg.reduce { arith.addf } ins(%12 : tensor<3x8xf32>) outs(%14 : tensor<3xf32>) dimensions = [1]
  %16 = tensor.empty() : tensor<3xf32>
  %17 = linalg.fill ins(%cst_1 : f32) outs(%16 : tensor<3xf32>) -> tensor<3xf32>
  %18 = tensor.empty() : tensor<3xf32>
  %19 = linalg.map { arith.divf } ins(%15, %17 : tensor<3xf32>, tensor<3xf32>) outs(%18 : tensor<3xf32>)
  %20 = tensor.empty() : tensor<3xf32>
  %21 = linalg.fill ins(%cst_2 : f32) outs(%20 : tensor<3xf32>) -> tensor<3xf32>
  %22 = tensor.empty() : tensor<3xf32>
  %23 = linalg.map { arith.addf } ins(%19, %21 : tensor<3xf32>, tensor<3xf32>) outs(%22 : tensor<3xf32>)
  %24 = tensor.empty() : tensor<3xf32>
  %25 = linalg.map { math.rsqrt } ins(%23 : tensor<3xf32>) outs(%24 : tensor<3xf32>)
  %26 = tensor.empty() : tensor<3x8xf32>
  %27 = linalg.broadcast ins(%25 : tensor<3xf32>) outs(%26 : tensor<3x8xf32>) dimensions = [1]
  %28 = tensor.empty() : tensor<3x8xf32>
  %29 = linalg.map { arith.mulf } ins(%10, %27 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%28 : tensor<3x8xf32>)
  %30 = tensor.empty() : tensor<3x8xf32>
  %31 = linalg.broadcast ins(%n1 : tensor<8xf32>) outs(%30 : tensor<3x8xf32>) dimensions = [0]
  %32 = tensor.empty() : tensor<3x8xf32>
  %33 = linalg.map { arith.mulf } ins(%29, %31 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%32 : tensor<3x8xf32>)
  %34 = tensor.empty() : tensor<3x8xf32>
  %35 = linalg.broadcast ins(%b1 : tensor<8xf32>) outs(%34 : tensor<3x8xf32>) dimensions = [0]
  %36 = tensor.empty() : tensor<3x8xf32>
  %37 = linalg.map { arith.addf } ins(%33, %35 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%36 : tensor<3x8xf32>)
  %38 = tensor.empty() : tensor<3x24xf32>
  %39 = linalg.fill ins(%cst_0 : f32) outs(%38 : tensor<3x24xf32>) -> tensor<3x24xf32>
  %40 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%37, %wa : tensor<3x8xf32>, tensor<8x24xf32>) outs(%39 : tensor<3x24xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x24xf32>
  %41 = tensor.empty() : tensor<3x24xf32>
  %42 = linalg.broadcast ins(%ba : tensor<24xf32>) outs(%41 : tensor<3x24xf32>) dimensions = [0]
  %43 = tensor.empty() : tensor<3x24xf32>
  %44 = linalg.map { arith.addf } ins(%40, %42 : tensor<3x24xf32>, tensor<3x24xf32>) outs(%43 : tensor<3x24xf32>)
  %45 = tensor.extract_slice %44[0, 0] [3, 8] [1, 1] : tensor<3x24xf32> to tensor<3x8xf32>
  %46 = tensor.expand_shape %45 [[0], [1, 2]] output_shape [3, 2, 4] : tensor<3x8xf32> into tensor<3x2x4xf32>
  %47 = tensor.empty() : tensor<2x3x4xf32>
  %48 = linalg.transpose ins(%46 : tensor<3x2x4xf32>) outs(%47 : tensor<2x3x4xf32>) permutation = [1, 0, 2]
  %49 = tensor.extract_slice %44[0, 8] [3, 8] [1, 1] : tensor<3x24xf32> to tensor<3x8xf32>
  %50 = tensor.expand_shape %49 [[0], [1, 2]] output_shape [3, 2, 4] : tensor<3x8xf32> into tensor<3x2x4xf32>
  %51 = tensor.empty() : tensor<2x3x4xf32>
  %52 = linalg.transpose ins(%50 : tensor<3x2x4xf32>) outs(%51 : tensor<2x3x4xf32>) permutation = [1, 0, 2]
  %53 = tensor.extract_slice %44[0, 16] [3, 8] [1, 1] : tensor<3x24xf32> to tensor<3x8xf32>
  %54 = tensor.expand_shape %53 [[0], [1, 2]] output_shape [3, 2, 4] : tensor<3x8xf32> into tensor<3x2x4xf32>
  %55 = tensor.empty() : tensor<2x3x4xf32>
  %56 = linalg.transpose ins(%54 : tensor<3x2x4xf32>) outs(%55 : tensor<2x3x4xf32>) permutation = [1, 0, 2]
  %57 = tensor.empty() : tensor<2x3x3xf32>
  %58 = linalg.fill ins(%cst_0 : f32) outs(%57 : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %59 = linalg.generic {indexing_maps = [#map5, #map6, #map7], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%48, %52 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%58 : tensor<2x3x3xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<2x3x3xf32>
  %60 = tensor.empty() : tensor<2x3x3xf32>
  %61 = linalg.fill ins(%cst_3 : f32) outs(%60 : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %62 = tensor.empty() : tensor<2x3x3xf32>
  %63 = linalg.map { arith.mulf } ins(%59, %61 : tensor<2x3x3xf32>, tensor<2x3x3xf32>) outs(%62 : tensor<2x3x3xf32>)
  %64 = tensor.empty() : tensor<2x3x3xf32>
  %65 = linalg.broadcast ins(%mask : tensor<3x3xf32>) outs(%64 : tensor<2x3x3xf32>) dimensions = [0]
  %66 = tensor.empty() : tensor<2x3x3xf32>
  %67 = linalg.map { arith.addf } ins(%63, %65 : tensor<2x3x3xf32>, tensor<2x3x3xf32>) outs(%66 : tensor<2x3x3xf32>)
  %68 = tensor.empty() : tensor<2x3xf32>
  %69 = linalg.fill ins(%cst_4 : f32) outs(%68 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %70 = linalg.reduce { arith.maximumf } ins(%67 : tensor<2x3x3xf32>) outs(%69 : tensor<2x3xf32>) dimensions = [2]
  %71 = tensor.empty() : tensor<2x3x3xf32>
  %72 = linalg.broadcast ins(%70 : tensor<2x3xf32>) outs(%71 : tensor<2x3x3xf32>) dimensions = [2]
  %73 = tensor.empty() : tensor<2x3x3xf32>
  %74 = linalg.map { arith.subf } ins(%67, %72 : tensor<2x3x3xf32>, tensor<2x3x3xf32>) outs(%73 : tensor<2x3x3xf32>)
  %75 = tensor.empty() : tensor<2x3x3xf32>
  %76 = linalg.map { math.exp } ins(%74 : tensor<2x3x3xf32>) outs(%75 : tensor<2x3x3xf32>)
  %77 = tensor.empty() : tensor<2x3xf32>
  %78 = linalg.fill ins(%cst_0 : f32) outs(%77 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %79 = linalg.reduce { arith.addf } ins(%76 : tensor<2x3x3xf32>) outs(%78 : tensor<2x3xf32>) dimensions = [2]
  %80 = tensor.empty() : tensor<2x3x3xf32>
  %81 = linalg.broadcast ins(%79 : tensor<2x3xf32>) outs(%80 : tensor<2x3x3xf32>) dimensions = [2]
  %82 = tensor.empty() : tensor<2x3x3xf32>
  %83 = linalg.map { arith.divf } ins(%76, %81 : tensor<2x3x3xf32>, tensor<2x3x3xf32>) outs(%82 : tensor<2x3x3xf32>)
  %84 = tensor.empty() : tensor<2x3x4xf32>
  %85 = linalg.fill ins(%cst_0 : f32) outs(%84 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %86 = linalg.generic {indexing_maps = [#map5, #map9, #map7], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%83, %56 : tensor<2x3x3xf32>, tensor<2x3x4xf32>) outs(%85 : tensor<2x3x4xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<2x3x4xf32>
  %87 = tensor.empty() : tensor<3x2x4xf32>
  %88 = linalg.transpose ins(%86 : tensor<2x3x4xf32>) outs(%87 : tensor<3x2x4xf32>) permutation = [1, 0, 2]
  %89 = tensor.collapse_shape %88 [[0], [1, 2]] : tensor<3x2x4xf32> into tensor<3x8xf32>
  %90 = tensor.empty() : tensor<3x8xf32>
  %91 = linalg.fill ins(%cst_0 : f32) outs(%90 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %92 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%89, %wo : tensor<3x8xf32>, tensor<8x8xf32>) outs(%91 : tensor<3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x8xf32>
  %93 = tensor.empty() : tensor<3x8xf32>
  %94 = linalg.broadcast ins(%bo : tensor<8xf32>) outs(%93 : tensor<3x8xf32>) dimensions = [0]
  %95 = tensor.empty() : tensor<3x8xf32>
  %96 = linalg.map { arith.addf } ins(%92, %94 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%95 : tensor<3x8xf32>)
  %97 = tensor.empty() : tensor<3x8xf32>
  %98 = linalg.map { arith.addf } ins(%96, %x : tensor<3x8xf32>, tensor<3x8xf32>) outs(%97 : tensor<3x8xf32>)
  %99 = tensor.empty() : tensor<3xf32>
  %100 = linalg.fill ins(%cst_0 : f32) outs(%99 : tensor<3xf32>) -> tensor<3xf32>
  %101 = linalg.reduce { arith.addf } ins(%98 : tensor<3x8xf32>) outs(%100 : tensor<3xf32>) dimensions = [1]
  %102 = tensor.empty() : tensor<3xf32>
  %103 = linalg.fill ins(%cst_1 : f32) outs(%102 : tensor<3xf32>) -> tensor<3xf32>
  %104 = tensor.empty() : tensor<3xf32>
  %105 = linalg.map { arith.divf } ins(%101, %103 : tensor<3xf32>, tensor<3xf32>) outs(%104 : tensor<3xf32>)
  %106 = tensor.empty() : tensor<3x8xf32>
  %107 = linalg.broadcast ins(%105 : tensor<3xf32>) outs(%106 : tensor<3x8xf32>) dimensions = [1]
  %108 = tensor.empty() : tensor<3x8xf32>
  %109 = linalg.map { arith.subf } ins(%98, %107 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%108 : tensor<3x8xf32>)
  %110 = tensor.empty() : tensor<3x8xf32>
  %111 = linalg.map { arith.mulf } ins(%109, %109 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%110 : tensor<3x8xf32>)
  %112 = tensor.empty() : tensor<3xf32>
  %113 = linalg.fill ins(%cst_0 : f32) outs(%112 : tensor<3xf32>) -> tensor<3xf32>
  %114 = linalg.reduce { arith.addf } ins(%111 : tensor<3x8xf32>) outs(%113 : tensor<3xf32>) dimensions = [1]
  %115 = tensor.empty() : tensor<3xf32>
  %116 = linalg.fill ins(%cst_1 : f32) outs(%115 : tensor<3xf32>) -> tensor<3xf32>
  %117 = tensor.empty() : tensor<3xf32>
  %118 = linalg.map { arith.divf } ins(%114, %116 : tensor<3xf32>, tensor<3xf32>) outs(%117 : tensor<3xf32>)
  %119 = tensor.empty() : tensor<3xf32>
  %120 = linalg.fill ins(%cst_2 : f32) outs(%119 : tensor<3xf32>) -> tensor<3xf32>
  %121 = tensor.empty() : tensor<3xf32>
  %122 = linalg.map { arith.addf } ins(%118, %120 : tensor<3xf32>, tensor<3xf32>) outs(%121 : tensor<3xf32>)
  %123 = tensor.empty() : tensor<3xf32>
  %124 = linalg.map { math.rsqrt } ins(%122 : tensor<3xf32>) outs(%123 : tensor<3xf32>)
  %125 = tensor.empty() : tensor<3x8xf32>
  %126 = linalg.broadcast ins(%124 : tensor<3xf32>) outs(%125 : tensor<3x8xf32>) dimensions = [1]
  %127 = tensor.empty() : tensor<3x8xf32>
  %128 = linalg.map { arith.mulf } ins(%109, %126 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%127 : tensor<3x8xf32>)
  %129 = tensor.empty() : tensor<3x8xf32>
  %130 = linalg.broadcast ins(%n2 : tensor<8xf32>) outs(%129 : tensor<3x8xf32>) dimensions = [0]
  %131 = tensor.empty() : tensor<3x8xf32>
  %132 = linalg.map { arith.mulf } ins(%128, %130 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%131 : tensor<3x8xf32>)
  %133 = tensor.empty() : tensor<3x8xf32>
  %134 = linalg.broadcast ins(%b2 : tensor<8xf32>) outs(%133 : tensor<3x8xf32>) dimensions = [0]
  %135 = tensor.empty() : tensor<3x8xf32>
  %136 = linalg.map { arith.addf } ins(%132, %134 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%135 : tensor<3x8xf32>)
  %137 = tensor.empty() : tensor<3x12xf32>
  %138 = linalg.fill ins(%cst_0 : f32) outs(%137 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %139 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%136, %wu : tensor<3x8xf32>, tensor<8x12xf32>) outs(%138 : tensor<3x12xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x12xf32>
  %140 = tensor.empty() : tensor<3x12xf32>
  %141 = linalg.broadcast ins(%bu : tensor<12xf32>) outs(%140 : tensor<3x12xf32>) dimensions = [0]
  %142 = tensor.empty() : tensor<3x12xf32>
  %143 = linalg.map { arith.addf } ins(%139, %141 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%142 : tensor<3x12xf32>)
  %144 = tensor.empty() : tensor<3x12xf32>
  %145 = linalg.map { arith.mulf } ins(%143, %143 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%144 : tensor<3x12xf32>)
  %146 = tensor.empty() : tensor<3x12xf32>
  %147 = linalg.map { arith.mulf } ins(%143, %145 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%146 : tensor<3x12xf32>)
  %148 = tensor.empty() : tensor<3x12xf32>
  %149 = linalg.fill ins(%cst_5 : f32) outs(%148 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %150 = tensor.empty() : tensor<3x12xf32>
  %151 = linalg.map { arith.mulf } ins(%149, %147 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%150 : tensor<3x12xf32>)
  %152 = tensor.empty() : tensor<3x12xf32>
  %153 = linalg.map { arith.addf } ins(%143, %151 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%152 : tensor<3x12xf32>)
  %154 = tensor.empty() : tensor<3x12xf32>
  %155 = linalg.fill ins(%cst_6 : f32) outs(%154 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %156 = tensor.empty() : tensor<3x12xf32>
  %157 = linalg.map { arith.mulf } ins(%155, %153 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%156 : tensor<3x12xf32>)
  %158 = tensor.empty() : tensor<3x12xf32>
  %159 = linalg.map { math.tanh } ins(%157 : tensor<3x12xf32>) outs(%158 : tensor<3x12xf32>)
  %160 = tensor.empty() : tensor<3x12xf32>
  %161 = linalg.fill ins(%cst_7 : f32) outs(%160 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %162 = tensor.empty() : tensor<3x12xf32>
  %163 = linalg.map { arith.addf } ins(%161, %159 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%162 : tensor<3x12xf32>)
  %164 = tensor.empty() : tensor<3x12xf32>
  %165 = linalg.fill ins(%cst_3 : f32) outs(%164 : tensor<3x12xf32>) -> tensor<3x12xf32>
  %166 = tensor.empty() : tensor<3x12xf32>
  %167 = linalg.map { arith.mulf } ins(%165, %163 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%166 : tensor<3x12xf32>)
  %168 = tensor.empty() : tensor<3x12xf32>
  %169 = linalg.map { arith.mulf } ins(%143, %167 : tensor<3x12xf32>, tensor<3x12xf32>) outs(%168 : tensor<3x12xf32>)
  %170 = tensor.empty() : tensor<3x8xf32>
  %171 = linalg.fill ins(%cst_0 : f32) outs(%170 : tensor<3x8xf32>) -> tensor<3x8xf32>
  %172 = linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%169, %wd : tensor<3x12xf32>, tensor<12x8xf32>) outs(%171 : tensor<3x8xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %t0 = arith.mulf %in0, %in1 : f32
    %t1 = arith.addf %out, %t0 : f32
    linalg.yield %t1 : f32
  } -> tensor<3x8xf32>
  %173 = tensor.empty() : tensor<3x8xf32>
  %174 = linalg.broadcast ins(%bd : tensor<8xf32>) outs(%173 : tensor<3x8xf32>) dimensions = [0]
  %175 = tensor.empty() : tensor<3x8xf32>
  %176 = linalg.map { arith.addf } ins(%172, %174 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%175 : tensor<3x8xf32>)
  %177 = tensor.empty() : tensor<3x8xf32>
  %178 = linalg.map { arith.addf } ins(%98, %176 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%177 : tensor<3x8xf32>)
  return %178 : tensor<3x8xf32>
}
