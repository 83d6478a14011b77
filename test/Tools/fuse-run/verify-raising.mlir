// Raising is checked against the file on the CPU. It may change single roundings
// of f32, but no rounding to bf16: bits in bf16 stay.

// RUN: fuse-run %s --verify --dim=64 | FileCheck %s

// CHECK-LABEL: @f32
// CHECK-NEXT:  V0 raised against written, CPU ok {{[1-9][0-9]*}} of 1024 values differ
// CHECK-NEXT:  V0 unfuse(form(x)) is x ok identical (kernels: 1,

// The gate in bf16 is rounded op by op and stays as it is.

// CHECK-LABEL: @bf16
// CHECK-NEXT:  V0 raised against written, CPU ok equal (2048 values)
// CHECK-NEXT:  V0 unfuse(form(x)) is x ok identical (kernels: 1,

// Nothing is raised, so there is nothing to compare.

// CHECK-LABEL: @layers
// CHECK-NEXT:  V0 unfuse(form(x)) is x ok identical (kernels: 1,

#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @f32(%x: tensor<?x16xf32>, %w1: tensor<16x16xf32>,
               %w2: tensor<16x16xf32>) -> tensor<?x16xf32> {
  %0 = fuse.linear %x, %w1
    : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %c0 = arith.constant 0 : index
  %tokens = tensor.dim %x, %c0 : tensor<?x16xf32>
  %init = tensor.empty(%tokens) : tensor<?x16xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map],
                       iterator_types = ["parallel", "parallel"]}
         ins(%0 : tensor<?x16xf32>) outs(%init : tensor<?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %minus = arith.negf %in : f32
    %exp = math.exp %minus : f32
    %sum = arith.addf %exp, %one : f32
    %reciprocal = arith.divf %one, %sum : f32
    %value = arith.mulf %in, %reciprocal : f32
    linalg.yield %value : f32
  } -> tensor<?x16xf32>
  %2 = fuse.linear %1, %w2
    : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  return %2 : tensor<?x16xf32>
}

func.func @bf16(%x: tensor<?x16xbf16>, %w1: tensor<16x16xbf16>,
                %w2: tensor<16x16xbf16>)
    -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %0 = fuse.linear %x, %w1
    : (tensor<?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x16xbf16>
  %c0 = arith.constant 0 : index
  %tokens = tensor.dim %x, %c0 : tensor<?x16xbf16>
  %init = tensor.empty(%tokens) : tensor<?x16xbf16>
  %1 = linalg.generic {indexing_maps = [#map, #map],
                       iterator_types = ["parallel", "parallel"]}
         ins(%0 : tensor<?x16xbf16>) outs(%init : tensor<?x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %wide = arith.extf %in : bf16 to f32
    %one = arith.constant 1.0 : f32
    %minus = arith.negf %wide : f32
    %exp = math.exp %minus : f32
    %sum = arith.addf %exp, %one : f32
    %value = arith.divf %wide, %sum : f32
    %narrow = arith.truncf %value : f32 to bf16
    linalg.yield %narrow : bf16
  } -> tensor<?x16xbf16>
  %2 = fuse.linear %1, %w2
    : (tensor<?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x16xbf16>
  %3 = linalg.generic {indexing_maps = [#map, #map],
                       iterator_types = ["parallel", "parallel"]}
         ins(%2 : tensor<?x16xbf16>) outs(%init : tensor<?x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %wide = arith.extf %in : bf16 to f32
    %one = arith.constant 1.0 : f32
    %minus = arith.negf %wide : f32
    %exp = math.exp %minus : f32
    %sum = arith.addf %exp, %one : f32
    %sigmoid = arith.divf %one, %sum : f32
    %gate = arith.truncf %sigmoid : f32 to bf16
    %widened = arith.extf %gate : bf16 to f32
    %value = arith.mulf %wide, %widened : f32
    %narrow = arith.truncf %value : f32 to bf16
    linalg.yield %narrow : bf16
  } -> tensor<?x16xbf16>
  return %2, %3 : tensor<?x16xbf16>, tensor<?x16xbf16>
}

func.func @layers(%x: tensor<?x16xf32>, %w1: tensor<16x16xf32>,
                  %w2: tensor<16x16xf32>) -> tensor<?x16xf32> {
  %0 = fuse.linear %x, %w1
    : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %1 = fuse.activation silu %0 : tensor<?x16xf32> -> tensor<?x16xf32>
  %2 = fuse.linear %1, %w2
    : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  return %2 : tensor<?x16xf32>
}
