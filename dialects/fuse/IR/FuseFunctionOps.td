//===- FuseFunctionOps.td - Functions that models call -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions and modules of models that are not layer ops: they gather, or
// reduce over more dimensions than the features.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEFUNCTIONOPS_TD
#define FUSE_IR_FUSEFUNCTIONOPS_TD

include "fuse/IR/FuseLayerOps.td"

def Fuse_Index : AnyTypeOf<[I32, I64], "i32 or i64">;
def Fuse_IndexTensor : Fuse_TensorOf<[Fuse_Index]>;
def Fuse_CountTensor : Fuse_TensorOf<[I32, I64, F32]>;

def Fuse_RotaryOp : Fuse_LayerOp<"rotary"> {
  let summary = "Rotary position embedding";
  let description = [{
    Rotates pairs of features by an angle per position. `cos` and `sin` have one
    value per position and rotated feature. They do not have dimension `heads`
    of `x` (default 1: `[batch, head, position, feature]`); their other
    dimensions are those of `x`, or 1. With an even number `R` of features in
    `cos`,

    - `y[d] = x[d] * cos[d] - x[d + R/2] * sin[d]` for `d < R/2`,
    - `y[d] = x[d] * cos[d] + x[d - R/2] * sin[d]` for `R/2 <= d < R`,
    - `y[d] = x[d]` for `R <= d` (partial rotary embedding).

    Both products are rounded to the common type of `x` and `cos`: f32 if they
    differ. The sum is computed in f32 and rounded once.

    Example:

    ```mlir
    %q1 = fuse.rotary %q cos(%c) sin(%s)
      : (tensor<?x8x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x64xbf16>)
        -> tensor<?x8x?x64xbf16>
    %k1 = fuse.rotary %k cos(%c) sin(%s) heads 2
      : (tensor<1x?x2x96xbf16>, tensor<1x?x64xbf16>, tensor<1x?x64xbf16>)
        -> tensor<1x?x2x96xbf16>
    ```
  }];
  let arguments = (ins
    Fuse_FloatTensor:$x,
    Fuse_FloatTensor:$cos,
    Fuse_FloatTensor:$sin,
    DefaultValuedAttr<I64Attr, "1">:$heads
  );
  let results = (outs Fuse_FloatTensor:$y);
  let assemblyFormat = [{
    $x `cos` `(` $cos `)` `sin` `(` $sin `)`
    (`heads` custom<Integer>($heads)^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_CrossEntropyOp : Fuse_ShapedOp<"cross_entropy", [
    DeclareOpInterfaceMethods<Fuse_TokenOpInterface,
                              ["getTokenOperands", "getTokenResults"]>,
    InferTypeOpAdaptor]> {
  let summary = "Cross entropy of logits and labels";
  let description = [{
    For each row of logits with label `t`,
    `loss = log(sum_v exp(logits[v] - m)) + m - logits[t]` in f32, where `m` is
    the largest logit of the row. Probabilities are not computed: a kernel reads
    the logits and writes a few numbers per row.

    With `causal`, each row uses the label of the next position, the last
    dimension of `labels`; the last position has no label. Rows without a label
    and rows whose label is `ignore_index` (default -100) are ignored. A label
    outside of the vocabulary makes the result NaN.

    `mean` divides the sum of losses by the number of rows that are not ignored;
    the result is NaN if there are none. `sum` divides it by `items`, converted
    to f32, if given.

    Example:

    ```mlir
    %a = fuse.cross_entropy %logits, %labels mean causal
      : (tensor<?x?x32000xbf16>, tensor<?x?xi64>) -> tensor<f32>
    %b = fuse.cross_entropy %logits, %labels items(%n) sum ignore_index 0
      : (tensor<?x32000xf32>, tensor<?xi64>, tensor<i64>) -> tensor<f32>
    ```
  }];
  let arguments = (ins
    Fuse_FloatTensor:$logits,
    Fuse_IndexTensor:$labels,
    Optional<Fuse_CountTensor>:$items,
    Fuse_LossReductionAttr:$reduction,
    UnitAttr:$causal,
    DefaultValuedAttr<I64Attr, "-100">:$ignore_index
  );
  let results = (outs Fuse_TensorOf<[F32]>:$loss);
  let assemblyFormat = [{
    $logits `,` $labels (`items` `(` $items^ `)`)?
    custom<Keyword>($reduction) (`causal` $causal^)?
    (`ignore_index` custom<Integer>($ignore_index)^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Fuse_MoEExpertsOp
    : Fuse_LayerOp<"moe_experts", [], ["getTokenOperands"]> {
  let summary = "Gated MLPs of the experts that each token is routed to";
  let description = [{
    `x` is `[token, feature]`. Token `t` is sent to the experts `index[t, k]`
    with the factors `weights[t, k]`. The weights of all experts are packed:
    `gate_up` is `[expert, 2 * hidden, feature]`, the rows of the gate first,
    and `down` is `[expert, feature, hidden]`. With `e = index[t, k]`,

    - `gate` and `up` are the linear maps of `x[t]` by the two halves of
      `gate_up[e]`, rounded to the type of `x`, as are
    - `a = act(gate)`, `p = a * up`, and `d`, the linear map of `p` by
      `down[e]`;
    - `s[k] = d * weights[t, k]`, rounded to the common type of both (f32 if
      they differ) and then to that of `x`;
    - `y[t] = sum_k s[k]` in f32, rounded once.

    An index outside of the experts refers to an expert on another device and
    adds nothing. Sums over features are as in `fuse.linear`. The order of the
    sum over `k` is unspecified.

    Example:

    ```mlir
    %y = fuse.moe_experts %x route(%i, %r) gate_up(%gu) down(%d) act(silu)
      : (tensor<?x64xbf16>, tensor<?x2xi64>, tensor<?x2xbf16>,
         tensor<8x192x64xbf16>, tensor<8x64x96xbf16>) -> tensor<?x64xbf16>
    ```
  }];
  let arguments = (ins
    Fuse_FloatTensor:$x,
    Fuse_IndexTensor:$index,
    Fuse_FloatTensor:$weights,
    Fuse_FloatTensor:$gate_up,
    Fuse_FloatTensor:$down,
    Fuse_ActivationAttr:$act
  );
  let results = (outs Fuse_FloatTensor:$y);
  let assemblyFormat = [{
    $x `route` `(` $index `,` $weights `)` `gate_up` `(` $gate_up `)`
    `down` `(` $down `)` `act` `(` custom<Keyword>($act) `)`
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif // FUSE_IR_FUSEFUNCTIONOPS_TD
