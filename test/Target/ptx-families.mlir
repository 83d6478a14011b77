// Every family and data type assembles for every kind of chip, and no kernel
// spills registers to memory.

// REQUIRES: ptxas
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_80 \
// RUN:   --fuse-emit-ptx=output=%t.80.ptx -o /dev/null
// RUN: ptxas -arch=sm_80 -v %t.80.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_89 \
// RUN:   --fuse-emit-ptx=output=%t.89.ptx -o /dev/null
// RUN: ptxas -arch=sm_89 -v %t.89.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_90 \
// RUN:   --fuse-emit-ptx=output=%t.90.ptx -o /dev/null
// RUN: ptxas -arch=sm_90 -v %t.90.ptx -o /dev/null 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_90a \
// RUN:   --fuse-emit-ptx=output=%t.90a.ptx -o /dev/null
// RUN: ptxas -arch=sm_90a -v %t.90a.ptx -o /dev/null 2>&1 | FileCheck %s

// CHECK-NOT: {{error|warning}}
// CHECK-NOT: {{[1-9][0-9]*}} bytes spill
// CHECK:     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: {{error|warning}}
// CHECK-NOT: {{[1-9][0-9]*}} bytes spill

func.func @mlp_bf16(%x: tensor<?x72xbf16>, %r: tensor<?x72xbf16>,
                    %w: tensor<72xbf16>, %b: tensor<72xbf16>,
                    %w1: tensor<136x72xbf16>, %b1: tensor<136xbf16>,
                    %w2: tensor<72x136xbf16>, %b2: tensor<72xbf16>)
    -> (tensor<?x72xbf16>, tensor<?x72xbf16>) {
  %y:2 = fuse.mlp %x residual(%r) norm(layer %w, %b eps 1.0e-5)
           up(%w1 bias %b1) down(%w2 bias %b2) act(gelu) add_stream
           also([stream]) rounding(exact)
         : (tensor<?x72xbf16>, tensor<?x72xbf16>, tensor<72xbf16>,
            tensor<72xbf16>, tensor<136x72xbf16>, tensor<136xbf16>,
            tensor<72x136xbf16>, tensor<72xbf16>)
           -> (tensor<?x72xbf16>, tensor<?x72xbf16>)
  return %y#0, %y#1 : tensor<?x72xbf16>, tensor<?x72xbf16>
}

func.func @mlp_f32(%x: tensor<?x?x72xf32>, %w1: tensor<136x72xf32>,
                   %w2: tensor<72x136xf32>) -> tensor<?x?x72xf32> {
  %y = fuse.mlp %x up(%w1) down(%w2) act(relu2) rounding(exact)
     : (tensor<?x?x72xf32>, tensor<136x72xf32>, tensor<72x136xf32>)
       -> tensor<?x?x72xf32>
  return %y : tensor<?x?x72xf32>
}

func.func @mlp_i8(%x: tensor<?x72xbf16>, %w: tensor<72xbf16>,
                  %w1: tensor<136x72xi8>, %w2: tensor<72x136xi8>,
                  %s: tensor<136xf32>) -> tensor<?x72xbf16> {
  %y = fuse.mlp %x norm(rms %w eps 1.0e-6) up(%w1) down(%w2) act(gelu_tanh)
         channel_scales(%s)
         scales(i8, input = 2.1e-2, up = per_channel, hidden = 4.0e-2,
                down = 9.0e-4)
         rounding(exact)
       : (tensor<?x72xbf16>, tensor<72xbf16>, tensor<136x72xi8>,
          tensor<72x136xi8>, tensor<136xf32>) -> tensor<?x72xbf16>
  return %y : tensor<?x72xbf16>
}

func.func @gated_mlp_bf16(%x: tensor<?x72xbf16>, %r: tensor<?x72xbf16>,
                          %w: tensor<72xbf16>, %g: tensor<136x72xbf16>,
                          %u: tensor<136x72xbf16>, %d: tensor<72x136xbf16>)
    -> tensor<?x72xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %w eps 1.0e-6) gate(%g) up(%u)
         down(%d) act(silu) add_stream rounding(exact)
       : (tensor<?x72xbf16>, tensor<?x72xbf16>, tensor<72xbf16>,
          tensor<136x72xbf16>, tensor<136x72xbf16>, tensor<72x136xbf16>)
         -> tensor<?x72xbf16>
  return %y : tensor<?x72xbf16>
}

func.func @gated_mlp_f16(%x: tensor<?x72xf16>, %g: tensor<136x72xf16>,
                         %u: tensor<136x72xf16>, %d: tensor<72x136xf16>)
    -> tensor<?x72xf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(quick_gelu)
         rounding(exact)
       : (tensor<?x72xf16>, tensor<136x72xf16>, tensor<136x72xf16>,
          tensor<72x136xf16>) -> tensor<?x72xf16>
  return %y : tensor<?x72xf16>
}

func.func @gated_mlp_f8(%x: tensor<?x72xbf16>, %w: tensor<72xbf16>,
                        %g: tensor<136x72xf8E4M3FN>,
                        %u: tensor<136x72xf8E4M3FN>,
                        %d: tensor<72x136xf8E4M3FN>) -> tensor<?x72xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6 offset 1 cast after_weight)
         gate(%g) up(%u) down(%d) act(gelu_tanh)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
       : (tensor<?x72xbf16>, tensor<72xbf16>, tensor<136x72xf8E4M3FN>,
          tensor<136x72xf8E4M3FN>, tensor<72x136xf8E4M3FN>)
         -> tensor<?x72xbf16>
  return %y : tensor<?x72xbf16>
}

func.func @gated_mlp_qdq(%x: tensor<?x72xbf16>, %g: tensor<136x72xf8E5M2>,
                         %u: tensor<136x72xf8E5M2>, %d: tensor<72x136xf8E5M2>)
    -> tensor<?x72xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E5M2, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4, order = divide, form = qdq)
         rounding(exact)
       : (tensor<?x72xbf16>, tensor<136x72xf8E5M2>, tensor<136x72xf8E5M2>,
          tensor<72x136xf8E5M2>) -> tensor<?x72xbf16>
  return %y : tensor<?x72xbf16>
}

func.func @norm_linear(%x: tensor<?x72xbf16>, %w: tensor<72xbf16>,
                       %q: tensor<72x72xbf16>, %k: tensor<24x72xbf16>,
                       %b: tensor<72xbf16>)
    -> (tensor<?x72xbf16>, tensor<?x24xbf16>) {
  %y:2 = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%q bias %b, %k)
           rounding(exact)
         : (tensor<?x72xbf16>, tensor<72xbf16>, tensor<72x72xbf16>,
            tensor<24x72xbf16>, tensor<72xbf16>)
           -> (tensor<?x72xbf16>, tensor<?x24xbf16>)
  return %y#0, %y#1 : tensor<?x72xbf16>, tensor<?x24xbf16>
}

func.func @norm_quantize(%x: tensor<?x72xbf16>, %r: tensor<?x72xbf16>,
                         %w: tensor<72xbf16>)
    -> (tensor<?x72xf8E4M3FN>, tensor<?x72xbf16>) {
  %y:2 = fuse.norm_quantize %x residual(%r) norm(rms %w eps 1.0e-6)
           also([stream]) scales(f8E4M3FN, input = 2.1e-2) rounding(exact)
         : (tensor<?x72xbf16>, tensor<?x72xbf16>, tensor<72xbf16>)
           -> (tensor<?x72xf8E4M3FN>, tensor<?x72xbf16>)
  return %y#0, %y#1 : tensor<?x72xf8E4M3FN>, tensor<?x72xbf16>
}

func.func @act_quantize(%g: tensor<?x72xbf16>, %u: tensor<?x72xbf16>)
    -> tensor<?x72xi8> {
  %y = fuse.act_quantize %g times(%u) act(silu)
         scales(i8, hidden = 4.0e-2, order = divide) rounding(exact)
       : (tensor<?x72xbf16>, tensor<?x72xbf16>) -> tensor<?x72xi8>
  return %y : tensor<?x72xi8>
}

func.func @group(%x: tensor<?x72xbf16>, %w: tensor<72xbf16>)
    -> tensor<?x72xbf16> {
  %y = fuse.group(%a = %x : tensor<?x72xbf16>, %v = %w : tensor<72xbf16>)
         -> tensor<?x72xbf16> rounding(exact) {
    %0 = fuse.rms_norm %a weight(%v) eps 1.0e-6
      : (tensor<?x72xbf16>, tensor<72xbf16>) -> tensor<?x72xbf16>
    %1 = fuse.activation gelu %0 : tensor<?x72xbf16> -> tensor<?x72xbf16>
    fuse.yield %1 : tensor<?x72xbf16>
  }
  return %y : tensor<?x72xbf16>
}

func.func @silu_f32(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = fuse.activation silu %x : tensor<?x64xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

func.func @gelu_f32(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = fuse.activation gelu %x : tensor<?x64xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

func.func @gelu_tanh_f32(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = fuse.activation gelu_tanh %x : tensor<?x64xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
