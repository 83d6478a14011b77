// RUN: rm -rf %t && split-file %s %t && cd %t
// RUN: fuse-opt f.mlir --fuse-quantize-linears="scales=up.json allow-missing" | FileCheck %s --check-prefix=ALLOWED
// RUN: fuse-opt f.mlir --fuse-quantize-linears="scales=weight.json allow-missing activations=none" | FileCheck %s --check-prefix=WEIGHT
// RUN: %check_errors %t/errors.txt fuse-opt f.mlir --fuse-quantize-linears='scales={}'

// Linears without scales are skipped.

// ALLOWED: fuse.linear %{{.*}} scales(0.5, 0.25)
// ALLOWED: fuse.linear %{{.*}} : (tensor<?x16xbf16>, tensor<8x16xbf16>)

// An input scale is needed only if inputs are quantized with it.

// WEIGHT: fuse.dequantize %{{.*}} scale 0.25

//--- errors.txt
$ weight.json allow-missing
f.mlir:1:1: error: scale table 'weight.json': 'up' has no 'input_scale'

# Every error lists the valid values.
$ none.json
f.mlir:1:1: error: scale table 'none.json': No such file or directory

$ up.json type=f4
f.mlir:1:1: error: unknown type 'f4'; expected one of f8E4M3FN, f8E5M2, i8

$ up.json order=floor
f.mlir:1:1: error: unknown order 'floor'; expected one of reciprocal, divide

$ up.json activations=all
f.mlir:1:1: error: unknown activations 'all'; expected one of static, per_token, per_tensor, none

$ up.json weights=packed
f.mlir:1:1: error: unknown weights 'packed'; expected one of quantize, stored

//--- up.json
{"up": {"input_scale": 0.5, "weight_scale": 0.25}}

//--- weight.json
{"up": {"weight_scale": 0.25}}

//--- f.mlir
func.func @f(%x: tensor<?x8xbf16>,
             %w: tensor<16x8xbf16> {fuse.parameter = "up.weight"},
             %v: tensor<8x16xbf16>) -> tensor<?x8xbf16> {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %1 = fuse.linear %0, %v
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %1 : tensor<?x8xbf16>
}
