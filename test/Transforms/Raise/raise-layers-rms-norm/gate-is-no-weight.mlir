// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers -o /dev/null \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK --allow-empty

// A gate multiplied to a norm is not its weight.

// CHECK-LABEL: func @gate_is_no_weight(
// CHECK-NEXT:    %[[N:.*]] = fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>)
// CHECK-NEXT:    %[[Y:.*]] = arith.mulf %[[N]], %
// CHECK-NEXT:    return %[[Y]]
// REMARK-NOT: remark:
func.func @gate_is_no_weight(%x: tensor<4x64xf32>, %g: tensor<4x64xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %x, %rb : tensor<4x64xf32>
  %y = arith.mulf %nf, %g : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
