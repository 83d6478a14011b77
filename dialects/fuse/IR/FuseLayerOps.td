//===- FuseLayerOps.td - Layer ops of the fuse dialect -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSELAYEROPS_TD
#define FUSE_IR_FUSELAYEROPS_TD

include "fuse/IR/FuseAttrs.td"
include "fuse/IR/FuseInterfaces.td"
include "fuse/IR/FuseTensors.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// An op whose results have sizes that follow from those of its operands.
class Fuse_ShapedOp<string mnemonic, list<Trait> traits = [],
                    list<Trait> effects = [Pure]>
    : Op<Fuse_Dialect, mnemonic, !listconcat([
        DeclareOpInterfaceMethods<
            ReifyRankedShapedTypeOpInterface,
            ["reifyResultShapes", "reifyDimOfResult"]>
      ], effects, traits)> {
  let hasVerifier = 1;
  code reifyDefinition = [{
    ::llvm::LogicalResult $cppClass::reifyResultShapes(
        ::mlir::OpBuilder &builder,
        ::mlir::ReifiedRankedShapedTypeDims &shapes) {
      return ::fuse::reifyShapes(getOperation(), builder, shapes);
    }
    ::llvm::FailureOr<::mlir::OpFoldResult> $cppClass::reifyDimOfResult(
        ::mlir::OpBuilder &builder, int result, int dim) {
      return ::fuse::reifyDim(getOperation()->getResult(result), builder, dim);
    }
  }];
  let extraClassDefinition = reifyDefinition;
}

/// A layer op. The shape of its result follows from the operands; the element
/// type does not, because it is the rounding point. `tokens` lists the methods
/// that `Fuse_TokenOpInterface` does not have by default.
class Fuse_LayerOp<string mnemonic, list<Trait> traits = [],
                   list<string> tokens = [], list<Trait> effects = [Pure]>
    : Fuse_ShapedOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<Fuse_TokenOpInterface, tokens>,
        InferShapedTypeOpAdaptor
      ], traits), effects> {
  let extraClassDefinition = reifyDefinition # [{
    ::llvm::LogicalResult $cppClass::inferReturnTypeComponents(
        ::mlir::MLIRContext *, ::std::optional<::mlir::Location>,
        Adaptor adaptor,
        ::llvm::SmallVectorImpl<::mlir::ShapedTypeComponents> &shapes) {
      return ::fuse::inferShapes(adaptor, shapes);
    }
  }];
}

def Fuse_RMSNormOp : Fuse_LayerOp<"rms_norm"> {
  let summary = "Root mean square normalization over the last dimension";
  let description = [{
    With `n = x / sqrt(mean(x^2) + eps)` in f32 (the division is a
    multiplication by the reciprocal square root) and `w' = offset + weight`:

    - `cast before_weight` (Llama, Qwen, Mistral): `n` is rounded to the element
      type of `x` and `w'` to the type of the weight; their product is rounded
      to the result type;
    - `cast after_weight` (Gemma, Qwen3-Next): `n * w'` in f32, rounded once.

    `offset` is 0 or 1. Without a weight, `n` is rounded to the result type.

    Example:

    ```mlir
    %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
      : (tensor<?x1024xbf16>, tensor<1024xbf16>) -> tensor<?x1024xbf16>
    %z = fuse.rms_norm %x weight(%w) eps 1.0e-6 offset 1 cast after_weight
      : (tensor<?x1024xbf16>, tensor<1024xbf16>) -> tensor<?x1024xbf16>
    ```
  }];
  let arguments = (ins
    Fuse_FloatTensor:$x,
    Optional<Fuse_FloatTensor>:$weight,
    F64Attr:$eps,
    DefaultValuedAttr<I64Attr, "0">:$offset,
    DefaultValuedAttr<Fuse_NormCastAttr,
                      "::fuse::NormCast::BeforeWeight">:$cast
  );
  let results = (outs Fuse_FloatTensor:$y);
  let assemblyFormat = [{
    $x (`weight` `(` $weight^ `)`)? `eps` custom<Number>($eps)
    (`offset` custom<Integer>($offset)^)?
    (`cast` custom<Keyword>($cast)^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_LayerNormOp : Fuse_LayerOp<"layer_norm", [AttrSizedOperandSegments]> {
  let summary = "Layer normalization over the last dimension";
  let description = [{
    `y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias` in f32 with the
    biased variance, rounded once to the result type.

    Example:

    ```mlir
    %y = fuse.layer_norm %x weight(%w) bias(%b) eps 1.0e-5
      : (tensor<?x768xf32>, tensor<768xf32>, tensor<768xf32>)
        -> tensor<?x768xf32>
    ```
  }];
  let arguments = (ins
    Fuse_FloatTensor:$x,
    Optional<Fuse_FloatTensor>:$weight,
    Optional<Fuse_FloatTensor>:$bias,
    F64Attr:$eps
  );
  let results = (outs Fuse_FloatTensor:$y);
  let assemblyFormat = [{
    $x (`weight` `(` $weight^ `)`)? (`bias` `(` $bias^ `)`)?
    `eps` custom<Number>($eps)
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_LinearOp : Fuse_LayerOp<"linear", [AttrSizedOperandSegments],
                                 ["getTokenOperands"]> {
  let summary = "Linear map of the last dimension";
  let description = [{
    `y[..., n] = sum_k x[..., k] * weight[n, k] + bias[n]`, where the weight is
    `[out, in]`. Products and sums are in f32 (fused multiply-add), the bias is
    added in f32, and the result is rounded once.

    With `added after_rounding`, the bias is added in f32 to the rounded sum,
    and the result is rounded again. Front ends that add the bias in a separate
    op compute this.

    Quantized operands need scales. The sum of the stored values (f32 for
    8-bit floats, i32 for i8) is multiplied by
    `alpha = input_scale * weight_scale`, a product in f32, before the bias.
    The scale of the weight is the attribute `weight_scale`, or the operand
    `channel_scale` with one f32 value per output channel. The scale of the
    input is the attribute `input_scale`, or the operand `dynamic_scale` from
    `fuse.dynamic_quantize`: one f32 value per token, or a single one.

    With `quant`, both scales are operands of the shapes that it states, and
    sums may be scaled block by block, see `#fuse.quant`.

    The order of the sum over `k`, or over the `k` of a block, is unspecified.

    Example:

    ```mlir
    %y = fuse.linear %x, %w bias(%b)
      : (tensor<?x768xbf16>, tensor<3072x768xbf16>, tensor<3072xbf16>)
        -> tensor<?x3072xbf16>
    %q = fuse.linear %xq, %wq scales(2.1e-2, 1.3e-3)
      : (tensor<?x768xf8E4M3FN>, tensor<3072x768xf8E4M3FN>)
        -> tensor<?x3072xbf16>
    %c = fuse.linear %xq, %wq channel_scale(%s) scales(2.1e-2, per_channel)
      : (tensor<?x768xi8>, tensor<3072x768xi8>, tensor<3072xf32>)
        -> tensor<?x3072xbf16>
    %d = fuse.linear %xd, %wq dynamic_scale(%t) scales(dynamic, 1.3e-3)
      : (tensor<?x768xf8E4M3FN>, tensor<3072x768xf8E4M3FN>, tensor<?xf32>)
        -> tensor<?x3072xbf16>
    %e = fuse.linear %xg, %wq channel_scale(%b) dynamic_scale(%g)
           quant(f8E4M3FN, weights = block<128x128>,
                 activations = per_group<128>, sums = block<128>)
      : (tensor<?x768xf8E4M3FN>, tensor<3072x768xf8E4M3FN>, tensor<24x6xf32>,
         tensor<?x6xf32>) -> tensor<?x3072xbf16>
    ```
  }];
  let arguments = (ins
    Fuse_AnyTensor:$x,
    Fuse_AnyTensor:$weight,
    Optional<Fuse_FloatTensor>:$bias,
    Optional<Fuse_ScaleVector>:$channel_scale,
    Optional<Fuse_ScaleVector>:$dynamic_scale,
    OptionalAttr<F64Attr>:$input_scale,
    OptionalAttr<F64Attr>:$weight_scale,
    DefaultValuedAttr<Fuse_BiasPlaceAttr,
                      "::fuse::BiasPlace::BeforeRounding">:$bias_place,
    OptionalAttr<Fuse_QuantAttr>:$quant
  );
  let results = (outs Fuse_FloatTensor:$y);
  let builders = [
    OpBuilder<(ins "::mlir::Type":$y, "::mlir::Value":$x,
                   "::mlir::Value":$weight, "::mlir::Value":$bias,
                   "::mlir::Value":$channel_scale,
                   "::mlir::FloatAttr":$input_scale,
                   "::mlir::FloatAttr":$weight_scale), [{
      build($_builder, $_state, y, x, weight, bias, channel_scale,
            /*dynamic_scale=*/::mlir::Value(), input_scale, weight_scale,
            BiasPlaceAttr::get($_builder.getContext(),
                               BiasPlace::BeforeRounding),
            QuantAttr());
    }]>,
    OpBuilder<(ins "::mlir::Type":$y, "::mlir::Value":$x,
                   "::mlir::Value":$weight, "::mlir::Value":$bias,
                   "::mlir::Value":$channel_scale,
                   "::mlir::Value":$dynamic_scale,
                   "::mlir::FloatAttr":$input_scale,
                   "::mlir::FloatAttr":$weight_scale,
                   "::fuse::BiasPlaceAttr":$bias_place), [{
      build($_builder, $_state, y, x, weight, bias, channel_scale,
            dynamic_scale, input_scale, weight_scale, bias_place, QuantAttr());
    }]>
  ];
  let assemblyFormat = [{
    $x `,` $weight (`bias` `(` $bias^ `)`)?
    (`added` custom<Keyword>($bias_place)^)?
    (`channel_scale` `(` $channel_scale^ `)`)?
    (`dynamic_scale` `(` $dynamic_scale^ `)`)?
    `` custom<LinearScales>($input_scale, $weight_scale)
    `` custom<Quant>($quant)
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_ActivationOp : Fuse_LayerOp<"activation"> {
  let summary = "Elementwise activation function";
  let description = [{
    Computed in f32 and rounded once:

    - `silu`: `x / (1 + exp(-x))`
    - `gelu`: `x/2 * (1 + erf(x / sqrt(2)))`
    - `gelu_tanh`: `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`
    - `relu`: `max(x, 0)`; NaN stays NaN. The second of two with the same
      type changes nothing and is folded
    - `relu2`: `max(x, 0)^2`
    - `quick_gelu`: `x / (1 + exp(-1.702 x))`

    `gelu` and `gelu_tanh` are different functions and never replace each
    other.

    Example:

    ```mlir
    %y = fuse.activation silu %x : tensor<?x3072xbf16> -> tensor<?x3072xbf16>
    ```
  }];
  let arguments = (ins Fuse_ActivationAttr:$kind, Fuse_FloatTensor:$x);
  let results = (outs Fuse_FloatTensor:$y);
  let hasFolder = 1;
  let assemblyFormat = [{
    custom<Keyword>($kind) $x attr-dict `:` type($x) `->` type($y)
  }];
}

def Fuse_GatedMulOp : Fuse_LayerOp<"gated_mul", [], ["getTokenOperands"]> {
  let summary = "Product of an activated gate and a second projection";
  let description = [{
    `lhs * rhs` in f32, rounded once. Either operand can be the activated gate
    of a gated MLP.

    Example:

    ```mlir
    %p = fuse.gated_mul %act, %up
      : (tensor<?x3072xbf16>, tensor<?x3072xbf16>) -> tensor<?x3072xbf16>
    ```
  }];
  let arguments = (ins Fuse_FloatTensor:$lhs, Fuse_FloatTensor:$rhs);
  let results = (outs Fuse_FloatTensor:$y);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_ResidualAddOp
    : Fuse_LayerOp<"residual_add", [], ["getTokenOperands"]> {
  let summary = "Sum of a branch and the residual stream";
  let description = [{
    `lhs + rhs` in f32, rounded once.

    Example:

    ```mlir
    %s = fuse.residual_add %x, %r
      : (tensor<?x1024xbf16>, tensor<?x1024xbf16>) -> tensor<?x1024xbf16>
    ```
  }];
  let arguments = (ins Fuse_FloatTensor:$lhs, Fuse_FloatTensor:$rhs);
  let results = (outs Fuse_FloatTensor:$y);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_QuantizeOp : Fuse_LayerOp<"quantize"> {
  let summary = "Quantization with a static scale";
  let description = [{
    `q = saturate(round_to_nearest_even(x * (1 / scale)))` in f32, with the
    reciprocal rounded to f32 first. With `order divide`, `x` is divided by the
    scale instead. The two orders differ: some inputs are rounded to adjacent
    codes.

    Values beyond the largest finite code saturate to that code (448 for
    f8E4M3FN, 57344 for f8E5M2, -128 and 127 for i8), and so do infinities. NaN
    stays NaN in 8-bit floats and becomes 0 in i8.

    The scale is an attribute, or an operand with one f32 value per index of
    dimension 0 (output channels of a weight).

    Quantizing a dequantized i8 tensor with the same scale is folded if the real
    values neither overflow nor lose bits. 8-bit floats are not folded: their
    NaN and infinities need not return. The opposite, dequantizing a quantized
    tensor, rounds and is never folded.

    Example:

    ```mlir
    %q = fuse.quantize %x scale 2.1e-2
      : (tensor<?x1024xbf16>) -> tensor<?x1024xf8E4M3FN>
    %w = fuse.quantize %v channel_scale(%s) order divide
      : (tensor<64x1024xbf16>, tensor<64xf32>) -> tensor<64x1024xi8>
    ```
  }];
  let arguments = (ins
    Fuse_FloatTensor:$x,
    Optional<Fuse_ScaleVector>:$channel_scale,
    OptionalAttr<F64Attr>:$scale,
    DefaultValuedAttr<Fuse_QuantOrderAttr,
                      "::fuse::QuantOrder::Reciprocal">:$order
  );
  let results = (outs Fuse_QuantizedTensor:$q);
  let hasFolder = 1;
  let assemblyFormat = [{
    $x (`scale` custom<Number>($scale)^)?
    (`channel_scale` `(` $channel_scale^ `)`)?
    (`order` custom<Keyword>($order)^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_DequantizeOp : Fuse_LayerOp<"dequantize"> {
  let summary = "Conversion of stored values to real values";
  let description = [{
    `x = scale * q` in f32, rounded to the result type. The scale is an
    attribute, or an operand with one f32 value per index of dimension 0.

    Example:

    ```mlir
    %x = fuse.dequantize %q scale 2.1e-2
      : (tensor<?x1024xf8E4M3FN>) -> tensor<?x1024xbf16>
    ```
  }];
  let arguments = (ins
    Fuse_QuantizedTensor:$q,
    Optional<Fuse_ScaleVector>:$channel_scale,
    OptionalAttr<F64Attr>:$scale
  );
  let results = (outs Fuse_FloatTensor:$x);
  let assemblyFormat = [{
    $q (`scale` custom<Number>($scale)^)?
    (`channel_scale` `(` $channel_scale^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_DequantizeWeightOp : Op<Fuse_Dialect, "dequantize_weight", [Pure]> {
  let summary = "Conversion of a weight of packed codes to real values";
  let description = [{
    Real values of a weight of 4 bits, by the formula of `#fuse.quant`. The
    operands in `scales` are the scales of the groups, then the zero points,
    then the scale of the tensor, as far as `quant` has them.

    Example:

    ```mlir
    %w = fuse.dequantize_weight %q scales(%s, %t)
           quant(f4E2M1FN, weights = group<16, f8E4M3FN>,
                 tensor_scale = multiply, activations = none)
      : (tensor<64x32xi8>, tensor<64x4xf8E4M3FN>, tensor<1xf32>)
        -> tensor<64x64xbf16>
    ```
  }];
  let arguments = (ins
    Fuse_TensorOf<[I8]>:$q,
    Variadic<Fuse_WeightScale>:$scales,
    Fuse_QuantAttr:$quant
  );
  let results = (outs Fuse_FloatTensor:$x);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $q `scales` `(` $scales `)` `` custom<Quant>($quant)
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_DynamicQuantizeOp
    : Fuse_LayerOp<"dynamic_quantize", [], ["getTokenResults"]> {
  let summary = "Quantization with a scale measured at run time";
  let description = [{
    `scale = max(amax / L, 2^-64)`, where `amax` is the largest magnitude of a
    token (`per_token`, the values along the last dimension) or of the whole
    tensor (`per_tensor`), and `L` is the largest finite code (127 for i8). Then
    `q = saturate(round_to_nearest_even(x * (1 / scale)))` as in
    `fuse.quantize`, all in f32. The lower limit of the scale avoids a division
    by zero for tokens of zeros.

    The second result has the scales: one per token, or a single one. If a value
    is NaN or infinite, the scale is, too, and all values that share it have no
    finite real value.

    With `per_group`, each group of consecutive features of a token has a
    scale. `quant` states its size, and limits and orders of the arithmetic
    other than those above, see `#fuse.quant`.

    Example:

    ```mlir
    %q, %s = fuse.dynamic_quantize per_token %x
      : (tensor<?x1024xbf16>) -> (tensor<?x1024xf8E4M3FN>, tensor<?xf32>)
    %p, %t = fuse.dynamic_quantize per_tensor %x
      : (tensor<?x1024xbf16>) -> (tensor<?x1024xi8>, tensor<1xf32>)
    %g, %u = fuse.dynamic_quantize per_group %x
               quant(f8E4M3FN, weights = block<128x128>,
                     activations = per_group<128>, floor = amax<1.0e-4>,
                     scale_op = reciprocal, sums = block<128>)
      : (tensor<?x1024xbf16>) -> (tensor<?x1024xf8E4M3FN>, tensor<?x8xf32>)
    ```
  }];
  let arguments = (ins Fuse_ScaleScopeAttr:$scope, Fuse_FloatTensor:$x,
                       OptionalAttr<Fuse_QuantAttr>:$quant);
  let results = (outs Fuse_QuantizedTensor:$q, Fuse_ScaleVector:$scale);
  let builders = [
    OpBuilder<(ins "::mlir::Type":$q, "::mlir::Type":$scale,
                   "::fuse::ScaleScopeAttr":$scope, "::mlir::Value":$x), [{
      build($_builder, $_state, q, scale, scope, x, QuantAttr());
    }]>
  ];
  let assemblyFormat = [{
    custom<Keyword>($scope) $x `` custom<Quant>($quant)
    attr-dict `:` functional-type(operands, results)
  }];
}

/// What ranks exchange. No op may pass another op on it, on any rank.
def Fuse_CollectiveResource : Resource<"::fuse::CollectiveResource">;

def Fuse_AllReduceOp : Fuse_LayerOp<"all_reduce", [], [], [
    MemoryEffects<[MemRead<Fuse_CollectiveResource>,
                   MemWrite<Fuse_CollectiveResource>]>]> {
  let summary = "Sum of the partial results of all ranks";
  let description = [{
    `y = x[0] + x[1] + ... + x[size - 1]`, where `x[r]` is the operand on rank
    `r` of an axis. Partial results are extended to f32 and added in f32 in the
    order of the ranks, each addition rounded. The bias, which is the same on
    all ranks, is added in f32 to the sum. The result is rounded once, and has
    the same bits on all ranks.

    With `added after_rounding`, the bias is added in f32 to the rounded sum,
    and the result is rounded again.

    All ranks must execute the same reductions in the same order. The op
    therefore reads and writes a resource of its own: it is not merged with an
    equal one, not removed and not moved across another one.

    The op has no code. `fuse-join-ranks` computes all ranks in one process; a
    runtime ends a kernel before the op and begins the next one after it.

    Example:

    ```mlir
    %y = fuse.all_reduce %p group("tp", 4) order(rank)
      : (tensor<?x4096xf32>) -> tensor<?x4096xbf16>
    %z = fuse.all_reduce %p bias(%b) added after_rounding
           group("tp", 4) order(rank)
      : (tensor<?x4096xf32>, tensor<4096xbf16>) -> tensor<?x4096xbf16>
    ```
  }];
  let arguments = (ins
    Fuse_FloatTensor:$x,
    Optional<Fuse_FloatTensor>:$bias,
    StrAttr:$axis,
    I64Attr:$size,
    DefaultValuedAttr<Fuse_BiasPlaceAttr,
                      "::fuse::BiasPlace::BeforeRounding">:$bias_place
  );
  let results = (outs Fuse_FloatTensor:$y);
  let assemblyFormat = [{
    $x (`bias` `(` $bias^ `)`)? (`added` custom<Keyword>($bias_place)^)?
    `group` `(` $axis `,` custom<Integer>($size) `)` `order` `(` `rank` `)`
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif // FUSE_IR_FUSELAYEROPS_TD
