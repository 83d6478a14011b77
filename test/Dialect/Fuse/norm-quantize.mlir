// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @norm_quantize
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[N:.*]]: tensor<64xbf16>
func.func @norm_quantize(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>) {
  // CHECK: fuse.norm_quantize %[[X]] norm(rms %[[N]] eps 1.0e-06) scales(f8E4M3FN, input = 0.021) rounding(exact) : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xf8E4M3FN>
  %0 = fuse.norm_quantize %x norm(rms %n eps 1.0e-6)
         scales(f8E4M3FN, input = 2.1e-2) rounding(exact)
       : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xf8E4M3FN>
  return
}

// The stream and the norm are also returned without quantization.
// CHECK-LABEL: @extras
func.func @extras(%x: tensor<?x64xbf16>, %r: tensor<?x64xbf16>) {
  // CHECK: %{{.*}}:3 = fuse.norm_quantize %{{.*}} residual(%{{.*}}) norm(layer eps 1.0e-05) also([stream, normed]) scales(i8, input = 0.5, order = divide)
  // CHECK-SAME: -> (tensor<?x64xi8>, tensor<?x64xbf16>, tensor<?x64xbf16>)
  %0:3 = fuse.norm_quantize %x residual(%r) norm(layer eps 1.0e-5)
           also([stream, normed]) scales(i8, input = 0.5, order = divide)
           rounding(exact)
         : (tensor<?x64xbf16>, tensor<?x64xbf16>)
           -> (tensor<?x64xi8>, tensor<?x64xbf16>, tensor<?x64xbf16>)
  return
}
