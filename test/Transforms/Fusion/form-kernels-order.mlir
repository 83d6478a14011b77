// RUN: fuse-opt %s --fuse-form-kernels -verify-diagnostics --remarks-filter=fuse \
// RUN:   --remark-format=emitRemark | FileCheck %s
// RUN: fuse-opt %s --fuse-form-kernels --fuse-form-kernels | FileCheck %s
// RUN: fuse-opt %s --fuse-form-kernels --emit-bytecode | fuse-opt | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// Kernels depend only on the order of the ops in the block.

// Of two quantize ops after a norm, the first becomes a member of the kernel.
// CHECK-LABEL: @first_of_two_quantize_ops
func.func @first_of_two_quantize_ops(%x: tensor<?x64xbf16>)
    -> (tensor<?x64xi8>, tensor<?x64xi8>) {
  // CHECK: %[[K:.*]]:2 = fuse.norm_quantize {{.*}} also([normed]) scales(i8, input = 0.5)
  // CHECK: %[[Q:.*]] = fuse.quantize %[[K]]#1 scale 0.25
  // CHECK: return %[[Q]], %[[K]]#0
  // expected-remark-re @below {{[Passed] first_of_two_quantize_ops#0{{.*}}Family=norm_quantize}}
  // expected-remark-re @below {{[Analysis] first_of_two_quantize_ops#0{{.*}}FUSE-N012 no-consumer}}
  %0 = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %1 = fuse.quantize %0 scale 0.5 : (tensor<?x64xbf16>) -> tensor<?x64xi8>
  %2 = fuse.quantize %0 scale 0.25 : (tensor<?x64xbf16>) -> tensor<?x64xi8>
  return %2, %1 : tensor<?x64xi8>, tensor<?x64xi8>
}

// The input of the MLP is quantized and dequantized with different scales. A
// second run still refuses the MLP, although the norm and the quantize op are a
// kernel then.
// CHECK-LABEL: @refused_once_refused_twice
func.func @refused_once_refused_twice(%x: tensor<?x64xbf16>,
                                      %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  // CHECK: fuse.norm_quantize
  // CHECK: fuse.dequantize
  // CHECK: fuse.linear
  // CHECK: fuse.activation
  // CHECK: fuse.linear
  // expected-remark-re @below {{[Passed] refused_once_refused_twice#0{{.*}}Family=norm_quantize}}
  // expected-remark-re @below {{[Analysis] refused_once_refused_twice#0{{.*}}FUSE-N008 scale-mismatch}}
  %0 = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %1 = fuse.quantize %0 scale 0.5 : (tensor<?x64xbf16>) -> tensor<?x64xi8>
  %2 = fuse.dequantize %1 scale 0.25 : (tensor<?x64xi8>) -> tensor<?x64xbf16>
  %3 = fuse.linear %2, %w
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  // expected-remark-re @below {{[Missed] refused_once_refused_twice#1{{.*}}FUSE-N008 scale-mismatch}}
  %4 = fuse.activation silu %3 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %5 = fuse.linear %4, %w
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  return %5 : tensor<?x64xbf16>
}

// The norm is not a member of the first kernel because the second chain reads
// it. The remark names an op that is already part of a kernel.
// CHECK-LABEL: @limit_is_in_another_kernel
func.func @limit_is_in_another_kernel(%x: tensor<?x64xbf16>,
                                      %w: tensor<64x64xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
  // CHECK: fuse.mlp
  // CHECK: fuse.mlp
  // expected-remark-re @below {{[Missed] limit_is_in_another_kernel#0{{.*}}FUSE-N012 no-consumer}}
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  // expected-remark-re @below {{[Passed] limit_is_in_another_kernel#1{{.*}}Family=mlp}}
  // expected-remark-re @below {{[Analysis] limit_is_in_another_kernel#1{{.*}}FUSE-N002 intermediate-has-other-users}}
  %0 = fuse.linear %n, %w
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %1 = fuse.activation silu %0 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %2 = fuse.linear %1, %w
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  // expected-remark-re @below {{[Passed] limit_is_in_another_kernel#2{{.*}}Family=mlp}}
  // expected-remark-re @below {{[Analysis] limit_is_in_another_kernel#2{{.*}}a larger kernel stopped at fuse.linear: FUSE-N002}}
  %3 = fuse.linear %n, %w
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %4 = fuse.activation silu %3 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %5 = fuse.linear %4, %w
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  return %2, %5 : tensor<?x64xbf16>, tensor<?x64xbf16>
}

// Each chain could be a kernel. After the second is formed, it reads the norm
// before the bias of the first chain's linear exists.
// CHECK-LABEL: @kernel_uses_result_early
func.func @kernel_uses_result_early(%x: tensor<?x64xf32>, %g: tensor<?x64xf32>,
                                    %w: tensor<64x64xf32>, %v: tensor<64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xi8>) {
  // CHECK: %[[N:.*]] = fuse.rms_norm
  // CHECK: fuse.act_quantize %{{.*}} times(%[[N]])
  // CHECK: %[[B:.*]] = arith.negf
  // CHECK: fuse.linear %[[N]], %{{.*}} bias(%[[B]])
  // expected-remark-re @below {{[Missed] kernel_uses_result_early#0{{.*}}FUSE-N011 result-used-before-operands}}
  %0 = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  // expected-remark-re @below {{[Passed] kernel_uses_result_early#1{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] kernel_uses_result_early#1{{.*}}FUSE-N001 activation-input-not-linear}}
  %1 = fuse.activation silu %g : tensor<?x64xf32> -> tensor<?x64xf32>
  %2 = arith.negf %v : tensor<64xf32>
  %3 = fuse.linear %0, %w bias(%2)
    : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64xf32>)
      -> tensor<?x64xf32>
  %4 = fuse.gated_mul %1, %0
    : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %5 = fuse.quantize %4 scale 0.5 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return %3, %5 : tensor<?x64xf32>, tensor<?x64xi8>
}

// The product of two activations belongs to the chain of the first.
// CHECK-LABEL: @product_of_two_activations
func.func @product_of_two_activations(%x: tensor<?x64xf32>,
                                      %y: tensor<?x64xf32>)
    -> (tensor<?x64xi8>, tensor<?x64xi8>) {
  // CHECK: %[[A:.*]] = fuse.activation relu
  // CHECK: %[[K:.*]]:2 = fuse.act_quantize %{{.*}} times(%[[A]]) act(silu) also([product]) scales(i8, hidden = 0.5)
  // CHECK: fuse.quantize %[[K]]#1 scale 0.25
  // expected-remark-re @below {{[Passed] product_of_two_activations#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] product_of_two_activations#0{{.*}}FUSE-N001 activation-input-not-linear}}
  %0 = fuse.activation silu %x : tensor<?x64xf32> -> tensor<?x64xf32>
  // expected-remark-re @below {{[Missed] product_of_two_activations#1{{.*}}FUSE-N001 activation-input-not-linear}}
  %1 = fuse.activation relu %y : tensor<?x64xf32> -> tensor<?x64xf32>
  %2 = fuse.gated_mul %0, %1
    : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %3 = fuse.quantize %2 scale 0.5 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  %4 = fuse.quantize %2 scale 0.25 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return %3, %4 : tensor<?x64xi8>, tensor<?x64xi8>
}
