// RUN: fuse-opt %s -allow-unregistered-dialect --fuse-form-kernels \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s -allow-unregistered-dialect --fuse-check-unfuse -o /dev/null
// RUN: fuse-opt %s -allow-unregistered-dialect \
// RUN:     --fuse-form-kernels=rounding=relaxed \
// RUN:   | FileCheck %s --check-prefix=RELAXED

// The example of the pass description.

// CHECK-LABEL: func @dense
// CHECK:       %[[Y:.*]] = fuse.mlp %arg0 up(%arg1) down(%arg2) act(gelu)
// CHECK-SAME:    rounding(exact) site("dense#0")
// CHECK-NOT:   fuse.linear
// CHECK:       return %[[Y]]
// RELAXED-LABEL: func @dense
// RELAXED:       fuse.mlp
// RELAXED-SAME:    rounding(relaxed skip [up, act])
func.func @dense(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                 %w2: tensor<8x16xbf16>) -> tensor<?x8xbf16> {
  %0 = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %1 = fuse.activation gelu %0 : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %2 = fuse.linear %1, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %2 : tensor<?x8xbf16>
}

// Norm, gated MLP and both residual adds. The stream is added to the result.

// CHECK-LABEL: func @gated_with_stream
// CHECK:       fuse.gated_mlp %arg0 residual(%arg1) norm(rms %arg2 eps 1.0e-06)
// CHECK-SAME:    gate(%arg3) up(%arg4) down(%arg5) act(silu) add_stream
// CHECK-SAME:    rounding(exact) site("gated_with_stream#1")
func.func @gated_with_stream(
    %x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>, %w: tensor<8xbf16>,
    %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>, %wd: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %s = fuse.residual_add %x, %r
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %n = fuse.rms_norm %s weight(%w) eps 1.0e-6
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %g = fuse.linear %n, %wg
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %n, %wu
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = fuse.linear %p, %wd
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %y = fuse.residual_add %s, %d
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// The stream has another user, so the kernel returns it, too.

// CHECK-LABEL: func @stream_is_returned
// CHECK:       %[[K:.*]]:2 = fuse.mlp %arg0 residual(%arg1)
// CHECK-SAME:    also([stream])
// CHECK:       return %[[K]]#0, %[[K]]#1
func.func @stream_is_returned(
    %x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>, %w: tensor<8xbf16>,
    %w1: tensor<16x8xbf16>, %w2: tensor<8x16xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %s = fuse.residual_add %x, %r
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %n = fuse.layer_norm %s weight(%w) bias(%w) eps 1.0e-5
    : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %u = fuse.linear %n, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation relu2 %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d, %s : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// Static FP8 with linears on stored values; one scale per channel for down.

// CHECK-LABEL: func @scaled_fp8
// CHECK:       fuse.gated_mlp %arg0 norm(rms %arg1 eps 1.0e-06)
// CHECK-SAME:    gate(%arg2) up(%arg3) down(%arg4) act(gelu_tanh)
// CHECK-SAME:    channel_scales(%arg5)
// CHECK-SAME:    scales(f8E4M3FN, input = 0.5, gate = 0.25, up = 0.125,
// CHECK-SAME:      hidden = 2.0, down = per_channel)
func.func @scaled_fp8(
    %x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %wg: tensor<16x8xf8E4M3FN>,
    %wu: tensor<16x8xf8E4M3FN>, %wd: tensor<8x16xf8E4M3FN>,
    %sd: tensor<8xf32>) -> tensor<?x8xbf16> {
  %n = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %q = fuse.quantize %n scale 0.5
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %g = fuse.linear %q, %wg scales(0.5, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %a = fuse.activation gelu_tanh %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %q, %wu scales(0.5, 0.125)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 2.0
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %d = fuse.linear %h, %wd channel_scale(%sd) scales(2.0, per_channel)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>, tensor<8xf32>)
      -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// The same with dequantize ops before every linear, as exporters write it. The
// rounding contract has the f32 type of the activation.

// CHECK-LABEL: func @qdq_int8
// CHECK:       fuse.mlp %arg0 up(%arg1) down(%arg2) act(relu)
// CHECK-SAME:    scales(i8, input = 0.5, up = 0.25, hidden = 2.0, down = 0.125,
// CHECK-SAME:      order = divide, form = qdq)
// CHECK-SAME:    rounding(exact types {act = f32})
func.func @qdq_int8(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                    %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 order divide
    : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %xd = fuse.dequantize %q scale 0.5 : (tensor<?x8xi8>) -> tensor<?x8xbf16>
  %w1d = fuse.dequantize %w1 scale 0.25
    : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %u = fuse.linear %xd, %w1d
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation relu %u : tensor<?x16xbf16> -> tensor<?x16xf32>
  %h = fuse.quantize %a scale 2.0 order divide
    : (tensor<?x16xf32>) -> tensor<?x16xi8>
  %hd = fuse.dequantize %h scale 2.0 : (tensor<?x16xi8>) -> tensor<?x16xbf16>
  %w2d = fuse.dequantize %w2 scale 0.125
    : (tensor<8x16xi8>) -> tensor<8x16xbf16>
  %d = fuse.linear %hd, %w2d
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// Projections that share a norm. Ops between them keep their places. %q is used
// before the last projection, so the kernel replaces the norm.

// CHECK-LABEL: func @projections
// CHECK:       %[[K:.*]]:3 = fuse.norm_linear %arg0 norm(rms %arg1 eps 1.0e-06)
// CHECK-SAME:    linear(%arg2 bias %arg1, %arg3) also([normed])
// CHECK-SAME:    provenance(places = [0, 1, 3])
// CHECK:       "test.use"(%[[K]]#0)
func.func @projections(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>,
                       %wq: tensor<8x8xbf16>, %wk: tensor<4x8xbf16>)
    -> (tensor<?x4xbf16>, tensor<?x8xbf16>) {
  %n = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %q = fuse.linear %n, %wq bias(%w)
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  "test.use"(%q) : (tensor<?x8xbf16>) -> ()
  %k = fuse.linear %n, %wk
    : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xbf16>
  return %k, %n : tensor<?x4xbf16>, tensor<?x8xbf16>
}

// Kernels that produce quantized values; the linears that read them are not in
// the function.

// CHECK-LABEL: func @producers
// CHECK:       fuse.norm_quantize %arg0 residual(%arg1)
// CHECK-SAME:    also([stream, normed]) scales(f8E5M2, input = 0.5)
// CHECK:       fuse.act_quantize %arg3 times(%arg4) act(silu)
// CHECK-SAME:    scales(f8E4M3FN, hidden = 0.25)
// CHECK-SAME:    provenance(commuted = [product])
func.func @producers(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>,
                     %w: tensor<8xbf16>, %g: tensor<?x16xbf16>,
                     %u: tensor<?x16xbf16>)
    -> (tensor<?x8xf8E5M2>, tensor<?x8xbf16>, tensor<?x8xbf16>,
        tensor<?x16xf8E4M3FN>) {
  %s = fuse.residual_add %x, %r
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %n = fuse.rms_norm %s weight(%w) eps 1.0e-6
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %q = fuse.quantize %n scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xf8E5M2>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %p = fuse.gated_mul %u, %a
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 0.25
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  return %q, %s, %n, %h
    : tensor<?x8xf8E5M2>, tensor<?x8xbf16>, tensor<?x8xbf16>,
      tensor<?x16xf8E4M3FN>
}

// Two interleaved chains are both fused and both restored.

// CHECK-LABEL: func @interleaved
// CHECK:       fuse.mlp %arg0 up(%arg1) down(%arg2) act(silu)
// CHECK-SAME:    site("interleaved#0") provenance(places = [0, 2, 4])
// CHECK:       fuse.mlp %arg0 up(%arg1) down(%arg2) act(gelu)
// CHECK-SAME:    site("interleaved#1")
func.func @interleaved(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                       %w2: tensor<8x16xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %u0 = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %u1 = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a0 = fuse.activation silu %u0 : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %a1 = fuse.activation gelu %u1 : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d0 = fuse.linear %a0, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %d1 = fuse.linear %a1, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d0, %d1 : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// A norm with another user is not a member of the MLP.

// CHECK-LABEL: func @no_norm_with_other_user
// CHECK:       %[[N:.*]] = fuse.rms_norm
// CHECK:       fuse.mlp %[[N]] up
// CHECK-SAME:    then_add(%[[N]])
func.func @no_norm_with_other_user(
    %x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %w1: tensor<16x8xbf16>,
    %w2: tensor<8x16xbf16>) -> tensor<?x8xbf16> {
  %n = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %u = fuse.linear %n, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation gelu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %y = fuse.residual_add %d, %n
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}
