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

// What is one instruction stays.

// CHECK-LABEL: func @kept(
// CHECK:         math.fma
// CHECK:         math.roundeven
// CHECK:         math.absf
func.func @kept(%x: f32) -> f32 {
  %0 = math.fma %x, %x, %x : f32
  %1 = math.roundeven %0 : f32
  %2 = math.absf %1 : f32
  return %2 : f32
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
