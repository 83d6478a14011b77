//===- NNAttrs.td - Attributes of the nn dialect -----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNATTRS_TD
#define NN_IR_NNATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "nn/IR/NNDialect.td"
include "nn/IR/NNSlotAttrs.td"

def NN_RecipeKindEnum : I32EnumAttr<"RecipeKind",
    "how a stored weight is computed from parameters", [
  I32EnumAttrCase<"Concat", 0, "concat">,
  I32EnumAttrCase<"Interleave", 1, "interleave">,
  I32EnumAttrCase<"Fold", 2, "fold">,
  I32EnumAttrCase<"Quantize", 3, "quantize">,
  I32EnumAttrCase<"Transpose", 4, "transpose">
]> {
  let cppNamespace = "::fuse";
  let genSpecializedAttr = 0;
}

def NN_RecipeAttr : AttrDef<NN_Dialect, "Recipe"> {
  let mnemonic = "recipe";
  let summary = "how a stored weight is computed from parameters";
  let description = [{
    The name of a stored weight, and how it is computed:

    - `concat(@a, @b)`: the rows of `a`, then those of `b`;
    - `interleave(@a, @b block 4)`: four rows of `a`, four of `b`, and so on;
    - `transpose(@w)`: column `i` of the matrix `w` as row `i`, for a weight
      that is stored as `[in, out]`;
    - `fold(@w, @n offset 1)`: column `i` of the matrix `w` times `1 + n[i]`,
      rounded once to the type of `w`; the default offset is 0;
    - `quantize(@w, f8E4M3FN scale 1.0e-3)`: `w` times the f32 reciprocal of
      the scale, clamped to the range of the type, ties to even.

    The first three permute elements, so the parameters can be restored exactly
    and a checkpoint in this layout need not contain them. The other two round.
    With `keep`, the parameters are stored as well. A recipe that rounds without
    `keep` is not invertible, and a site that needs one is refused.

    The name of the stored weight is that in a checkpoint. A source of a
    `nn.fused_call` is a symbol relative to the module whose forward contains
    the call, like the members of the call. A source of an `nn.kernel` is a
    `#fuse.member_parameter`: the position of a member in the chain and the path
    of a parameter below it, written `"1:gate.weight"`.

    Example:
    `#nn.recipe<"layers.0.mlp.gate_up" = concat(@mlp::@gate::@weight,
    @mlp::@up::@weight)>`
  }];
  let parameters = (ins
    "::mlir::StringAttr":$name,
    EnumParameter<NN_RecipeKindEnum>:$kind,
    ArrayRefParameter<"::mlir::Attribute", "parameters">:$sources,
    "bool":$keep,
    "int64_t":$block,
    "int64_t":$offset,
    "::mlir::Type":$storageType,
    "::mlir::FloatAttr":$scale
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether the sources can be restored from the result.
    bool isInvertible() const;
    /// The same with another name and other sources.
    RecipeAttr withNames(::mlir::StringAttr name,
                         ::llvm::ArrayRef<::mlir::Attribute> sources) const;
    /// Type of the result. Emits an error if the sources do not fit.
    ::llvm::FailureOr<::mlir::RankedTensorType>
    inferType(::llvm::ArrayRef<::mlir::RankedTensorType> sources,
              ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError)
        const;
    /// How ranks share the result, if they share the sources as in `shards`;
    /// null if all are whole. A rank applies the recipe to its parts. Emits an
    /// error if that is not a part of the result.
    ::llvm::FailureOr<ShardAttr>
    inferShard(::llvm::ArrayRef<::mlir::RankedTensorType> sources,
               ::llvm::ArrayRef<ShardAttr> shards,
               ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError)
        const;
  }];
}

#endif // NN_IR_NNATTRS_TD
