//===- FuseAttrs.td - Attributes of the fuse dialect -------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEATTRS_TD
#define FUSE_IR_FUSEATTRS_TD

include "FuseDialect.td"
include "FuseSlotAttrs.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class Fuse_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::fuse";
  let genSpecializedAttr = 0;
}

class Fuse_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<Fuse_Dialect, info, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def Fuse_ActivationEnum : Fuse_Enum<"Activation", "activation function", [
  I32EnumAttrCase<"SiLU", 0, "silu">,
  I32EnumAttrCase<"GELU", 1, "gelu">,
  I32EnumAttrCase<"GELUTanh", 2, "gelu_tanh">,
  I32EnumAttrCase<"ReLU", 3, "relu">,
  I32EnumAttrCase<"ReLU2", 4, "relu2">,
  I32EnumAttrCase<"QuickGELU", 5, "quick_gelu">
]>;

def Fuse_NormKindEnum : Fuse_Enum<"NormKind", "kind of normalization", [
  I32EnumAttrCase<"RMS", 0, "rms">,
  I32EnumAttrCase<"Layer", 1, "layer">
]>;

def Fuse_NormCastEnum : Fuse_Enum<"NormCast",
    "where a norm casts relative to its weight", [
  I32EnumAttrCase<"BeforeWeight", 0, "before_weight">,
  I32EnumAttrCase<"AfterWeight", 1, "after_weight">
]>;

def Fuse_QuantOrderEnum : Fuse_Enum<"QuantOrder",
    "how quantization divides by its scale", [
  I32EnumAttrCase<"Reciprocal", 0, "reciprocal">,
  I32EnumAttrCase<"Divide", 1, "divide">
]>;

def Fuse_LossReductionEnum : Fuse_Enum<"LossReduction",
    "how losses of rows become one", [
  I32EnumAttrCase<"Mean", 0, "mean">,
  I32EnumAttrCase<"Sum", 1, "sum">
]>;

def Fuse_QuantFormEnum : Fuse_Enum<"QuantForm",
    "how the unfused chain applies scales", [
  I32EnumAttrCase<"Scaled", 0, "scaled">,
  I32EnumAttrCase<"QDQ", 1, "qdq">,
  I32EnumAttrCase<"WeightOnly", 2, "weight_only">
]>;

def Fuse_BiasPlaceEnum : Fuse_Enum<"BiasPlace",
    "where a linear map adds its bias", [
  I32EnumAttrCase<"BeforeRounding", 0, "before_rounding">,
  I32EnumAttrCase<"AfterRounding", 1, "after_rounding">
]>;

def Fuse_ScaleScopeEnum : Fuse_Enum<"ScaleScope",
    "which values share a scale that is measured at run time", [
  I32EnumAttrCase<"PerToken", 0, "per_token">,
  I32EnumAttrCase<"PerTensor", 1, "per_tensor">
]>;

def Fuse_RoundingModeEnum : Fuse_Enum<"RoundingMode",
    "whether a kernel keeps every rounding of its decomposition", [
  I32EnumAttrCase<"Exact", 0, "exact">,
  I32EnumAttrCase<"Relaxed", 1, "relaxed">
]>;

def Fuse_RecipeKindEnum : Fuse_Enum<"RecipeKind",
    "how a stored weight is made of parameters", [
  I32EnumAttrCase<"Concat", 0, "concat">,
  I32EnumAttrCase<"Interleave", 1, "interleave">,
  I32EnumAttrCase<"Fold", 2, "fold">,
  I32EnumAttrCase<"Quantize", 3, "quantize">
]>;

def Fuse_ActivationAttr : Fuse_EnumAttr<Fuse_ActivationEnum, "activation">;
def Fuse_LossReductionAttr
    : Fuse_EnumAttr<Fuse_LossReductionEnum, "loss_reduction">;
def Fuse_NormCastAttr : Fuse_EnumAttr<Fuse_NormCastEnum, "norm_cast">;
def Fuse_QuantOrderAttr : Fuse_EnumAttr<Fuse_QuantOrderEnum, "quant_order">;
def Fuse_BiasPlaceAttr : Fuse_EnumAttr<Fuse_BiasPlaceEnum, "bias_place">;
def Fuse_ScaleScopeAttr : Fuse_EnumAttr<Fuse_ScaleScopeEnum, "scale_scope">;

//===----------------------------------------------------------------------===//
// Structured attributes
//===----------------------------------------------------------------------===//

class Fuse_Attr<string name, string attrMnemonic>
    : AttrDef<Fuse_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Fuse_NormAttr : Fuse_Attr<"Norm", "norm"> {
  let summary = "normalization at the head of a fused op";
  let description = [{
    Carries the attributes of the `fuse.rms_norm` or `fuse.layer_norm` that a
    fused op absorbed. Its weight and bias are operands of the fused op.

    Example: `norm(rms %w eps 1.0e-6)`,
    `norm(rms %w eps 1.0e-6 offset 1 cast after_weight)`,
    `norm(layer %w, %b eps 1.0e-5)`.
  }];
  let parameters = (ins
    EnumParameter<Fuse_NormKindEnum>:$kind,
    "::mlir::FloatAttr":$eps,
    "int64_t":$offset,
    EnumParameter<Fuse_NormCastEnum>:$cast
  );
  let assemblyFormat = [{
    `<` $kind `,` `eps` `=` $eps `,` `offset` `=` $offset `,`
    `cast` `=` $cast `>`
  }];
  let genVerifyDecl = 1;
}

def Fuse_StaticScalesAttr : Fuse_Attr<"StaticScales", "static_scales"> {
  let summary = "static quantization scales of a fused op";
  let description = [{
    The storage type of quantized activations and one named scale for every
    quantized tensor inside a fused op. Which names a fused op needs is part
    of that op's contract. `per_channel` in place of a number says that the
    scales of that weight are an operand, one f32 value per output channel.

    `form` says where the unfused chain applies the scales: `scaled` (default)
    has linear ops on quantized operands, which multiply the sum with the
    product of both scales; `qdq` has dequantize ops around linear ops on
    floating-point operands; `weight_only` dequantizes weights and quantizes
    nothing, so that there are no scales of activations and the storage type
    is that of the weights. `order` is the division order of the quantize ops.

    A scale is positive, finite, and a normal number in f32, as is its
    reciprocal.

    Example:
    `#fuse.static_scales<f8E4M3FN, input = 2.1e-2, up = 1.1e-3, hidden = 0.04,
    down = per_channel, order = divide, form = qdq>`
  }];
  let parameters = (ins
    "::mlir::Type":$storageType,
    ArrayRefParameter<"::mlir::NamedAttribute", "scales by name">:$scales,
    EnumParameter<Fuse_QuantOrderEnum>:$order,
    EnumParameter<Fuse_QuantFormEnum>:$form
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The scale called `name` rounded to f32, or nothing when it is given
    /// per channel or absent.
    std::optional<float> getScale(::llvm::StringRef name) const;
    /// The attribute stored under `name`: a FloatAttr, or a UnitAttr when the
    /// scale is given per channel, or null.
    ::mlir::Attribute lookup(::llvm::StringRef name) const;
    bool isPerChannel(::llvm::StringRef name) const;
    /// How many scales are given per channel.
    unsigned getNumPerChannel() const;

    /// The text between the angle brackets, which ops print as a clause.
    static ::mlir::Attribute parseBody(::mlir::AsmParser &parser);
    void printBody(::mlir::AsmPrinter &printer) const;
  }];
}

def Fuse_RoundingAttr : Fuse_Attr<"Rounding", "rounding"> {
  let summary = "rounding contract of a fused op";
  let description = [{
    `exact` keeps every rounding point of the decomposition: a kernel gives
    the same bits as the unfused chain on the same target, up to the order of
    the sums inside linear and norm. `relaxed` lists the rounding points that
    a kernel may skip, keeping the value in f32.

    A rounding point is an intermediate of the chain. Its element type is that
    of the fused op's input unless `types` says otherwise.

    Points: `stream` (result of the leading residual add), `normed`,
    `dequantized`, `gate`, `up`, `act`, `product`, `down` (result of the last
    linear when a residual add follows).

    `bias after_rounding` says that every linear member with a bias rounds its
    scaled sum before it adds the bias and rounds again; without it, biases are
    added before the one rounding of the member. It holds in both modes.

    Example: `rounding(exact)`, `rounding(exact types {act = f32})`,
    `rounding(exact bias after_rounding)`,
    `rounding(relaxed skip [act, product])`.
  }];
  let parameters = (ins
    EnumParameter<Fuse_RoundingModeEnum>:$mode,
    ArrayRefParameter<"::mlir::StringAttr", "skipped points">:$skip,
    ArrayRefParameter<"::mlir::NamedAttribute", "types by point">:$types,
    EnumParameter<Fuse_BiasPlaceEnum>:$biasPlace
  );
  let builders = [
    AttrBuilder<(ins "::fuse::RoundingMode":$mode,
                     "::llvm::ArrayRef<::mlir::StringAttr>":$skip,
                     "::llvm::ArrayRef<::mlir::NamedAttribute>":$types), [{
      return $_get($_ctxt, mode, skip, types, BiasPlace::BeforeRounding);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Element type of the rounding point `point`.
    ::mlir::Type getTypeOf(::llvm::StringRef point,
                           ::mlir::Type defaultType) const;
    /// Names of all rounding points, in the order of the chain.
    static ::llvm::ArrayRef<::llvm::StringLiteral> getPoints();
    static RoundingAttr getExact(::mlir::MLIRContext *context);

    /// The text between the angle brackets, which ops print as a clause.
    static ::mlir::Attribute parseBody(::mlir::AsmParser &parser);
    void printBody(::mlir::AsmPrinter &printer) const;
  }];
}

def Fuse_ProvenanceAttr : Fuse_Attr<"Provenance", "provenance"> {
  let summary = "what unfusing needs to restore the text of a chain";
  let description = [{
    Present only where the chain differed from its canonical text.

    `places[i]` is the index of member `i` (in the order of the decomposition)
    among the ops between the first and the last member, both included; it is
    empty when members stood side by side in canonical order. `before` says
    how many of the other ops in that stretch stand before the fused op.
    `commuted` names the members whose two operands stood in the other order.
    `attributes` holds the discardable attributes of each member.
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t", "position of each member">:$places,
    "int64_t":$before,
    ArrayRefParameter<"::mlir::StringAttr", "commuted members">:$commuted,
    ArrayRefParameter<"::mlir::DictionaryAttr",
                      "discardable attributes of each member">:$attributes
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isCommuted(::llvm::StringRef member) const;

    /// The text between the angle brackets, which ops print as a clause.
    static ::mlir::Attribute parseBody(::mlir::AsmParser &parser);
    void printBody(::mlir::AsmPrinter &printer) const;
  }];
}

def Fuse_RecipeAttr : Fuse_Attr<"Recipe", "recipe"> {
  let summary = "how a stored weight is made of parameters";
  let description = [{
    The name of a stored weight, and what it is made of:

    - `concat("a", "b")`: the rows of `a`, then those of `b`;
    - `interleave("a", "b" block 4)`: four rows of `a`, four of `b`, and so on;
    - `fold("w", "n" offset 1)`: column `i` of the matrix `w` times
      `1 + n[i]`, the offset of a norm being 0 unless given, one rounding to
      the type of `w`;
    - `quantize("w", f8E4M3FN scale 1.0e-3)`: `w` times the f32 reciprocal of
      the scale, clamped to the range of the type, ties to even.

    The first two are permutations of rows, so the parameters can be had back
    byte by byte, and a checkpoint in this layout need not contain them. The
    other two round; `keep` says that the parameters are stored as well. A
    recipe that rounds and does not keep can not be undone, and where a site
    would need one it is refused.

    Names are those of a checkpoint, the path of a module and the name of its
    parameter. In a `fuse.kernel`, a source is given by the position of its
    member in the chain instead: `"1:gate.weight"`.

    Example:
    `#fuse.recipe<"layers.0.mlp.gate_up" = concat("layers.0.mlp.gate.weight",
    "layers.0.mlp.up.weight")>`
  }];
  let parameters = (ins
    "::mlir::StringAttr":$name,
    EnumParameter<Fuse_RecipeKindEnum>:$kind,
    ArrayRefParameter<"::mlir::StringAttr", "names of the parameters">:$sources,
    "bool":$keep,
    "int64_t":$block,
    "int64_t":$offset,
    "::mlir::Type":$storageType,
    "::mlir::FloatAttr":$scale
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether the sources can be had back from the result.
    bool isInvertible() const;
    /// The same with another name and other sources.
    RecipeAttr withNames(::mlir::StringAttr name,
                         ::llvm::ArrayRef<::mlir::StringAttr> sources) const;
    /// Type of the result, or an error that says why there is none.
    ::llvm::FailureOr<::mlir::RankedTensorType>
    inferType(::llvm::ArrayRef<::mlir::RankedTensorType> sources,
              ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError)
        const;
  }];
}

#endif // FUSE_IR_FUSEATTRS_TD
