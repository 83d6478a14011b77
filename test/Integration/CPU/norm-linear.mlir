// RUN: fuse-run %s --verify --dim=0,1,3,17 | FileCheck %s

// Linears that share a normalized input; the first result is quantized further.

// CHECK-NOT: FAILED
// CHECK-COUNT-3: bit-equal
// CHECK-NOT: FAILED

func.func @qkv(%x: tensor<?x19xbf16>, %nw: tensor<19xbf16>,
               %wq: tensor<24x19xbf16>, %wk: tensor<7x19xbf16>,
               %bk: tensor<7xbf16>, %wv: tensor<7x19xbf16>)
    -> (tensor<?x24xbf16>, tensor<?x7xbf16>, tensor<?x7xbf16>) {
  %n = fuse.rms_norm %x weight(%nw) eps 1.0e-6
    : (tensor<?x19xbf16>, tensor<19xbf16>) -> tensor<?x19xbf16>
  %q = fuse.linear %n, %wq
    : (tensor<?x19xbf16>, tensor<24x19xbf16>) -> tensor<?x24xbf16>
  %k = fuse.linear %n, %wk bias(%bk)
    : (tensor<?x19xbf16>, tensor<7x19xbf16>, tensor<7xbf16>)
      -> tensor<?x7xbf16>
  %v = fuse.linear %n, %wv
    : (tensor<?x19xbf16>, tensor<7x19xbf16>) -> tensor<?x7xbf16>
  return %q, %k, %v : tensor<?x24xbf16>, tensor<?x7xbf16>, tensor<?x7xbf16>
}

func.func @norm_quantize(%x: tensor<?x19xbf16>, %r: tensor<?x19xbf16>,
                         %nw: tensor<19xbf16>)
    -> (tensor<?x19xf8E4M3FN>, tensor<?x19xbf16>) {
  %q, %s = fuse.norm_quantize %x residual(%r) norm(rms %nw eps 1.0e-6)
             also([stream]) scales(f8E4M3FN, input = 2.1e-2) rounding(exact)
         : (tensor<?x19xbf16>, tensor<?x19xbf16>, tensor<19xbf16>)
           -> (tensor<?x19xf8E4M3FN>, tensor<?x19xbf16>)
  return %q, %s : tensor<?x19xf8E4M3FN>, tensor<?x19xbf16>
}

func.func @gemma_norm(%x: tensor<?x19xbf16>, %nw: tensor<19xbf16>)
    -> tensor<?x19xi8> {
  %q = fuse.norm_quantize %x norm(rms %nw eps 1.0e-6 offset 1 cast after_weight)
         scales(i8, input = 2.1e-2) rounding(exact)
     : (tensor<?x19xbf16>, tensor<19xbf16>) -> tensor<?x19xi8>
  return %q : tensor<?x19xi8>
}
