//===- FuseAttrs.td - Attributes of the fuse dialect -------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEATTRS_TD
#define FUSE_IR_FUSEATTRS_TD

include "fuse/IR/FuseDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
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
    "how the losses of all rows are reduced", [
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
    "which values share a dynamic scale", [
  I32EnumAttrCase<"PerToken", 0, "per_token">,
  I32EnumAttrCase<"PerTensor", 1, "per_tensor">,
  I32EnumAttrCase<"PerGroup", 2, "per_group">,
  I32EnumAttrCase<"None", 3, "none">
]>;

def Fuse_ScaleGranularityEnum : Fuse_Enum<"ScaleGranularity",
    "which elements of a weight share a scale", [
  I32EnumAttrCase<"Tensor", 0, "tensor">,
  I32EnumAttrCase<"Channel", 1, "channel">,
  I32EnumAttrCase<"Block", 2, "block">,
  I32EnumAttrCase<"Group", 3, "group">
]>;

def Fuse_TensorScaleEnum : Fuse_Enum<"TensorScale",
    "how a scale of a whole weight changes those of its groups", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Multiply", 1, "multiply">,
  I32EnumAttrCase<"Divide", 2, "divide">
]>;

def Fuse_ScaleFloorEnum : Fuse_Enum<"ScaleFloor",
    "quantity that a dynamic scale bounds from below", [
  I32EnumAttrCase<"Scale", 0, "scale">,
  I32EnumAttrCase<"AMax", 1, "amax">
]>;

def Fuse_RoundingModeEnum : Fuse_Enum<"RoundingMode",
    "whether a kernel keeps every rounding of its decomposition", [
  I32EnumAttrCase<"Exact", 0, "exact">,
  I32EnumAttrCase<"Relaxed", 1, "relaxed">
]>;

def Fuse_RoundingPointEnum : Fuse_Enum<"RoundingPoint",
    "intermediate of a chain that is rounded", [
  I32EnumAttrCase<"Stream", 0, "stream">,
  I32EnumAttrCase<"Normed", 1, "normed">,
  I32EnumAttrCase<"Dequantized", 2, "dequantized">,
  I32EnumAttrCase<"Gate", 3, "gate">,
  I32EnumAttrCase<"Up", 4, "up">,
  I32EnumAttrCase<"Act", 5, "act">,
  I32EnumAttrCase<"Product", 6, "product">,
  I32EnumAttrCase<"Down", 7, "down">
]>;

def Fuse_ScaleKindEnum : Fuse_Enum<"ScaleKind",
    "quantized tensor inside a fused op", [
  I32EnumAttrCase<"Input", 0, "input">,
  I32EnumAttrCase<"Gate", 1, "gate">,
  I32EnumAttrCase<"Up", 2, "up">,
  I32EnumAttrCase<"Hidden", 3, "hidden">,
  I32EnumAttrCase<"Down", 4, "down">,
  I32EnumAttrCase<"Weight", 5, "weight">
]>;

def Fuse_ChainMemberEnum : Fuse_Enum<"ChainMember",
    "role of a layer op in the chain of a fused op", [
  I32EnumAttrCase<"Residual", 0, "residual">,
  I32EnumAttrCase<"Norm", 1, "norm">,
  I32EnumAttrCase<"QuantizeInput", 2, "quantize_input">,
  I32EnumAttrCase<"DequantizeInput", 3, "dequantize_input">,
  I32EnumAttrCase<"DequantizeGate", 4, "dequantize_gate">,
  I32EnumAttrCase<"Gate", 5, "gate">,
  I32EnumAttrCase<"Act", 6, "act">,
  I32EnumAttrCase<"DequantizeUp", 7, "dequantize_up">,
  I32EnumAttrCase<"Up", 8, "up">,
  I32EnumAttrCase<"Product", 9, "product">,
  I32EnumAttrCase<"QuantizeHidden", 10, "quantize_hidden">,
  I32EnumAttrCase<"DequantizeHidden", 11, "dequantize_hidden">,
  I32EnumAttrCase<"DequantizeDown", 12, "dequantize_down">,
  I32EnumAttrCase<"Down", 13, "down">,
  I32EnumAttrCase<"ThenAdd", 14, "then_add">,
  I32EnumAttrCase<"DequantizeWeight", 15, "dequantize_weight">,
  I32EnumAttrCase<"Linear", 16, "linear">,
  I32EnumAttrCase<"Grouped", 17, "member">
]>;

def Fuse_KernelFamilyEnum : Fuse_Enum<"KernelFamily",
    "fused op that a kernel is generated from", [
  I32EnumAttrCase<"GatedMLP", 0, "gated_mlp">,
  I32EnumAttrCase<"MLP", 1, "mlp">,
  I32EnumAttrCase<"NormLinear", 2, "norm_linear">,
  I32EnumAttrCase<"NormQuantize", 3, "norm_quantize">,
  I32EnumAttrCase<"ActQuantize", 4, "act_quantize">,
  I32EnumAttrCase<"Group", 5, "group">,
  I32EnumAttrCase<"FusedLinear", 6, "fused_linear">
]>;

def Fuse_TPKindEnum : Fuse_Enum<"TPKind",
    "how a linear map is distributed over ranks", [
  I32EnumAttrCase<"Colwise", 0, "colwise">,
  I32EnumAttrCase<"Rowwise", 1, "rowwise">,
  I32EnumAttrCase<"Unknown", 2, "unknown">
]>;

def Fuse_ActivationAttr : Fuse_EnumAttr<Fuse_ActivationEnum, "activation">;
def Fuse_LossReductionAttr
    : Fuse_EnumAttr<Fuse_LossReductionEnum, "loss_reduction">;
def Fuse_NormCastAttr : Fuse_EnumAttr<Fuse_NormCastEnum, "norm_cast">;
def Fuse_QuantOrderAttr : Fuse_EnumAttr<Fuse_QuantOrderEnum, "quant_order">;
def Fuse_BiasPlaceAttr : Fuse_EnumAttr<Fuse_BiasPlaceEnum, "bias_place">;
def Fuse_ScaleScopeAttr : Fuse_EnumAttr<Fuse_ScaleScopeEnum, "scale_scope">;
def Fuse_RoundingPointAttr
    : Fuse_EnumAttr<Fuse_RoundingPointEnum, "rounding_point">;
def Fuse_RoundingPointArrayAttr
    : TypedArrayAttrBase<Fuse_RoundingPointAttr, "array of rounding points">;
def Fuse_KernelFamilyAttr
    : Fuse_EnumAttr<Fuse_KernelFamilyEnum, "kernel_family">;

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
    The attributes of the `fuse.rms_norm` or `fuse.layer_norm` in a fused op.
    Weight and bias of the norm are operands of the fused op.

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
    quantized tensor inside a fused op. The names are `input`, `gate`, `up`,
    `hidden` and `down`, and `weight0`, `weight1`, ... for the weights of
    `fuse.norm_linear` and `fuse.fused_linear`. Each fused op documents the
    names that it requires. `per_channel` instead of a number means that the
    scales of that weight are an operand with one f32 value per output channel.

    `form` describes where the unfused chain applies the scales:

    - `scaled` (default): linear ops have quantized operands and multiply the
      sum by the product of both scales;
    - `qdq`: linear ops have floating-point operands from dequantize ops;
    - `weight_only`: only weights are dequantized. There are no scales of
      activations, and the storage type is that of the weights.

    `order` is the division order of the quantize ops.

    A scale is positive and finite. The scale and its reciprocal are normal
    numbers in f32.

    Example:
    `#fuse.static_scales<f8E4M3FN, input = 2.1e-2, up = 1.1e-3, hidden = 0.04,
    down = per_channel, order = divide, form = qdq>`
  }];
  let parameters = (ins
    "::mlir::Type":$storageType,
    ArrayRefParameter<"::fuse::NamedScale", "scales by name">:$scales,
    EnumParameter<Fuse_QuantOrderEnum>:$order,
    EnumParameter<Fuse_QuantFormEnum>:$form
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The scale called `name` rounded to f32, or nothing when it is given
    /// per channel or absent.
    std::optional<float> getScale(ScaleName name) const;
    /// The scale called `name`, or null when it is given per channel or absent.
    ::mlir::FloatAttr lookup(ScaleName name) const;
    /// Whether there is a scale called `name`, as a number or per channel.
    bool contains(ScaleName name) const;
    bool isPerChannel(ScaleName name) const {
      return contains(name) && !lookup(name);
    }
    /// Number of scales given per channel.
    unsigned getNumPerChannel() const;

    /// The text between the angle brackets, which ops print as a clause.
    static ::mlir::Attribute parseBody(::mlir::AsmParser &parser);
    void printBody(::mlir::AsmPrinter &printer) const;
  }];
}

def Fuse_QuantAttr : Fuse_Attr<"Quant", "quant"> {
  let summary = "arithmetic of one quantized format";
  let description = [{
    What implementations of one quantized format do differently. An op reads
    the parts that concern it: `fuse.dynamic_quantize` those of activations,
    `fuse.linear` those of weights and sums, `fuse.dequantize_weight` those of
    weights of 4 bits. All members of a chain have one such attribute. Scales
    are operands, in f32 except for those of `group`.

    - `weights`: `tensor`, `channel` (one scale per output) or `block<RxC>`,
      one scale per R outputs and C inputs. `block<1xC>` is a group of inputs of
      one output. The last block may be smaller;
    - `activations`: `per_tensor`, `per_token` or `per_group<C>`, one scale per
      C consecutive features of a token, or `none` with weights of 4 bits;
    - `floor`: the lower limit of the scale, or of the largest magnitude
      (`amax`), which avoids a division by zero. Default: `scale<2^-64>`;
    - `upper`: the upper limit of the largest magnitude, or none;
    - `scale_op`: whether the largest magnitude is divided by the largest code
      `L` (`divide`, the default) or multiplied by `1 / L` in f32
      (`reciprocal`);
    - `order`: whether values are multiplied by the reciprocal of the scale
      (`reciprocal`, the default) or divided by it (`divide`);
    - `sums`: `whole`, or `block<C>`: the sum of C consecutive products is
      multiplied by the product of its two scales and added to an f32 sum in
      one rounding, in ascending order.

    With `L` the largest finite code, all in f32:

    ```
    m = min(max(amax, floor), upper)      // max only with floor = amax
    s = max(m / L, floor)                 // max only with floor = scale
    q = saturate(round(x * (1 / s)))
    y = fma(s_x * s_w, sum of block, y)   // for each block, ascending
    ```

    Weights of 4 bits are f4E2M1FN, i4 or ui4, and have these fields:

    - `weights = group<C, T>`: one scale of type T per C consecutive inputs of
      an output. T is f32, bf16, f16, f8E4M3FN or f8E8M0FNU;
    - `zero_points`: with ui4, the code of zero: a number, or `group` for an
      operand with one code per group;
    - `tensor_scale`: `multiply` or `divide` by one f32 operand.

    A weight of [N, K] is `tensor<N x K/2 x i8>`. A byte has two codes, that of
    the even input in its low bits. Scales in f8E8M0FNU are their bytes in i8,
    and zero points have a byte each. With code `c`, zero point `z`, scale `s`
    of the group and `t` of the tensor, all in f32:

    ```
    w = (c - z) * s          // without tensor_scale
    w = c * (s * t)          // multiply; s / t with divide
    ```

    `w` is rounded to the type of the activations; products are those of
    `fuse.linear`.

    Rounding points between members are those of `#fuse.rounding`; a quantizer
    that reads an unrounded f32 product has `types {product = f32}` there.
    Static scales are numbers in code and stay in `#fuse.static_scales`.

    Example: `#fuse.quant<f8E4M3FN, weights = block<128x128>,
    activations = per_group<128>, floor = amax<1.0e-4>, scale_op = reciprocal,
    sums = block<128>>`,
    `#fuse.quant<f4E2M1FN, weights = group<32, f8E8M0FNU>, activations = none>`,
    `#fuse.quant<ui4, weights = group<128, f16>, zero_points = group,
    activations = none>`
  }];
  let parameters = (ins
    "::mlir::Type":$storageType,
    EnumParameter<Fuse_ScaleGranularityEnum>:$weights,
    "int64_t":$blockRows,
    "int64_t":$blockColumns,
    EnumParameter<Fuse_ScaleScopeEnum>:$activations,
    "int64_t":$groupSize,
    EnumParameter<Fuse_ScaleFloorEnum>:$floorKind,
    "::mlir::FloatAttr":$floor,
    OptionalParameter<"::mlir::FloatAttr">:$upper,
    EnumParameter<Fuse_QuantOrderEnum>:$scaleOp,
    EnumParameter<Fuse_QuantOrderEnum>:$order,
    "int64_t":$sumLength,
    OptionalParameter<"::mlir::Type">:$scaleType,
    OptionalParameter<"::std::optional<int64_t>">:$zeroPoint,
    "bool":$hasGroupZeros,
    EnumParameter<Fuse_TensorScaleEnum>:$tensorScale
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether sums are scaled block by block.
    bool hasBlockSums() const { return getSumLength() != 0; }
    /// Whether weights are packed codes of 4 bits, which are dequantized.
    bool isPacked() const {
      return getWeights() == ScaleGranularity::Group;
    }
    /// The element type of the operand with the scales of a weight.
    ::mlir::Type getScaleOperandType() const;
    /// Number of operands with the scales of one weight: those of its parts,
    /// its zero points and its tensor scale.
    unsigned getNumScaleOperands() const;
    /// Shape of the scales of an [out, in] weight.
    ::llvm::SmallVector<int64_t> getWeightScaleShape(int64_t out,
                                                     int64_t in) const;
    /// Shape of the scales of an activation.
    ::llvm::SmallVector<int64_t>
    getInputScaleShape(::llvm::ArrayRef<int64_t> shape) const;

    /// The text between the angle brackets, which ops print as a clause.
    static ::mlir::Attribute parseBody(::mlir::AsmParser &parser);
    void printBody(::mlir::AsmPrinter &printer) const;
  }];
}

def Fuse_RoundingAttr : Fuse_Attr<"Rounding", "rounding"> {
  let summary = "rounding contract of a fused op";
  let description = [{
    `exact` keeps every rounding point of the decomposition: a kernel returns
    the same bits as the unfused chain on the same target, except for the order
    of the sums in linears and norms. `relaxed` lists the rounding points that a
    kernel may skip, keeping the value in f32.

    A rounding point is an intermediate of the chain. Its element type is given
    by `types`, and otherwise that of the fused op's input.

    Points: `stream` (result of the leading residual add), `normed`,
    `dequantized`, `gate`, `up`, `act`, `product`, `down` (result of the last
    linear if a residual add follows).

    With `bias after_rounding`, every linear member with a bias rounds its
    scaled sum, adds the bias and rounds again. Without it, biases are added
    before the only rounding of the member. It applies in both modes.

    Example: `rounding(exact)`, `rounding(exact types {act = f32})`,
    `rounding(exact bias after_rounding)`,
    `rounding(relaxed skip [act, product])`.
  }];
  let parameters = (ins
    EnumParameter<Fuse_RoundingModeEnum>:$mode,
    ArrayRefParameter<"::fuse::RoundingPoint", "skipped points">:$skip,
    ArrayRefParameter<"::fuse::RoundedType", "types by point">:$types,
    EnumParameter<Fuse_BiasPlaceEnum>:$biasPlace
  );
  let builders = [
    AttrBuilder<(ins "::fuse::RoundingMode":$mode,
                     "::llvm::ArrayRef<::fuse::RoundingPoint>":$skip,
                     "::llvm::ArrayRef<::fuse::RoundedType>":$types), [{
      return $_get($_ctxt, mode, skip, types, BiasPlace::BeforeRounding);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Element type of the rounding point `point`.
    ::mlir::Type getTypeOf(RoundingPoint point,
                           ::mlir::Type defaultType) const;
    /// Whether a kernel may keep the value at `point` in f32.
    bool skips(RoundingPoint point) const {
      return ::llvm::is_contained(getSkip(), point);
    }
    static RoundingAttr getExact(::mlir::MLIRContext *context);

    /// The text between the angle brackets, which ops print as a clause.
    static ::mlir::Attribute parseBody(::mlir::AsmParser &parser);
    void printBody(::mlir::AsmPrinter &printer) const;
  }];
}

def Fuse_ProvenanceAttr : Fuse_Attr<"Provenance", "provenance"> {
  let summary = "data from which unfusing restores the text of a chain";
  let description = [{
    Present only if the chain differed from its canonical text.

    `places[i]` is the index of member `i` (in the order of the decomposition)
    among the ops from the first to the last member. It is empty if the members
    were adjacent and in canonical order. `before` is the number of other ops in
    that range before the fused op. `commuted` names the members whose two
    operands were in the other order. `attributes` has the discardable
    attributes of each member.
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t", "position of each member">:$places,
    "int64_t":$before,
    ArrayRefParameter<"::fuse::ChainMember", "commuted members">:$commuted,
    ArrayRefParameter<"::mlir::DictionaryAttr",
                      "discardable attributes of each member">:$attributes
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isCommuted(ChainMember member) const {
      return ::llvm::is_contained(getCommuted(), member);
    }

    /// The text between the angle brackets, which ops print as a clause.
    static ::mlir::Attribute parseBody(::mlir::AsmParser &parser);
    void printBody(::mlir::AsmPrinter &printer) const;
  }];
}

def Fuse_MemberParameterAttr
    : Fuse_Attr<"MemberParameter", "member_parameter"> {
  let summary = "parameter of a member of a chain";
  let description = [{
    The position of a member in a chain and the path of a parameter below this
    member. `nn.kernel` names parameters of modules that it does not know.

    Example: `#fuse.member_parameter<1, "gate.weight">`, written
    `"1:gate.weight"` in a recipe.
  }];
  let parameters = (ins
    "unsigned":$position,
    "::mlir::StringAttr":$path
  );
  let assemblyFormat = "`<` $position `,` $path `>`";
  let extraClassDeclaration = [{
    /// Parses `1:gate.weight`. Returns null for another text.
    static MemberParameterAttr fromText(::mlir::MLIRContext *context,
                                        ::llvm::StringRef text);
    std::string toText() const;
  }];
}

def Fuse_TPAttr : Fuse_Attr<"TP", "tp"> {
  let summary = "tensor parallelism of a linear map";
  let description = [{
    How a module is distributed over `size` ranks along an axis of a device
    mesh:

    - `colwise`: a rank has consecutive outputs. The input is the same on all
      ranks, so there is no communication;
    - `rowwise`: a rank has consecutive inputs. Its result is a partial sum, and
      the result of the module is the sum over the ranks, with the bias added
      once, after the sum;
    - `unknown`: a plan that an IR of version 2 names by a string, which is the
      axis here. The size is 1. Members with such a plan are not fused.

    Example: `#fuse.tp<kind = colwise, axis = "tp", size = 4>`
  }];
  let parameters = (ins
    EnumParameter<Fuse_TPKindEnum>:$kind,
    "::mlir::StringAttr":$axis,
    "int64_t":$size
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Fuse_ShardAttr : Fuse_Attr<"Shard", "shard"> {
  let summary = "distribution of a tensor over ranks";
  let description = [{
    Cuts dimension `dim` of a tensor into `count` equal, consecutive parts, one
    per rank along an axis of a device mesh. Rank `r` has part `r`. The text has
    the type of the whole tensor until `fuse-localize-shards`, so one text
    describes all ranks.

    With `pieces`, the dimension consists of equal pieces which are cut one by
    one, and a rank has its part of each. This is a stored weight that
    concatenates parameters: the parameters are cut first.

    Example: `#fuse.shard<dim = 0, axis = "tp", count = 4>`,
    `#fuse.shard<dim = 0, axis = "tp", count = 4, pieces = 2>`
  }];
  let parameters = (ins
    "int64_t":$dim,
    "::mlir::StringAttr":$axis,
    "int64_t":$count,
    DefaultValuedParameter<"int64_t", "1">:$pieces
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Type of a part of a tensor of type `whole`. Emits an error if it cannot
    /// be cut into equal parts.
    ::llvm::FailureOr<::mlir::RankedTensorType>
    getLocalType(::mlir::RankedTensorType whole,
                 ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError)
        const;
    /// Type of the whole tensor that has parts of type `local`.
    ::mlir::RankedTensorType
    getWholeType(::mlir::RankedTensorType local) const;
  }];
}

#endif // FUSE_IR_FUSEATTRS_TD
