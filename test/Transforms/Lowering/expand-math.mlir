// RUN: fuse-opt %s --split-input-file --fuse-expand-math \
// RUN:   --allow-unregistered-dialect --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func @functions(
// CHECK-NOT:     math.{{exp|tanh|erf|log|rsqrt|powf}}
// CHECK:         return
func.func @functions(%x: f32) -> (f32, f32, f32, f32, f32, f32) {
  %0 = math.exp %x : f32
  %1 = math.tanh %x : f32
  %2 = math.erf %x : f32
  %3 = math.log %x : f32
  %4 = math.rsqrt %x : f32
  %5 = math.powf %x, %x : f32
  return %0, %1, %2, %3, %4, %5 : f32, f32, f32, f32, f32, f32
}

// CHECK-LABEL: func @root(
// CHECK-SAME:    %[[X:.+]]: f32)
// CHECK:         %[[ONE:.+]] = arith.constant 1.0{{.*}} : f32
// CHECK:         %[[ROOT:.+]] = math.sqrt %[[X]] : f32
// CHECK:         %[[Y:.+]] = arith.divf %[[ONE]], %[[ROOT]] : f32
// CHECK:         return %[[Y]]
func.func @root(%x: f32) -> f32 {
  %0 = math.rsqrt %x : f32
  return %0 : f32
}

// Narrow types are computed in f32 and rounded once.

// CHECK-LABEL: func @narrow(
// CHECK:         arith.extf %{{.+}} : bf16 to f32
// CHECK-NOT:     math.tanh
// CHECK-NOT:     arith.truncf
// CHECK:         %[[Y:.+]] = arith.truncf %{{.+}} : f32 to bf16
// CHECK:         return %[[Y]]
func.func @narrow(%x: bf16) -> bf16 {
  %0 = math.tanh %x : bf16
  return %0 : bf16
}

// A remainder is a long division of integers, as many bits at a time as fit.

// CHECK-LABEL: func @remainder(
// CHECK-NOT:     arith.remf
// CHECK:         %[[BITS:.+]] = arith.constant 40 : i64
// CHECK:         scf.for {{.+}} step %[[BITS]] iter_args
// CHECK:           arith.shli
// CHECK:           arith.remui
// CHECK:         math.ctlz
// CHECK:         arith.bitcast %{{.+}} : i32 to f32
func.func @remainder(%x: f32, %y: f32) -> f32 {
  %0 = arith.remf %x, %y : f32
  return %0 : f32
}

// CHECK-LABEL: func @remainder_f64(
// CHECK:         arith.constant 11 : i64
// CHECK:         scf.for
func.func @remainder_f64(%x: f64, %y: f64) -> f64 {
  %0 = arith.remf %x, %y : f64
  return %0 : f64
}

// CHECK-LABEL: func @remainder_bf16(
// CHECK:         arith.extf %{{.+}} : bf16 to f32
// CHECK:         scf.for
// CHECK:         arith.truncf %{{.+}} : f32 to bf16
func.func @remainder_bf16(%x: bf16, %y: bf16) -> bf16 {
  %0 = arith.remf %x, %y : bf16
  return %0 : bf16
}

// CHECK-LABEL: func @decimal(
// CHECK-NOT:     math.log
// CHECK:         arith.constant 0.434294{{.+}} : f32
// CHECK:         return
func.func @decimal(%x: f32) -> f32 {
  %0 = math.log10 %x : f32
  return %0 : f32
}

// CHECK-LABEL: func @classes(
// CHECK-NOT:     math.is
// CHECK-DAG:     %[[INF:.+]] = arith.constant 0x7F800000 : f32
// CHECK-DAG:     %[[LEAST:.+]] = arith.constant 1.17549435E-38 : f32
// CHECK:         arith.cmpf oeq, %{{.+}}, %[[INF]]
// CHECK:         arith.cmpf olt, %{{.+}}, %[[INF]]
// CHECK:         arith.cmpf oge, %{{.+}}, %[[LEAST]]
func.func @classes(%x: f32) -> (i1, i1) {
  %0 = math.isinf %x : f32
  %1 = math.isnormal %x : f32
  return %0, %1 : i1, i1
}

// What is one instruction stays.

// CHECK-LABEL: func @kept(
// CHECK:         math.fma
// CHECK:         math.roundeven
// CHECK:         math.absf
// CHECK:         math.copysign
// CHECK:         math.isnan
func.func @kept(%x: f32) -> (f32, i1) {
  %0 = math.fma %x, %x, %x : f32
  %1 = math.roundeven %0 : f32
  %2 = math.absf %1 : f32
  %3 = math.copysign %2, %x : f32
  %4 = math.isnan %3 : f32
  return %3, %4 : f32, i1
}

// So do ops of other dialects, known or not.

// CHECK-LABEL: func @unknown(
// CHECK:         "someone.else"
func.func @unknown(%x: f32) -> f32 {
  %0 = "someone.else"(%x) : (f32) -> f32
  return %0 : f32
}

// -----

func.func @double(%x: f64) -> f64 {
  // expected-error@+1 {{'math.tanh' op has no expansion for operands of type 'f64'}}
  %0 = math.tanh %x : f64
  return %0 : f64
}

// -----

func.func @vector(%x: vector<4xf32>) -> vector<4xf32> {
  // expected-error@+1 {{'arith.remf' op has no expansion for operands of type 'vector<4xf32>'}}
  %0 = arith.remf %x, %x : vector<4xf32>
  return %0 : vector<4xf32>
}

// -----

func.func @tensor(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'math.exp' op has no expansion for operands of type 'tensor<4xf32>'}}
  %0 = math.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
