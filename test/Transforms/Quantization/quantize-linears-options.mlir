// RUN: split-file %s %t
// RUN: fuse-opt %t/f.mlir --fuse-quantize-linears="scales=%t/up.json allow-missing" | FileCheck %s --check-prefix=ALLOWED
// RUN: fuse-opt %t/f.mlir --fuse-quantize-linears="scales=%t/weight.json allow-missing activations=none" | FileCheck %s --check-prefix=WEIGHT
// RUN: not fuse-opt %t/f.mlir --fuse-quantize-linears=scales=%t/none.json 2>&1 | FileCheck %s --check-prefix=TABLE
// RUN: not fuse-opt %t/f.mlir --fuse-quantize-linears="scales=%t/weight.json allow-missing" 2>&1 | FileCheck %s --check-prefix=NO-INPUT
// RUN: not fuse-opt %t/f.mlir --fuse-quantize-linears="scales=%t/up.json type=f4" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not fuse-opt %t/f.mlir --fuse-quantize-linears="scales=%t/up.json order=floor" 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not fuse-opt %t/f.mlir --fuse-quantize-linears="scales=%t/up.json activations=all" 2>&1 | FileCheck %s --check-prefix=ACTIVATIONS
// RUN: not fuse-opt %t/f.mlir --fuse-quantize-linears="scales=%t/up.json weights=packed" 2>&1 | FileCheck %s --check-prefix=WEIGHTS

// Linears without scales are skipped.

// ALLOWED: fuse.linear %{{.*}} scales(0.5, 0.25)
// ALLOWED: fuse.linear %{{.*}} : (tensor<?x16xbf16>, tensor<8x16xbf16>)

// An input scale is needed only if inputs are quantized with it.

// WEIGHT: fuse.dequantize %{{.*}} scale 0.25
// NO-INPUT: weight.json': 'up' has no 'input_scale'

// Every error lists the valid values.

// TABLE: error: scale table '{{.*}}none.json': No such file or directory
// TYPE: error: unknown type 'f4'; expected one of f8E4M3FN, f8E5M2, i8
// ORDER: error: unknown order 'floor'; expected one of reciprocal, divide
// ACTIVATIONS: error: unknown activations 'all'; expected one of static,
// ACTIVATIONS-SAME: per_token, per_tensor, none
// WEIGHTS: error: unknown weights 'packed'; expected one of quantize, stored

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
