// RUN: fuse-opt %s --pass-pipeline="builtin.module(gpu.module(convert-small-floats-to-nvvm))" \
// RUN:   | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: func @to_f8(
  // CHECK-SAME:    %[[X:.+]]: f32)
  // CHECK:         %[[ZERO:.+]] = arith.constant 0.0
  // CHECK:         %[[PAIR:.+]] = nvvm.convert.f32x2.to.f8x2 %[[ZERO]], %[[X]] {rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>} : i16(f8E4M3FN)
  // CHECK:         %[[BYTE:.+]] = arith.trunci %[[PAIR]] : i16 to i8
  // CHECK:         %[[Q:.+]] = arith.bitcast %[[BYTE]] : i8 to f8E4M3FN
  // CHECK:         return %[[Q]]
  func.func @to_f8(%x: f32) -> f8E4M3FN {
    %0 = arith.truncf %x : f32 to f8E4M3FN
    return %0 : f8E4M3FN
  }

  // CHECK-LABEL: func @bf16_to_f8(
  // CHECK:         arith.extf %{{.+}} : bf16 to f32
  // CHECK:         nvvm.convert.f32x2.to.f8x2 {{.*}} : i16(f8E5M2)
  func.func @bf16_to_f8(%x: bf16) -> f8E5M2 {
    %0 = arith.truncf %x : bf16 to f8E5M2
    return %0 : f8E5M2
  }

  // CHECK-LABEL: func @from_f8(
  // CHECK-SAME:    %[[Q:.+]]: f8E4M3FN)
  // CHECK:         %[[BYTE:.+]] = arith.bitcast %[[Q]] : f8E4M3FN to i8
  // CHECK:         %[[PAIR:.+]] = vector.broadcast %[[BYTE]] : i8 to vector<2xi8>
  // CHECK:         %[[HALVES:.+]] = nvvm.convert.f8x2.to.f16x2 %[[PAIR]] : vector<2xi8>(f8E4M3FN) -> vector<2xf16>
  // CHECK:         %[[HALF:.+]] = vector.extract %[[HALVES]][0]
  // CHECK:         arith.extf %[[HALF]] : f16 to f32
  func.func @from_f8(%q: f8E4M3FN) -> f32 {
    %0 = arith.extf %q : f8E4M3FN to f32
    return %0 : f32
  }

  // CHECK-LABEL: func @others(
  // CHECK:         arith.truncf %{{.+}} : f64 to f8E4M3FN
  // CHECK:         arith.truncf %{{.+}} toward_zero : f32 to f8E4M3FN
  // CHECK:         arith.truncf %{{.+}} : f32 to bf16
  func.func @others(%x: f64, %y: f32) -> (f8E4M3FN, f8E4M3FN, bf16) {
    %0 = arith.truncf %x : f64 to f8E4M3FN
    %1 = arith.truncf %y toward_zero : f32 to f8E4M3FN
    %2 = arith.truncf %y : f32 to bf16
    return %0, %1, %2 : f8E4M3FN, f8E4M3FN, bf16
  }
}
