// RUN: fuse-opt %s --fuse-raise-layers -o %t.raised.mlir
// RUN: fuse-opt %t.raised.mlir --fuse-form-kernels -o %t.formed.mlir
// RUN: FileCheck %s --input-file=%t.formed.mlir
// RUN: fuse-opt %t.formed.mlir --fuse-unfuse | diff %t.raised.mlir -
// RUN: fuse-opt %s --convert-elementwise-to-linalg -o %t.upstream.mlir
// RUN: python3 %S/Inputs/same_results.py %t.upstream.mlir %t.formed.mlir 1e-5
// RUN: fuse-run %t.formed.mlir --verify --chip=sm_80 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=VERIFY
// RUN: fuse-run %t.formed.mlir --emit=ptx --chip=sm_90a \
// RUN:   | FileCheck %s --check-prefix=PTX

// A gated MLP of Phi-3: one product computes gate and up.

// CHECK-LABEL: func @phi3(
// CHECK-DAG:     %[[G:.*]] = tensor.extract_slice %arg1[0, 0] [16, 8] [1, 1]
// CHECK-DAG:     %[[U:.*]] = tensor.extract_slice %arg1[16, 0] [16, 8] [1, 1]
// CHECK:         %[[Y:.*]] = fuse.gated_mlp %arg0 gate(%[[G]]) up(%[[U]]) down(%arg2) act(silu)
// CHECK-NEXT:    return %[[Y]]

// VERIFY: V0 {{.*}} identical (kernels: 1,
// VERIFY: V1 {{.*}} bit-equal
// VERIFY: V2 portable on fuse emulator ok {{.*}} the same bits 2 times
// PTX: .target sm_90a

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

func.func @phi3(%x: tensor<3x8xf32>, %w: tensor<32x8xf32>,
                %d: tensor<8x16xf32>) -> tensor<3x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant dense<1.0> : tensor<3x16xf32>
  %e0 = tensor.empty() : tensor<3x32xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<3x32xf32>)
      -> tensor<3x32xf32>
  %0 = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<3x8xf32>, tensor<32x8xf32>)
      outs(%f0 : tensor<3x32xf32>) -> tensor<3x32xf32>
  %g = tensor.extract_slice %0[0, 0] [3, 16] [1, 1]
    : tensor<3x32xf32> to tensor<3x16xf32>
  %u = tensor.extract_slice %0[0, 16] [3, 16] [1, 1]
    : tensor<3x32xf32> to tensor<3x16xf32>
  %1 = arith.negf %g : tensor<3x16xf32>
  %2 = math.exp %1 : tensor<3x16xf32>
  %3 = arith.addf %2, %one : tensor<3x16xf32>
  %4 = arith.divf %g, %3 : tensor<3x16xf32>
  %5 = arith.mulf %u, %4 : tensor<3x16xf32>
  %e1 = tensor.empty() : tensor<3x8xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3x8xf32>)
      -> tensor<3x8xf32>
  %6 = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%5, %d : tensor<3x16xf32>, tensor<8x16xf32>)
      outs(%f1 : tensor<3x8xf32>) -> tensor<3x8xf32>
  return %6 : tensor<3x8xf32>
}
