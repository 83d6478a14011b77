// RUN: fuse-opt %s --convert-elementwise-to-linalg -o %t.upstream.mlir
// RUN: fuse-opt %s --fuse-raise-layers -o %t.raised.mlir
// RUN: FileCheck %s --input-file=%t.raised.mlir

// RUN: fuse-run %t.upstream.mlir --entry=gemma_norm --reference --print > %t.1
// RUN: fuse-run %t.raised.mlir --entry=gemma_norm --reference --print > %t.2
// RUN: diff %t.1 %t.2

// RUN: fuse-run %t.upstream.mlir --entry=llama_norm --reference --print > %t.1
// RUN: fuse-run %t.raised.mlir --entry=llama_norm --reference --print > %t.2
// RUN: diff %t.1 %t.2

// RUN: fuse-run %t.upstream.mlir --entry=gelu_quantize --reference --print > %t.1
// RUN: fuse-run %t.raised.mlir --entry=gelu_quantize --reference --print > %t.2
// RUN: diff %t.1 %t.2

// Raised and written out, a formula gives the same bits where it was written
// in the order of operations that the layer's lowering has. Weights are
// constants: arguments would be filled by the role that a layer op shows.

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

// CHECK-LABEL: func @gelu_quantize(
// CHECK:         fuse.activation gelu_tanh %{{.*}} : tensor<3x8xbf16> -> tensor<3x8xf32>
// CHECK-NEXT:    fuse.quantize %{{.*}} scale 0.0021 order divide
// CHECK-NEXT:    return
func.func @gelu_quantize(%x: tensor<3x8xbf16>) -> tensor<3x8xf8E4M3FN> {
  %one = arith.constant dense<1.0> : tensor<3x8xf32>
  %half = arith.constant dense<0.5> : tensor<3x8xf32>
  %c = arith.constant dense<0.044715> : tensor<3x8xf32>
  %k = arith.constant dense<0.797884583> : tensor<3x8xf32>
  %scale = arith.constant dense<2.1e-3> : tensor<3x8xf32>
  %lo = arith.constant dense<-448.0> : tensor<3x8xf32>
  %hi = arith.constant dense<448.0> : tensor<3x8xf32>
  %f = arith.extf %x : tensor<3x8xbf16> to tensor<3x8xf32>
  %ff = arith.mulf %f, %f : tensor<3x8xf32>
  %fff = arith.mulf %ff, %f : tensor<3x8xf32>
  %cp = arith.mulf %c, %fff : tensor<3x8xf32>
  %a = arith.addf %f, %cp : tensor<3x8xf32>
  %m = arith.mulf %k, %a : tensor<3x8xf32>
  %t = math.tanh %m : tensor<3x8xf32>
  %s = arith.addf %one, %t : tensor<3x8xf32>
  %h = arith.mulf %half, %f : tensor<3x8xf32>
  %g = arith.mulf %h, %s : tensor<3x8xf32>
  %d = arith.divf %g, %scale : tensor<3x8xf32>
  %l = arith.maximumf %d, %lo : tensor<3x8xf32>
  %u = arith.minimumf %l, %hi : tensor<3x8xf32>
  %q = arith.truncf %u : tensor<3x8xf32> to tensor<3x8xf8E4M3FN>
  return %q : tensor<3x8xf8E4M3FN>
}
