// An activation and a quantization that are raised to layer ops have the bits of
// their formulas, if the order of operations is that of the layers' lowering.

// RUN: fuse-opt %s --convert-elementwise-to-linalg -o %t.upstream.mlir
// RUN: fuse-opt %s --fuse-raise-layers -o %t.raised.mlir
// RUN: FileCheck %s --input-file=%t.raised.mlir
// RUN: fuse-run %t.upstream.mlir --reference --print > %t.1
// RUN: fuse-run %t.raised.mlir --reference --print > %t.2
// RUN: diff %t.1 %t.2

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
