// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark \
// RUN:   -o %t.once.mlir
// RUN: FileCheck %s --input-file=%t.once.mlir
// RUN: fuse-opt %t.once.mlir --fuse-raise-layers -split-input-file \
// RUN:   -o %t.twice.mlir
// RUN: diff %t.once.mlir %t.twice.mlir

// A value that is cast to a stored type and back: both layers are found in one
// run, and another run changes nothing.

// CHECK-LABEL: func @quantize_dequantize(
// CHECK-NEXT:    %[[Q:.*]] = fuse.quantize %arg0 scale 0.025 order divide : (tensor<2x4xf32>) -> tensor<2x4xf8E4M3FN>
// CHECK-NEXT:    %[[X:.*]] = fuse.dequantize %[[Q]] scale 0.025 : (tensor<2x4xf8E4M3FN>) -> tensor<2x4xf32>
// CHECK-NEXT:    return %[[X]]
func.func @quantize_dequantize(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = arith.constant dense<2.5e-2> : tensor<2x4xf32>
  %hi = arith.constant dense<448.0> : tensor<2x4xf32>
  %lo = arith.constant dense<-448.0> : tensor<2x4xf32>
  %a = arith.divf %x, %s : tensor<2x4xf32>
  %b = arith.minimumf %a, %hi : tensor<2x4xf32>
  %c = arith.maximumf %b, %lo : tensor<2x4xf32>
  %q = arith.truncf %c : tensor<2x4xf32> to tensor<2x4xf8E4M3FN>
  %e = arith.extf %q : tensor<2x4xf8E4M3FN> to tensor<2x4xf32>
  %y = arith.mulf %e, %s : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Both casts in the body of one op, with the result in bf16.

// CHECK-LABEL: func @in_one_body(
// CHECK-NEXT:    %[[Q:.*]] = fuse.quantize %arg0 scale 0.025 order divide : (tensor<?x4xbf16>) -> tensor<?x4xf8E4M3FN>
// CHECK-NEXT:    %[[X:.*]] = fuse.dequantize %[[Q]] scale 0.025 : (tensor<?x4xf8E4M3FN>) -> tensor<?x4xbf16>
// CHECK-NEXT:    return %[[X]]
func.func @in_one_body(%x: tensor<?x4xbf16>) -> tensor<?x4xbf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xbf16>
  %init = tensor.empty(%n) : tensor<?x4xbf16>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x4xbf16>) outs(%init : tensor<?x4xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %s = arith.constant 2.5e-2 : f32
    %hi = arith.constant 448.0 : f32
    %lo = arith.constant -448.0 : f32
    %f = arith.extf %in : bf16 to f32
    %a = arith.divf %f, %s : f32
    %b = arith.minimumf %a, %hi : f32
    %c = arith.maximumf %b, %lo : f32
    %q = arith.truncf %c : f32 to f8E4M3FN
    %e = arith.extf %q : f8E4M3FN to f32
    %m = arith.mulf %e, %s : f32
    %t = arith.truncf %m : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<?x4xbf16>
  return %y : tensor<?x4xbf16>
}

// -----

// Integers.

// CHECK-LABEL: func @int8(
// CHECK-NEXT:    %[[Q:.*]] = fuse.quantize %arg0 scale 0.05 order divide : (tensor<2x4xf32>) -> tensor<2x4xi8>
// CHECK-NEXT:    %[[X:.*]] = fuse.dequantize %[[Q]] scale 0.05 : (tensor<2x4xi8>) -> tensor<2x4xf32>
// CHECK-NEXT:    return %[[X]]
func.func @int8(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = arith.constant dense<0.05> : tensor<2x4xf32>
  %hi = arith.constant dense<127.0> : tensor<2x4xf32>
  %lo = arith.constant dense<-128.0> : tensor<2x4xf32>
  %a = arith.divf %x, %s : tensor<2x4xf32>
  %r = math.roundeven %a : tensor<2x4xf32>
  %b = arith.minimumf %r, %hi : tensor<2x4xf32>
  %c = arith.maximumf %b, %lo : tensor<2x4xf32>
  %q = arith.fptosi %c : tensor<2x4xf32> to tensor<2x4xi8>
  %e = arith.sitofp %q : tensor<2x4xi8> to tensor<2x4xf32>
  %y = arith.mulf %e, %s : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A cast that does not saturate stays, and its result is dequantized.

// CHECK-LABEL: func @cast_without_clamp(
// CHECK:         %[[Q:.*]] = arith.truncf
// CHECK-NEXT:    fuse.dequantize %[[Q]] scale 0.025
// CHECK-NEXT:    return
func.func @cast_without_clamp(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = arith.constant dense<2.5e-2> : tensor<2x4xf32>
  %a = arith.divf %x, %s : tensor<2x4xf32>
  // expected-remark-re @below {{[Missed] quantize{{.*}}FUSE-N119 missing-clamp}}
  %q = arith.truncf %a : tensor<2x4xf32> to tensor<2x4xf8E4M3FN>
  %e = arith.extf %q : tensor<2x4xf8E4M3FN> to tensor<2x4xf32>
  %y = arith.mulf %e, %s : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// The product with another value is not a dequantize, but its factor is.

// CHECK-LABEL: func @factor_of_a_product(
// CHECK-NEXT:    %[[Q:.*]] = fuse.quantize %arg0
// CHECK-NEXT:    %[[X:.*]] = fuse.dequantize %[[Q]] scale 0.025
// CHECK-NEXT:    arith.mulf %[[X]], %arg1
// CHECK-NEXT:    return
func.func @factor_of_a_product(%x: tensor<2x4xf32>, %g: tensor<2x4xf32>)
    -> tensor<2x4xf32> {
  %s = arith.constant dense<2.5e-2> : tensor<2x4xf32>
  %hi = arith.constant dense<448.0> : tensor<2x4xf32>
  %lo = arith.constant dense<-448.0> : tensor<2x4xf32>
  %a = arith.divf %x, %s : tensor<2x4xf32>
  %b = arith.minimumf %a, %hi : tensor<2x4xf32>
  %c = arith.maximumf %b, %lo : tensor<2x4xf32>
  %q = arith.truncf %c : tensor<2x4xf32> to tensor<2x4xf8E4M3FN>
  %e = arith.extf %q : tensor<2x4xf8E4M3FN> to tensor<2x4xf32>
  %m = arith.mulf %e, %s : tensor<2x4xf32>
  %y = arith.mulf %m, %g : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
