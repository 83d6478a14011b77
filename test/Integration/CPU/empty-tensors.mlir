// Tensors without elements, also where another leading size is not known, run
// on the CPU and lower to kernels that are launched for no rows.
// RUN: fuse-run %s --entry=norm --shape 0:2x0x4 --print | FileCheck %s --check-prefix=NORM
// RUN: fuse-run %s --entry=linear --shape 0:3x0x4 --print | FileCheck %s --check-prefix=LINEAR
// RUN: fuse-run %s --entry=static --print | FileCheck %s --check-prefix=STATIC
// RUN: fuse-run %s --entry=tokens --shape 0:0x3x0x4 --print | FileCheck %s --check-prefix=TOKENS
// RUN: fuse-run %s --entry=loss --shape 0:3x2x0x17 --print | FileCheck %s --check-prefix=LOSS
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_90 -o /dev/null

// NORM: 2x0x4xf32
func.func @norm(%x: tensor<?x0x4xf32>, %weight: tensor<4xf32>)
    -> tensor<?x0x4xf32> {
  %0 = fuse.rms_norm %x weight(%weight) eps 1.0e-6
      : (tensor<?x0x4xf32>, tensor<4xf32>) -> tensor<?x0x4xf32>
  return %0 : tensor<?x0x4xf32>
}

// LINEAR: 3x0x8xf32
func.func @linear(%x: tensor<?x0x4xf32>, %weight: tensor<8x4xf32>)
    -> tensor<?x0x8xf32> {
  %0 = fuse.linear %x, %weight
      : (tensor<?x0x4xf32>, tensor<8x4xf32>) -> tensor<?x0x8xf32>
  return %0 : tensor<?x0x8xf32>
}

// STATIC: 0x4xf32
func.func @static(%x: tensor<0x4xf32>) -> tensor<0x4xf32> {
  %0 = fuse.activation silu %x : tensor<0x4xf32> -> tensor<0x4xf32>
  return %0 : tensor<0x4xf32>
}

// Scales of tokens have the leading sizes of the tensor.
// TOKENS: 0x3x0x8xf32
func.func @tokens(%x: tensor<0x?x0x4xf32>, %weight: tensor<8x4xi8>)
    -> tensor<0x?x0x8xf32> {
  %q, %s = fuse.dynamic_quantize per_token %x
      : (tensor<0x?x0x4xf32>) -> (tensor<0x?x0x4xi8>, tensor<0x?x0xf32>)
  %0 = fuse.linear %q, %weight dynamic_scale(%s) scales(dynamic, 0.5)
      : (tensor<0x?x0x4xi8>, tensor<8x4xi8>, tensor<0x?x0xf32>)
      -> tensor<0x?x0x8xf32>
  return %0 : tensor<0x?x0x8xf32>
}

// No row counts, which makes a sum of zero.
// LOSS: f32
// LOSS-NEXT: [0]
func.func @loss(%x: tensor<3x?x0x17xf32>, %labels: tensor<3x?x0xi64>)
    -> tensor<f32> {
  %0 = fuse.cross_entropy %x, %labels sum
      : (tensor<3x?x0x17xf32>, tensor<3x?x0xi64>) -> tensor<f32>
  return %0 : tensor<f32>
}
