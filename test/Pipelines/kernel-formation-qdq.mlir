// RUN: fuse-opt %s --fuse-kernel-formation-pipeline -o %t.once.mlir
// RUN: FileCheck %s --input-file=%t.once.mlir
// RUN: fuse-opt %t.once.mlir --fuse-kernel-formation-pipeline \
// RUN:   | diff %t.once.mlir -

// Static quantization written as quantize and dequantize in upstream ops: one
// run forms one kernel, which a second run does not change.

// CHECK-LABEL: func @mlp(
// CHECK-NEXT:    %[[Y:.*]] = fuse.mlp %arg0 norm(rms %arg1 eps 1.0e-05) up(%arg2) down(%arg3) act(relu)
// CHECK-SAME:      scales(f8E4M3FN, input = 0.021, up = 0.0013, hidden = 0.04, down = 9.0e-04, order = divide, form = qdq)
// CHECK-NEXT:    return %[[Y]]
func.func @mlp(%x: tensor<2x4xbf16>, %w: tensor<4xbf16>,
               %up: tensor<8x4xf8E4M3FN>, %down: tensor<4x8xf8E4M3FN>)
    -> tensor<2x4xbf16> {
  %n = fuse.rms_norm %x weight(%w) eps 1.0e-5
    : (tensor<2x4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
  %x0 = arith.extf %n : tensor<2x4xbf16> to tensor<2x4xf32>
  %sx = arith.constant dense<2.1e-2> : tensor<2x4xf32>
  %hix = arith.constant dense<448.0> : tensor<2x4xf32>
  %lox = arith.constant dense<-448.0> : tensor<2x4xf32>
  %x1 = arith.divf %x0, %sx : tensor<2x4xf32>
  %x2 = arith.minimumf %x1, %hix : tensor<2x4xf32>
  %x3 = arith.maximumf %x2, %lox : tensor<2x4xf32>
  %xq = arith.truncf %x3 : tensor<2x4xf32> to tensor<2x4xf8E4M3FN>
  %x4 = arith.extf %xq : tensor<2x4xf8E4M3FN> to tensor<2x4xf32>
  %x5 = arith.mulf %x4, %sx : tensor<2x4xf32>
  %xd = arith.truncf %x5 : tensor<2x4xf32> to tensor<2x4xbf16>

  %su = arith.constant dense<1.3e-3> : tensor<8x4xf32>
  %u0 = arith.extf %up : tensor<8x4xf8E4M3FN> to tensor<8x4xf32>
  %u1 = arith.mulf %u0, %su : tensor<8x4xf32>
  %ud = arith.truncf %u1 : tensor<8x4xf32> to tensor<8x4xbf16>
  %h = fuse.linear %xd, %ud
    : (tensor<2x4xbf16>, tensor<8x4xbf16>) -> tensor<2x8xbf16>
  %zero = arith.constant dense<0.0> : tensor<2x8xbf16>
  %a = arith.maximumf %h, %zero : tensor<2x8xbf16>

  %h0 = arith.extf %a : tensor<2x8xbf16> to tensor<2x8xf32>
  %sh = arith.constant dense<4.0e-2> : tensor<2x8xf32>
  %hih = arith.constant dense<448.0> : tensor<2x8xf32>
  %loh = arith.constant dense<-448.0> : tensor<2x8xf32>
  %h1 = arith.divf %h0, %sh : tensor<2x8xf32>
  %h2 = arith.minimumf %h1, %hih : tensor<2x8xf32>
  %h3 = arith.maximumf %h2, %loh : tensor<2x8xf32>
  %hq = arith.truncf %h3 : tensor<2x8xf32> to tensor<2x8xf8E4M3FN>
  %h4 = arith.extf %hq : tensor<2x8xf8E4M3FN> to tensor<2x8xf32>
  %h5 = arith.mulf %h4, %sh : tensor<2x8xf32>
  %hd = arith.truncf %h5 : tensor<2x8xf32> to tensor<2x8xbf16>

  %sd = arith.constant dense<9.0e-4> : tensor<4x8xf32>
  %d0 = arith.extf %down : tensor<4x8xf8E4M3FN> to tensor<4x8xf32>
  %d1 = arith.mulf %d0, %sd : tensor<4x8xf32>
  %dd = arith.truncf %d1 : tensor<4x8xf32> to tensor<4x8xbf16>
  %y = fuse.linear %hd, %dd
    : (tensor<2x8xbf16>, tensor<4x8xbf16>) -> tensor<2x4xbf16>
  return %y : tensor<2x4xbf16>
}
