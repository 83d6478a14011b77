//===- StageOps.td - Operations of the stage dialect -------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef STAGE_IR_STAGEOPS_TD
#define STAGE_IR_STAGEOPS_TD

include "fuse/IR/FuseAttrs.td"
include "fuse/IR/FuseTensors.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "stage/IR/StageAttrs.td"

/// An op with a region that sees only its block arguments.
class Stage_RegionOp<string mnemonic, list<Trait> traits = []>
    : Op<Stage_Dialect, mnemonic, !listconcat([
        Pure, IsolatedFromAbove, SingleBlock
      ], traits)> {
  let hasRegionVerifier = 1;
}

class Stage_StageOp<string mnemonic, list<Trait> traits = []>
    : Stage_RegionOp<mnemonic, !listconcat(traits, [HasParent<"GraphOp">])>;

def Stage_SumTensor : Fuse_TensorOf<[F32, I32]>;

def Stage_GraphOp : Stage_RegionOp<"graph"> {
  let summary = "The stages of one fused op";
  let description = [{
    The body has stages in the order of their edges and ends with `stage.yield`.
    Operands become block arguments, in the order of the operands of the fused
    op.

    `map` has the choices that the stages share. A graph without it is unmapped,
    and so are its stages. The launches of a mapping are numbered from 0 in the
    order of the stages. `rounding` is the contract of a fused op whose kernel
    may skip roundings; without it, the kernel keeps all of them. `site` and
    `origins` are those of the fused op.

    Example:

    ```mlir
    %y = stage.graph(%x, %w, %wq)
           map <mma, tokens = 8, blocks = 1>
         : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>)
           -> tensor<?x64xbf16> {
    ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64xbf16>, %c: tensor<64x64xbf16>):
      %n = stage.rows(%a, %b) map <launch = 0, results = [launch]>
           : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16> {
      ^bb0(%d: tensor<?x64xbf16>, %e: tensor<64xbf16>):
        %f = fuse.rms_norm %d weight(%e) eps 1.0e-6
             : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
        stage.yield %f : tensor<?x64xbf16>
      }
      %q = stage.product %n by(%c)
           map <launch = 1, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
           : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
      ^bb0(%g: tensor<?x64xf32>):
        %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xbf16>
        stage.yield %h : tensor<?x64xbf16>
      }
      stage.yield %q : tensor<?x64xbf16>
    }
    ```
  }];
  let arguments = (ins
    Variadic<AnyType>:$inputs,
    OptionalAttr<Stage_GraphMappingAttr>:$mapping,
    OptionalAttr<Fuse_RoundingAttr>:$rounding,
    OptionalAttr<StrArrayAttr>:$origins,
    OptionalAttr<StrAttr>:$site
  );
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` (`map` $mapping^)? attr-dict-with-keyword
    `:` functional-type(operands, results) $body
  }];
}

def Stage_RowsOp : Stage_StageOp<"rows"> {
  let summary = "One pass over token rows";
  let description = [{
    Layer ops that read one token row at a time: residual add, norm,
    activation, and quantization with a static scale or with one per token or
    group. The results are any of their values. A body that yields its arguments
    copies rows.

    Example:

    ```mlir
    %n, %s = stage.rows(%x, %r, %w)
             : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>)
               -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
    ^bb0(%a: tensor<?x64xbf16>, %b: tensor<?x64xbf16>, %c: tensor<64xbf16>):
      %d = fuse.residual_add %a, %b
           : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
      %e = fuse.rms_norm %d weight(%c) eps 1.0e-6
           : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
      stage.yield %e, %d : tensor<?x64xbf16>, tensor<?x64xbf16>
    }
    ```
  }];
  let arguments = (ins
    Variadic<AnyType>:$inputs,
    OptionalAttr<Stage_RowsMappingAttr>:$mapping
  );
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` (`map` $mapping^)? attr-dict
    `:` functional-type(operands, results) $body
  }];
}

def Stage_ProductOp : Stage_StageOp<"product", [AttrSizedOperandSegments]> {
  let summary = "Product of token rows and weights";
  let description = [{
    `sum_i[..., n] = sum_k x[..., k] * weights_i[n, k]` for each weight, in f32
    (i32 for i8). Gate and up projections, or those of an attention block, are
    the weights of one product. A range of the rows of a larger weight is a
    slice of it outside of the graph.

    The epilogue gets the sums, then the inputs of `with`. Its ops are
    elementwise: `stage.finish`, activations, products, residual adds and
    quantization. Only `stage.finish` reads a sum.

    With `slices`, the product has no epilogue. It returns the sums of K-slices
    of this many elements, for each weight one tensor with the slices as its
    first dimension. The last slice may be shorter. A `stage.reduce` adds them.

    Example:

    ```mlir
    %h = stage.product %x by(%wg, %wu) with(%b)
         : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<128x64xbf16>,
            tensor<128xbf16>) -> tensor<?x128xbf16> {
    ^bb0(%c: tensor<?x128xf32>, %d: tensor<?x128xf32>, %e: tensor<128xbf16>):
      %f = stage.finish %c bias(%e)
           : (tensor<?x128xf32>, tensor<128xbf16>) -> tensor<?x128xbf16>
      %g = fuse.activation silu %f : tensor<?x128xbf16> -> tensor<?x128xbf16>
      %i = stage.finish %d : (tensor<?x128xf32>) -> tensor<?x128xbf16>
      %j = fuse.gated_mul %g, %i
           : (tensor<?x128xbf16>, tensor<?x128xbf16>) -> tensor<?x128xbf16>
      stage.yield %j : tensor<?x128xbf16>
    }
    %p = stage.product %z by(%w) slices 64
         : (tensor<?x128xbf16>, tensor<64x128xbf16>) -> tensor<2x?x64xf32>
    ```
  }];
  let arguments = (ins
    Fuse_AnyTensor:$x,
    Variadic<Fuse_AnyTensor>:$weights,
    Variadic<AnyType>:$inputs,
    OptionalAttr<I64Attr>:$slice,
    OptionalAttr<Stage_ProductMappingAttr>:$mapping
  );
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region AnyRegion:$epilogue);
  let assemblyFormat = [{
    $x `by` `(` $weights `)` (`with` `(` $inputs^ `)`)?
    (`slices` custom<Integer>($slice)^)? (`map` $mapping^)? attr-dict
    `:` functional-type(operands, results) ($epilogue^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of K-slices, or 1.
    int64_t countSlices();
    /// The type of the sum of a weight: the tokens of `x`, and its outputs.
    ::mlir::RankedTensorType getSumType(::mlir::Value weight);
  }];
}

def Stage_ReduceOp : Stage_StageOp<"reduce", [AttrSizedOperandSegments]> {
  let summary = "Sum over the K-slices of a product";
  let description = [{
    Adds the sums of K-slices in f32, in the order of the slices (`ascending`),
    or in pairs of neighbors until one is left (`pairwise`). The same order
    always gives the same bits. The epilogue gets the totals, then the inputs of
    `with`, and is as that of `stage.product`.

    Example:

    ```mlir
    %y = stage.reduce(%p) with(%r) order ascending
         : (tensor<2x?x64xf32>, tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%a: tensor<?x64xf32>, %b: tensor<?x64xbf16>):
      %c = stage.finish %a : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      %d = fuse.residual_add %b, %c
           : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %d : tensor<?x64xbf16>
    }
    ```
  }];
  let arguments = (ins
    Variadic<Stage_SumTensor>:$partials,
    Variadic<AnyType>:$inputs,
    Stage_SumOrderAttr:$order,
    OptionalAttr<Stage_ReduceMappingAttr>:$mapping
  );
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    `(` $partials `)` (`with` `(` $inputs^ `)`)? `order` `` $order
    (`map` $mapping^)? attr-dict
    `:` functional-type(operands, results) $epilogue
  }];
}

def Stage_FinishOp : Op<Stage_Dialect, "finish", [
    Pure, AttrSizedOperandSegments]> {
  let summary = "Scale, bias and rounding of a sum";
  let description = [{
    What `fuse.linear` does after its sum: multiplies it by its scales in f32,
    adds the bias in f32, and rounds once, or also before the bias with `added
    after_rounding`. The clauses are those of `fuse.linear`.

    Example:

    ```mlir
    %y = stage.finish %s bias(%b)
         : (tensor<?x64xf32>, tensor<64xbf16>) -> tensor<?x64xbf16>
    %z = stage.finish %s scales(2.1e-2, 1.3e-3)
         : (tensor<?x64xf32>) -> tensor<?x64xbf16>
    ```
  }];
  let arguments = (ins
    Stage_SumTensor:$sum,
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
  let assemblyFormat = [{
    $sum (`bias` `(` $bias^ `)`)?
    (`added` custom<Keyword>($bias_place)^)?
    (`channel_scale` `(` $channel_scale^ `)`)?
    (`dynamic_scale` `(` $dynamic_scale^ `)`)?
    `` custom<FinishScales>($input_scale, $weight_scale)
    `` custom<Quant>($quant)
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Stage_YieldOp : Op<Stage_Dialect, "yield", [
    Pure, Terminator,
    ParentOneOf<["GraphOp", "RowsOp", "ProductOp", "ReduceOp"]>]> {
  let summary = "Results of a graph or of a stage";
  let description = [{
    Ends a graph, the body of `stage.rows`, or an epilogue.

    Example: `stage.yield %b : tensor<?x64xbf16>`
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // STAGE_IR_STAGEOPS_TD
