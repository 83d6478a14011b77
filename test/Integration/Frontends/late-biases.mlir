// RUN: fuse-opt %s --fuse-raise-layers -o %t.raised.mlir
// RUN: fuse-opt %t.raised.mlir --fuse-form-kernels -o %t.formed.mlir
// RUN: FileCheck %s --input-file=%t.formed.mlir
// RUN: fuse-opt %t.formed.mlir --fuse-unfuse | diff %t.raised.mlir -
// RUN: fuse-opt %s --convert-elementwise-to-linalg -o %t.upstream.mlir
// RUN: python3 %S/Inputs/same_results.py %t.upstream.mlir %t.formed.mlir 0
// RUN: fuse-run %t.formed.mlir --verify --chip=sm_80 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=VERIFY

// A gated MLP in bf16, whose biases are added to rounded sums by ops of their
// own. The kernel has the same roundings, and the same bits.

// CHECK-LABEL: func @gated_bias_late(
// CHECK:         %[[Y:.*]] = fuse.gated_mlp %arg0 gate(%arg1 bias %arg2) up(%arg3 bias %arg4) down(%arg5 bias %arg6) act(silu) rounding(exact bias after_rounding)
// CHECK-NEXT:    return %[[Y]]

// VERIFY: V0 {{.*}} identical (kernels: 1,
// VERIFY: V1 {{.*}} bit-equal
// VERIFY: V2 portable on fuse emulator ok 32 of 32 values checked by contract

#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (n)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

func.func @gated_bias_late(
    %x: tensor<4x8xbf16>, %wg: tensor<16x8xbf16>, %bg: tensor<16xbf16>,
    %wu: tensor<16x8xbf16>, %bu: tensor<16xbf16>, %wd: tensor<8x16xbf16>,
    %bd: tensor<8xbf16>) -> tensor<4x8xbf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %ge = tensor.empty() : tensor<4x16xf32>
  %gz = linalg.fill ins(%zero : f32) outs(%ge : tensor<4x16xf32>)
      -> tensor<4x16xf32>
  %gs = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %wg : tensor<4x8xbf16>, tensor<16x8xbf16>)
      outs(%gz : tensor<4x16xf32>) -> tensor<4x16xf32>
  %gr = arith.truncf %gs : tensor<4x16xf32> to tensor<4x16xbf16>
  %gi = tensor.empty() : tensor<4x16xbf16>
  %g = linalg.generic {indexing_maps = [#id, #row, #id],
                         iterator_types = ["parallel", "parallel"]}
      ins(%gr, %bg : tensor<4x16xbf16>, tensor<16xbf16>)
      outs(%gi : tensor<4x16xbf16>) {
  ^bb0(%s: bf16, %c: bf16, %o: bf16):
    %0 = arith.addf %s, %c : bf16
    linalg.yield %0 : bf16
  } -> tensor<4x16xbf16>
  %ue = tensor.empty() : tensor<4x16xf32>
  %uz = linalg.fill ins(%zero : f32) outs(%ue : tensor<4x16xf32>)
      -> tensor<4x16xf32>
  %us = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %wu : tensor<4x8xbf16>, tensor<16x8xbf16>)
      outs(%uz : tensor<4x16xf32>) -> tensor<4x16xf32>
  %ur = arith.truncf %us : tensor<4x16xf32> to tensor<4x16xbf16>
  %ui = tensor.empty() : tensor<4x16xbf16>
  %u = linalg.generic {indexing_maps = [#id, #row, #id],
                         iterator_types = ["parallel", "parallel"]}
      ins(%ur, %bu : tensor<4x16xbf16>, tensor<16xbf16>)
      outs(%ui : tensor<4x16xbf16>) {
  ^bb0(%s: bf16, %c: bf16, %o: bf16):
    %0 = arith.addf %s, %c : bf16
    linalg.yield %0 : bf16
  } -> tensor<4x16xbf16>
  %a = linalg.generic {indexing_maps = [#id, #id],
                       iterator_types = ["parallel", "parallel"]}
      ins(%g : tensor<4x16xbf16>) outs(%gi : tensor<4x16xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    %0 = arith.extf %v : bf16 to f32
    %1 = arith.negf %0 : f32
    %2 = math.exp %1 : f32
    %3 = arith.addf %2, %one : f32
    %4 = arith.divf %0, %3 : f32
    %5 = arith.truncf %4 : f32 to bf16
    linalg.yield %5 : bf16
  } -> tensor<4x16xbf16>
  %p = arith.mulf %a, %u : tensor<4x16xbf16>
  %de = tensor.empty() : tensor<4x8xf32>
  %dz = linalg.fill ins(%zero : f32) outs(%de : tensor<4x8xf32>)
      -> tensor<4x8xf32>
  %ds = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%p, %wd : tensor<4x16xbf16>, tensor<8x16xbf16>)
      outs(%dz : tensor<4x8xf32>) -> tensor<4x8xf32>
  %dr = arith.truncf %ds : tensor<4x8xf32> to tensor<4x8xbf16>
  %di = tensor.empty() : tensor<4x8xbf16>
  %d = linalg.generic {indexing_maps = [#id, #row, #id],
                         iterator_types = ["parallel", "parallel"]}
      ins(%dr, %bd : tensor<4x8xbf16>, tensor<8xbf16>)
      outs(%di : tensor<4x8xbf16>) {
  ^bb0(%s: bf16, %c: bf16, %o: bf16):
    %0 = arith.addf %s, %c : bf16
    linalg.yield %0 : bf16
  } -> tensor<4x8xbf16>
  return %d : tensor<4x8xbf16>
}
