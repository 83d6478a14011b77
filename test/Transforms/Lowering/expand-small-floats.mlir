// RUN: fuse-opt %s --fuse-expand-small-floats | FileCheck %s
// RUN: fuse-opt %s --fuse-expand-small-floats="f8=false" | FileCheck %s --check-prefix=NO-F8
// RUN: fuse-opt %s --fuse-expand-small-floats="bf16=false" | FileCheck %s --check-prefix=NO-BF16

// All values of all formats are checked against APFloat in
// unittests/Transforms/ExpandSmallFloatsTest.cpp.

// CHECK-LABEL: func @extend_e5m2
// CHECK-SAME: %[[X:.*]]: f8E5M2
// CHECK: %[[BITS:.*]] = arith.bitcast %[[X]] : f8E5M2 to i8
// CHECK: %[[WIDE:.*]] = arith.extui %[[BITS]] : i8 to i16
// CHECK: %[[UPPER:.*]] = arith.shli %[[WIDE]], %c8_i16
// CHECK: %[[HALF:.*]] = arith.bitcast %[[UPPER]] : i16 to f16
// CHECK: arith.extf %[[HALF]] : f16 to f32

// NO-F8-LABEL: func @extend_e5m2
// NO-F8: arith.extf %{{.*}} : f8E5M2 to f32
func.func @extend_e5m2(%x: f8E5M2) -> f32 {
  %y = arith.extf %x : f8E5M2 to f32
  return %y : f32
}

// CHECK-LABEL: func @extend_e4m3
// CHECK: arith.extf %{{.*}} : vector<4xf16> to vector<4xf32>
// CHECK: %[[SCALED:.*]] = arith.mulf %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK: %[[NAN:.*]] = arith.cmpi ugt
// CHECK: arith.select %[[NAN]], %{{.*}}, %[[SCALED]]
func.func @extend_e4m3(%x: vector<4xf8E4M3FN>) -> vector<4xf32> {
  %y = arith.extf %x : vector<4xf8E4M3FN> to vector<4xf32>
  return %y : vector<4xf32>
}

// CHECK-LABEL: func @truncate_e4m3
// CHECK-NOT: arith.truncf
// CHECK: arith.bitcast %{{.*}} : i8 to f8E4M3FN
func.func @truncate_e4m3(%x: f32) -> f8E4M3FN {
  %y = arith.truncf %x : f32 to f8E4M3FN
  return %y : f8E4M3FN
}

// CHECK-LABEL: func @truncate_e5m2
// CHECK-NOT: arith.truncf
// CHECK: arith.bitcast %{{.*}} : vector<4xi8> to vector<4xf8E5M2>
func.func @truncate_e5m2(%x: vector<4xf32>) -> vector<4xf8E5M2> {
  %y = arith.truncf %x : vector<4xf32> to vector<4xf8E5M2>
  return %y : vector<4xf8E5M2>
}

// CHECK-LABEL: func @bf16
// CHECK: %[[WIDE:.*]] = arith.extui
// CHECK: %[[BITS:.*]] = arith.shli %[[WIDE]], %c16_i32
// CHECK: arith.bitcast %[[BITS]] : i32 to f32
// CHECK-NOT: arith.truncf
// CHECK: arith.bitcast %{{.*}} : i16 to bf16

// NO-BF16-LABEL: func @bf16
// NO-BF16: arith.extf %{{.*}} : bf16 to f32
// NO-BF16: arith.truncf %{{.*}} : f32 to bf16
func.func @bf16(%x: bf16) -> bf16 {
  %y = arith.extf %x : bf16 to f32
  %z = arith.negf %y : f32
  %w = arith.truncf %z : f32 to bf16
  return %w : bf16
}

// Left alone: rounding to f32 first would round twice; another rounding mode;
// a format that every target has.

// CHECK-LABEL: func @no_f64
// CHECK: arith.truncf %{{.*}} : f64 to f8E4M3FN
func.func @no_f64(%x: f64) -> f8E4M3FN {
  %y = arith.truncf %x : f64 to f8E4M3FN
  return %y : f8E4M3FN
}

// CHECK-LABEL: func @no_rounding_mode
// CHECK: arith.truncf %{{.*}} toward_zero : f32 to bf16
func.func @no_rounding_mode(%x: f32) -> bf16 {
  %y = arith.truncf %x toward_zero : f32 to bf16
  return %y : bf16
}

// CHECK-LABEL: func @no_f16
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @no_f16(%x: f16) -> f16 {
  %y = arith.extf %x : f16 to f32
  %z = arith.negf %y : f32
  %w = arith.truncf %z : f32 to f16
  return %w : f16
}

// CHECK-LABEL: func @integers
// CHECK-SAME:  %[[X:.+]]: i8, %[[Y:.+]]: vector<4xi32>
// CHECK:       arith.sitofp %[[X]] : i8 to f32
// CHECK:       %[[A:.+]] = arith.bitcast %{{.+}} : i8 to f8E4M3FN
// CHECK:       arith.uitofp %[[Y]] : vector<4xi32> to vector<4xf32>
// CHECK:       %[[B:.+]] = arith.bitcast %{{.+}} : vector<4xi8> to vector<4xf8E5M2>
// CHECK:       arith.bitcast %[[A]] : f8E4M3FN to i8
// CHECK:       arith.fptosi %{{.+}} : f32 to i16
// CHECK:       arith.bitcast %[[B]] : vector<4xf8E5M2> to vector<4xi8>
// CHECK:       arith.fptoui %{{.+}} : vector<4xf32> to vector<4xi16>

// NO-F8-LABEL: func @integers
// NO-F8:       arith.sitofp %{{.+}} : i8 to f8E4M3FN
// NO-F8:       arith.fptoui %{{.+}} : vector<4xf8E5M2> to vector<4xi16>
func.func @integers(%x: i8, %y: vector<4xi32>) -> (i16, vector<4xi16>) {
  %a = arith.sitofp %x : i8 to f8E4M3FN
  %b = arith.uitofp %y : vector<4xi32> to vector<4xf8E5M2>
  %c = arith.fptosi %a : f8E4M3FN to i16
  %d = arith.fptoui %b : vector<4xf8E5M2> to vector<4xi16>
  return %c, %d : i16, vector<4xi16>
}

// LLVM has conversions between integers and bf16.

// CHECK-LABEL: func @integer_to_bf16
// CHECK:       arith.sitofp %{{.+}} : i8 to bf16
func.func @integer_to_bf16(%x: i8) -> bf16 {
  %0 = arith.sitofp %x : i8 to bf16
  return %0 : bf16
}
