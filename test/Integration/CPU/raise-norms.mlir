// A norm that is raised to a layer op has the bits of its formula, if the order
// of operations is that of the layer's lowering. Weights are constants: weights
// in arguments would be filled by the role that a layer op gives them.

// RUN: fuse-opt %s --convert-elementwise-to-linalg -o %t.upstream.mlir
// RUN: fuse-opt %s --fuse-raise-layers -o %t.raised.mlir
// RUN: FileCheck %s --input-file=%t.raised.mlir

// RUN: fuse-run %t.upstream.mlir --entry=gemma_norm --reference --print > %t.1
// RUN: fuse-run %t.raised.mlir --entry=gemma_norm --reference --print > %t.2
// RUN: diff %t.1 %t.2

// RUN: fuse-run %t.upstream.mlir --entry=llama_norm --reference --print > %t.1
// RUN: fuse-run %t.raised.mlir --entry=llama_norm --reference --print > %t.2
// RUN: diff %t.1 %t.2

// CHECK-LABEL: func @gemma_norm(
// CHECK:         fuse.rms_norm %{{.*}} offset 1 cast after_weight
// CHECK-NEXT:    return
func.func @gemma_norm(%x: tensor<3x8xbf16>) -> tensor<3x8xbf16> {
  %w = arith.constant dense<[0.0, 0.5, -0.25, 3.0, 0.111, -1.0, 2.0, 0.7]>
    : tensor<8xbf16>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %n = arith.constant dense<8.0> : tensor<3xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<3xf32>
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %init = tensor.empty() : tensor<3x8xf32>
  %f = arith.extf %x : tensor<3x8xbf16> to tensor<3x8xf32>
  %sq = arith.mulf %f, %f : tensor<3x8xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<3x8xf32>)
      outs(%zero : tensor<3xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<3xf32>
  %v = arith.addf %mean, %eps : tensor<3xf32>
  %r = math.rsqrt %v : tensor<3xf32>
  %rb = linalg.broadcast ins(%r : tensor<3xf32>)
      outs(%init : tensor<3x8xf32>) dimensions = [1]
  %wf = arith.extf %w : tensor<8xbf16> to tensor<8xf32>
  %w1 = arith.addf %one, %wf : tensor<8xf32>
  %wb = linalg.broadcast ins(%w1 : tensor<8xf32>)
      outs(%init : tensor<3x8xf32>) dimensions = [0]
  %nf = arith.mulf %f, %rb : tensor<3x8xf32>
  %p = arith.mulf %nf, %wb : tensor<3x8xf32>
  %y = arith.truncf %p : tensor<3x8xf32> to tensor<3x8xbf16>
  return %y : tensor<3x8xbf16>
}

// CHECK-LABEL: func @llama_norm(
// CHECK:         fuse.rms_norm %{{.*}} eps 1.0e-06 :
// CHECK-NEXT:    return
func.func @llama_norm(%x: tensor<3x8xbf16>) -> tensor<3x8xbf16> {
  %w = arith.constant dense<[0.0, 0.5, -0.25, 3.0, 0.111, -1.0, 2.0, 0.7]>
    : tensor<8xbf16>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %n = arith.constant dense<8.0> : tensor<3xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<3xf32>
  %init = tensor.empty() : tensor<3x8xf32>
  %initb = tensor.empty() : tensor<3x8xbf16>
  %f = arith.extf %x : tensor<3x8xbf16> to tensor<3x8xf32>
  %sq = arith.mulf %f, %f : tensor<3x8xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<3x8xf32>)
      outs(%zero : tensor<3xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<3xf32>
  %v = arith.addf %mean, %eps : tensor<3xf32>
  %r = math.rsqrt %v : tensor<3xf32>
  %rb = linalg.broadcast ins(%r : tensor<3xf32>)
      outs(%init : tensor<3x8xf32>) dimensions = [1]
  %nf = arith.mulf %f, %rb : tensor<3x8xf32>
  %nb = arith.truncf %nf : tensor<3x8xf32> to tensor<3x8xbf16>
  %wb = linalg.broadcast ins(%w : tensor<8xbf16>)
      outs(%initb : tensor<3x8xbf16>) dimensions = [0]
  %y = arith.mulf %wb, %nb : tensor<3x8xbf16>
  return %y : tensor<3x8xbf16>
}
