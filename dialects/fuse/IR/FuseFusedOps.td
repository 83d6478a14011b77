//===- FuseFusedOps.td - Fused ops of the fuse dialect -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEFUSEDOPS_TD
#define FUSE_IR_FUSEFUSEDOPS_TD

include "fuse/IR/FuseAttrs.td"
include "fuse/IR/FuseInterfaces.td"
include "fuse/IR/FuseLayerOps.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/RegionKindInterface.td"

class Fuse_FusedOp<string mnemonic, list<Trait> traits = []>
    : Fuse_ShapedOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<Fuse_FusedOpInterface, ["decompose"]>
      ], traits)>;

/// A fused op with clauses. Its canonicalizer drops results of `also` that are
/// not used.
class Fuse_FamilyOp<string mnemonic, list<Trait> traits = []>
    : Fuse_FusedOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<Fuse_TokenOpInterface, ["getTokenOperands"]>
      ], traits)>;

/// The last attributes of every fused op. `extras` names the intermediates that
/// are additional results.
defvar Fuse_ContractAttrs = (ins
  OptionalAttr<Fuse_RoundingPointArrayAttr>:$extras,
  OptionalAttr<Fuse_StaticScalesAttr>:$scales,
  Fuse_RoundingAttr:$rounding,
  OptionalAttr<StrArrayAttr>:$origins,
  OptionalAttr<StrAttr>:$site,
  OptionalAttr<Fuse_ProvenanceAttr>:$provenance
);

def Fuse_GatedMLPOp : Fuse_FamilyOp<"gated_mlp", [AttrSizedOperandSegments]> {
  let summary = "Norm, gated MLP and residual adds as one kernel";
  let description = [{
    The chain `[residual_add] [norm] [quantize] gate, act, up, gated_mul
    [quantize] down [residual_add]`. Members in square brackets are optional.

    - `residual(%r)` adds `%r` to the input first; the sum is the stream;
    - `norm(...)` normalizes the stream, or the input without a residual;
    - `then_add(%s)` adds `%s` to the result; `add_stream` adds the stream;
    - `also([stream])` returns the stream as a second result;
    - `scales` requires `input`, `gate`, `up`, `hidden` and `down`, or with
      `form = weight_only` only those of the weights;
    - `quant` instead of `scales`: both quantize ops measure their scales, and
      `channel_scales` has the scales of each weight. With weights of 4 bits,
      nothing is quantized, each linear follows a `fuse.dequantize_weight`, and
      `channel_scales` has all of its scales.

    Every op that verifies has a kernel: at least that of the portable path.

    Example:

    ```mlir
    %y = fuse.gated_mlp %x residual(%r) norm(rms %w eps 1.0e-6)
           gate(%wg) up(%wu) down(%wd) act(gelu_tanh)
           scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                  hidden = 4.0e-2, down = 9.0e-4)
           rounding(exact) site("block#0")
         : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>,
            tensor<128x64xf8E4M3FN>, tensor<128x64xf8E4M3FN>,
            tensor<64x128xf8E4M3FN>) -> tensor<?x64xbf16>
    %z = fuse.gated_mlp %x norm(rms %w eps 1.0e-6)
           gate(%wg) up(%wu) down(%wd) act(silu)
           channel_scales(%sg, %su, %sd)
           quant(f8E4M3FN, weights = channel, activations = per_token)
           rounding(exact)
         : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<128x64xf8E4M3FN>,
            tensor<128x64xf8E4M3FN>, tensor<64x128xf8E4M3FN>,
            tensor<128xf32>, tensor<128xf32>, tensor<64xf32>)
           -> tensor<?x64xbf16>
    ```
  }];
  let arguments = !con((ins
    Fuse_FloatTensor:$x,
    Optional<Fuse_FloatTensor>:$residual,
    Optional<Fuse_FloatTensor>:$norm_weight,
    Optional<Fuse_FloatTensor>:$norm_bias,
    Fuse_AnyTensor:$gate,
    Optional<Fuse_FloatTensor>:$gate_bias,
    Fuse_AnyTensor:$up,
    Optional<Fuse_FloatTensor>:$up_bias,
    Fuse_AnyTensor:$down,
    Optional<Fuse_FloatTensor>:$down_bias,
    Optional<Fuse_FloatTensor>:$output_residual,
    Variadic<Fuse_WeightScale>:$channel_scales,
    OptionalAttr<Fuse_NormAttr>:$norm,
    Fuse_ActivationAttr:$activation,
    UnitAttr:$add_stream,
    OptionalAttr<Fuse_QuantAttr>:$quant), Fuse_ContractAttrs);
  let results = (outs Variadic<Fuse_FloatTensor>:$outputs);
  let assemblyFormat = [{
    $x (`residual` `(` $residual^ `)`)?
    `` custom<Norm>($norm, $norm_weight, $norm_bias)
    `gate` `(` $gate (`bias` $gate_bias^)? `)`
    `up` `(` $up (`bias` $up_bias^)? `)`
    `down` `(` $down (`bias` $down_bias^)? `)`
    `act` `(` custom<Keyword>($activation) `)`
    (`then_add` `(` $output_residual^ `)`)?
    (`add_stream` $add_stream^)?
    (`channel_scales` `(` $channel_scales^ `)`)?
    `` custom<Quant>($quant)
    custom<Contract>($extras, $scales, $rounding, $origins, $site, $provenance)
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_MLPOp : Fuse_FamilyOp<"mlp", [AttrSizedOperandSegments]> {
  let summary = "Norm, dense MLP and residual adds as one kernel";
  let description = [{
    The chain `[residual_add] [norm] [quantize] up, act [quantize] down
    [residual_add]`. Members in square brackets are optional. The clauses are
    those of `fuse.gated_mlp`; `scales` requires `input`, `up`, `hidden` and
    `down`. `quant` is as in `fuse.gated_mlp`.

    Example:

    ```mlir
    %y = fuse.mlp %x norm(layer %w, %b eps 1.0e-5)
           up(%w1 bias %b1) down(%w2 bias %b2) act(gelu) then_add(%x)
           rounding(exact)
         : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16>,
            tensor<256x64xbf16>, tensor<256xbf16>, tensor<64x256xbf16>,
            tensor<64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
    ```
  }];
  let arguments = !con((ins
    Fuse_FloatTensor:$x,
    Optional<Fuse_FloatTensor>:$residual,
    Optional<Fuse_FloatTensor>:$norm_weight,
    Optional<Fuse_FloatTensor>:$norm_bias,
    Fuse_AnyTensor:$up,
    Optional<Fuse_FloatTensor>:$up_bias,
    Fuse_AnyTensor:$down,
    Optional<Fuse_FloatTensor>:$down_bias,
    Optional<Fuse_FloatTensor>:$output_residual,
    Variadic<Fuse_WeightScale>:$channel_scales,
    OptionalAttr<Fuse_NormAttr>:$norm,
    Fuse_ActivationAttr:$activation,
    UnitAttr:$add_stream,
    OptionalAttr<Fuse_QuantAttr>:$quant), Fuse_ContractAttrs);
  let results = (outs Variadic<Fuse_FloatTensor>:$outputs);
  let assemblyFormat = [{
    $x (`residual` `(` $residual^ `)`)?
    `` custom<Norm>($norm, $norm_weight, $norm_bias)
    `up` `(` $up (`bias` $up_bias^)? `)`
    `down` `(` $down (`bias` $down_bias^)? `)`
    `act` `(` custom<Keyword>($activation) `)`
    (`then_add` `(` $output_residual^ `)`)?
    (`add_stream` $add_stream^)?
    (`channel_scales` `(` $channel_scales^ `)`)?
    `` custom<Quant>($quant)
    custom<Contract>($extras, $scales, $rounding, $origins, $site, $provenance)
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_NormLinearOp
    : Fuse_FamilyOp<"norm_linear", [AttrSizedOperandSegments]> {
  let summary = "Norm and linear maps of its result as one kernel";
  let description = [{
    The chain `[residual_add] norm [quantize] linear...`, for example the
    projections of an attention block. Returns one result per linear, in the
    order of the weights, then those named by `also` (`stream`, `normed`).
    `scales` requires `input` and `weight0`, `weight1`, ... `quant` is as in
    `fuse.gated_mlp`.

    Example:

    ```mlir
    %q, %k = fuse.norm_linear %x norm(rms %w eps 1.0e-6)
               linear(%wq bias %bq, %wk) rounding(exact)
           : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>,
              tensor<16x64xbf16>, tensor<64xbf16>)
             -> (tensor<?x64xbf16>, tensor<?x16xbf16>)
    ```
  }];
  let arguments = !con((ins
    Fuse_FloatTensor:$x,
    Optional<Fuse_FloatTensor>:$residual,
    Optional<Fuse_FloatTensor>:$norm_weight,
    Optional<Fuse_FloatTensor>:$norm_bias,
    Variadic<Fuse_AnyTensor>:$weights,
    Variadic<Fuse_FloatTensor>:$biases,
    Variadic<Fuse_WeightScale>:$channel_scales,
    Fuse_NormAttr:$norm,
    DenseBoolArrayAttr:$bias_mask,
    OptionalAttr<Fuse_QuantAttr>:$quant), Fuse_ContractAttrs);
  let results = (outs Variadic<Fuse_FloatTensor>:$outputs);
  let assemblyFormat = [{
    $x (`residual` `(` $residual^ `)`)?
    `` custom<RequiredNorm>($norm, $norm_weight, $norm_bias)
    `linear` `(` custom<Linears>($weights, $biases, $bias_mask) `)`
    (`channel_scales` `(` $channel_scales^ `)`)?
    `` custom<Quant>($quant)
    custom<Contract>($extras, $scales, $rounding, $origins, $site, $provenance)
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_FusedLinearOp
    : Fuse_FamilyOp<"fused_linear", [AttrSizedOperandSegments]> {
  let summary = "Quantization, a linear map and a residual add as one kernel";
  let description = [{
    The chain `[quantize] linear [residual_add]` without a norm, for example the
    output projection of an attention block. At least one of the optional
    members must be there.

    - `then_add(%s)` adds `%s` to the result;
    - `scales` requires `input` and `weight0`, or with `form = weight_only` only
      `weight0`. `quant` is as in `fuse.gated_mlp`.

    Example:

    ```mlir
    %y = fuse.fused_linear %x linear(%w bias %b) then_add(%s)
           scales(f8E4M3FN, input = 2.1e-2, weight0 = 1.3e-3) rounding(exact)
         : (tensor<?x64xbf16>, tensor<32x64xf8E4M3FN>, tensor<32xbf16>,
            tensor<?x32xbf16>) -> tensor<?x32xbf16>
    ```
  }];
  let arguments = !con((ins
    Fuse_FloatTensor:$x,
    Fuse_AnyTensor:$weight,
    Optional<Fuse_FloatTensor>:$bias,
    Optional<Fuse_FloatTensor>:$output_residual,
    Variadic<Fuse_WeightScale>:$channel_scales,
    OptionalAttr<Fuse_QuantAttr>:$quant), Fuse_ContractAttrs);
  let results = (outs Variadic<Fuse_FloatTensor>:$outputs);
  let assemblyFormat = [{
    $x `linear` `(` $weight (`bias` $bias^)? `)`
    (`then_add` `(` $output_residual^ `)`)?
    (`channel_scales` `(` $channel_scales^ `)`)?
    `` custom<Quant>($quant)
    custom<Contract>($extras, $scales, $rounding, $origins, $site, $provenance)
    attr-dict `:` functional-type(operands, results)
  }];
  // What templates for all families ask for.
  let extraClassDeclaration = [{
    ::mlir::Value getResidual() { return {}; }
    ::mlir::Value getNormWeight() { return {}; }
    ::mlir::Value getNormBias() { return {}; }
    ::fuse::NormAttr getNormAttr() { return {}; }
  }];
}

def Fuse_NormQuantizeOp
    : Fuse_FamilyOp<"norm_quantize", [AttrSizedOperandSegments]> {
  let summary = "Norm and quantization as one kernel";
  let description = [{
    The chain `[residual_add] norm quantize`. The first result is quantized;
    those named by `also` (`stream`, `normed`) follow. `scales` requires
    `input`.

    Example:

    ```mlir
    %q, %s = fuse.norm_quantize %x residual(%r) norm(rms %w eps 1.0e-6)
               also([stream]) scales(f8E4M3FN, input = 2.1e-2)
               rounding(exact)
           : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>)
             -> (tensor<?x64xf8E4M3FN>, tensor<?x64xbf16>)
    ```
  }];
  let arguments = !con((ins
    Fuse_FloatTensor:$x,
    Optional<Fuse_FloatTensor>:$residual,
    Optional<Fuse_FloatTensor>:$norm_weight,
    Optional<Fuse_FloatTensor>:$norm_bias,
    Fuse_NormAttr:$norm), Fuse_ContractAttrs);
  let results = (outs Variadic<Fuse_AnyTensor>:$outputs);
  let assemblyFormat = [{
    $x (`residual` `(` $residual^ `)`)?
    `` custom<RequiredNorm>($norm, $norm_weight, $norm_bias)
    custom<Contract>($extras, $scales, $rounding, $origins, $site, $provenance)
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_ActQuantizeOp
    : Fuse_FamilyOp<"act_quantize"> {
  let summary = "Activation, gated product and quantization as one kernel";
  let description = [{
    The chain `act [gated_mul] quantize`. The first result is quantized.
    `also([act])` also returns the activated value, `also([product])` the gated
    product. `scales` requires `hidden`.

    Example:

    ```mlir
    %q = fuse.act_quantize %g times(%u) act(silu)
           scales(f8E4M3FN, hidden = 4.0e-2) rounding(exact)
       : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
    ```
  }];
  let arguments = !con((ins
    Fuse_FloatTensor:$x,
    Optional<Fuse_FloatTensor>:$factor,
    Fuse_ActivationAttr:$activation), Fuse_ContractAttrs);
  let results = (outs Variadic<Fuse_AnyTensor>:$outputs);
  let assemblyFormat = [{
    $x (`times` `(` $factor^ `)`)? `act` `(` custom<Keyword>($activation) `)`
    custom<Contract>($extras, $scales, $rounding, $origins, $site, $provenance)
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_GroupOp : Fuse_FusedOp<"group", [
    IsolatedFromAbove, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "A chain of ops as one kernel";
  let description = [{
    A kernel for a chain that is not one of the other fused ops. The body
    contains the members. Operands become block arguments; `fuse.yield` returns
    the results.

    Example:

    ```mlir
    %y = fuse.group(%a = %x : tensor<?x64xbf16>) -> (tensor<?x64xbf16>)
           rounding(exact) {
      %s = fuse.activation silu %a : tensor<?x64xbf16> -> tensor<?x64xbf16>
      fuse.yield %s : tensor<?x64xbf16>
    }
    ```
  }];
  let arguments = (ins
    Variadic<AnyType>:$inputs,
    Fuse_RoundingAttr:$rounding,
    OptionalAttr<StrArrayAttr>:$origins,
    OptionalAttr<StrAttr>:$site,
    OptionalAttr<Fuse_ProvenanceAttr>:$provenance);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Fuse_YieldOp : Op<Fuse_Dialect, "yield", [
    Pure, Terminator, HasParent<"GroupOp">]> {
  let summary = "Results of a group";
  let description = [{
    Ends the body of `fuse.group` and names the values that it returns.

    Example: `fuse.yield %b : tensor<?x64xbf16>`
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // FUSE_IR_FUSEFUSEDOPS_TD
