// RUN: fuse-opt %s --fuse-form-stages -verify-diagnostics \
// RUN:   --remarks-filter=codegen --remark-format=emitRemark | FileCheck %s

// A refused op does not change.

// CHECK-NOT: stage.

func.func @weight_only(%x: tensor<?x64xbf16>, %u: tensor<128x64xf8E4M3FN>,
                       %d: tensor<64x128xf8E4M3FN>) -> tensor<?x64xbf16> {
  // expected-remark-re @below {{At=fuse.linear{{.*}}FUSE-N138 real-weight: a weight is dequantized before its product}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu)
         scales(f8E4M3FN, up = 0.25, down = 0.25, form = weight_only)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<128x64xf8E4M3FN>, tensor<64x128xf8E4M3FN>)
       -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

func.func @blocks(%x: tensor<?x128xbf16>, %w: tensor<128xf32>,
                  %q: tensor<128x128xf8E4M3FN>, %s: tensor<1x1xf32>)
    -> tensor<?x128xbf16> {
  // expected-remark-re @below {{At=fuse.linear{{.*}}FUSE-N139 block-sums: the scales of a product are inside of its sum}}
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) channel_scales(%s)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>) rounding(exact)
     : (tensor<?x128xbf16>, tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
       -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

func.func @per_tensor(%x: tensor<?x21xf16>) -> tensor<?x21xi8> {
  // expected-remark-re @below {{At=fuse.dynamic_quantize{{.*}}FUSE-N137 member-of-no-stage: a member of the chain neither reads one row at a time nor is elementwise}}
  %y = fuse.group(%a = %x : tensor<?x21xf16>) -> (tensor<?x21xi8>)
         rounding(exact) {
    %q, %s = fuse.dynamic_quantize per_tensor %a
           : (tensor<?x21xf16>) -> (tensor<?x21xi8>, tensor<1xf32>)
    fuse.yield %q : tensor<?x21xi8>
  }
  return %y : tensor<?x21xi8>
}

func.func @group(%x: tensor<?x21xf16>) -> tensor<?x21xf16> {
  // expected-remark-re @below {{At=arith.negf{{.*}}FUSE-N137 member-of-no-stage}}
  %y = fuse.group(%a = %x : tensor<?x21xf16>) -> (tensor<?x21xf16>)
         rounding(exact) {
    %s = fuse.activation silu %a : tensor<?x21xf16> -> tensor<?x21xf16>
    %t = arith.negf %s : tensor<?x21xf16>
    fuse.yield %t : tensor<?x21xf16>
  }
  return %y : tensor<?x21xf16>
}
