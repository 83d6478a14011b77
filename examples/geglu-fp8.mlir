// A gated MLP with GELU (tanh), quantized to FP8 with static scales, at the
// widths 2048 and 16384 of Gemma 2B: the block as an importer writes it, before
// anything is fused.
//
//   fuse-opt examples/geglu-fp8.mlir --fuse-form-kernels
//     fuses the 9 layers into one fuse.gated_mlp;
//   fuse-opt examples/geglu-fp8.mlir --fuse-check-unfuse
//     forms the kernel, undoes it, and fails if anything differs;
//   fuse-run examples/geglu-fp8.mlir --verify --dim=2
//     runs both on the CPU with 2 random tokens and compares every bit.
//
// Points to note:
// - A tensor is [tokens, features]. The number of tokens is known at run time.
// - Every op rounds once, to the element type of its result. The types of the
//   intermediates are therefore the rounding contract of the block, and a fused
//   kernel with `rounding(exact)` keeps all of them.
// - A scale maps stored values to real ones: real = scale * stored. The scale
//   of a quantize op equals the input scale of the linears that read it.
// - Weights are [out, in]. They stay arguments: fusing never moves or changes a
//   parameter, so a state dict keeps its names.

func.func @geglu_fp8(
    %x: tensor<?x2048xbf16>,
    %norm: tensor<2048xbf16> {fuse.parameter = "norm.weight"},
    %gate: tensor<16384x2048xf8E4M3FN> {fuse.parameter = "mlp.gate.weight"},
    %up: tensor<16384x2048xf8E4M3FN> {fuse.parameter = "mlp.up.weight"},
    %down: tensor<2048x16384xf8E4M3FN> {fuse.parameter = "mlp.down.weight"})
    -> tensor<?x2048xbf16> {
  // Gemma's norm: the weight is stored as its difference from 1, and the
  // product with the weight is not rounded before the result.
  %n = fuse.rms_norm %x weight(%norm) eps 1.0e-6 offset 1 cast after_weight
    : (tensor<?x2048xbf16>, tensor<2048xbf16>) -> tensor<?x2048xbf16>
      loc("norm")

  // One scale for all tokens and features, from an earlier calibration.
  %q = fuse.quantize %n scale 2.1e-2
    : (tensor<?x2048xbf16>) -> tensor<?x2048xf8E4M3FN> loc("mlp")

  // Both projections read the same stored values. Each has its own weight
  // scale, and the products are summed in f32.
  %g = fuse.linear %q, %gate scales(2.1e-2, 1.3e-3)
    : (tensor<?x2048xf8E4M3FN>, tensor<16384x2048xf8E4M3FN>)
      -> tensor<?x16384xbf16> loc("mlp.gate")
  %a = fuse.activation gelu_tanh %g
    : tensor<?x16384xbf16> -> tensor<?x16384xbf16> loc("mlp.act")
  %u = fuse.linear %q, %up scales(2.1e-2, 1.1e-3)
    : (tensor<?x2048xf8E4M3FN>, tensor<16384x2048xf8E4M3FN>)
      -> tensor<?x16384xbf16> loc("mlp.up")
  %h = fuse.gated_mul %a, %u
    : (tensor<?x16384xbf16>, tensor<?x16384xbf16>) -> tensor<?x16384xbf16>
      loc("mlp")

  // The hidden value has 16384 elements per token. The fused kernel stores them
  // in 8 bits and never in a wider type.
  %hq = fuse.quantize %h scale 4.0e-2
    : (tensor<?x16384xbf16>) -> tensor<?x16384xf8E4M3FN> loc("mlp")
  %d = fuse.linear %hq, %down scales(4.0e-2, 9.0e-4)
    : (tensor<?x16384xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<?x2048xbf16> loc("mlp.down")

  // The residual stream bypasses the block.
  %y = fuse.residual_add %x, %d
    : (tensor<?x2048xbf16>, tensor<?x2048xbf16>) -> tensor<?x2048xbf16>
      loc("block")
  return %y : tensor<?x2048xbf16>
}
