//===- NNModuleOps.td - Models and their modules -----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNMODULEOPS_TD
#define NN_IR_NNMODULEOPS_TD

include "fuse/IR/FuseAttrs.td"
include "nn/IR/NNAttrs.td"
include "nn/IR/NNCalls.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def NN_RecipeArrayAttr
    : TypedArrayAttrBase<NN_RecipeAttr, "array of weight recipes">;

def NN_KernelReferenceAttr
    : AnyAttrOf<[Fuse_KernelFamilyAttr, FlatSymbolRefAttr],
                "kernel family or declared kernel">;

//===----------------------------------------------------------------------===//
// Containers
//===----------------------------------------------------------------------===//

class NN_ModuleOp<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, !listconcat([
        IsolatedFromAbove, NoTerminator, NoRegionArguments, SingleBlock, Symbol,
        SymbolTable
      ], traits)> {
  let regions = (region SizedRegion<1>:$body);
  let hasRegionVerifier = 1;
}

def NN_ModelOp : NN_ModuleOp<"model"> {
  let summary = "A neural network as a tree of modules";
  let description = [{
    The root of a module tree. Like a module, it has a class name, parameters,
    children and a forward, but its name is not part of paths. It also contains
    the declarations for the whole network: `nn.fusion_pattern`,
    `nn.kernel`, `nn.slot` and `nn.slot_kernel`.

    The path of a module consists of the names below the model, separated by
    dots: `model.layers.0.mlp`.

    Passes read these attributes:

    - `fuse.must_fuse = ["model.layers.*.mlp"]`: path globs; every matching
      module must be part of a fused site;
    - `fuse.expect_sites = 36`: the required number of fused sites;
    - `fuse.no_fuse = ["model.layers.0.*"]`: path globs of modules that stay
      unfused.

    A model without modules is a library of patterns and kernels. Its class is
    a glob that selects models by their class.

    Example:

    ```mlir
    nn.model @tiny class "TinyForCausalLM" {
      nn.module @norm class "RMSNorm" {
        nn.parameter @weight : tensor<8xbf16>
        func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
          %w = nn.get_parameter @weight : tensor<8xbf16>
          %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
            : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
          return %y : tensor<?x8xbf16>
        }
      }
      func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
        %y = nn.call_module @norm(%x)
          : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
        return %y : tensor<?x8xbf16>
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$class_name);
  let assemblyFormat = [{
    $sym_name `class` $class_name attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def NN_NetModuleOp : NN_ModuleOp<"module", [
    ParentOneOf<["ModelOp", "NetModuleOp"]>]> {
  let summary = "A module of a neural network";
  let description = [{
    Syntax:

    ```
    operation ::= `nn.module` $sym_name `class` $class_name
                  (`hooks` `(` $hooks^ `)`)?
                  (`tensor_parallel` `(` $tensor_parallel^ `)`)?
                  attr-dict-with-keyword $body
    ```

    Contains its parameters (`nn.parameter`), its children (`nn.module`, in
    order) and at most one function, `@forward`, which a call of the module
    runs. A private `@forward` without a body only declares the interface. A
    module without a forward is a container. Names can be numbers: `@"0"`.

    Calls name the module, so parsing adds a reference to a private forward, the
    attribute `nn.forward`. Passes that erase private symbols without uses
    therefore keep it. The attribute is not printed.

    Arguments of the forward can have the attributes `fuse.name`, the name in
    the source program, and `fuse.default`, the value for calls that omit the
    argument.

    `hooks` lists the hooks registered on the module. A module with hooks is
    not fused, because a kernel would bypass them.

    `tensor_parallel` states how the module is distributed over ranks. The
    forward computes the whole result all the same. Parameters of the module
    have a `shard` that agrees: dimension 0 of weight and bias of a colwise
    module, dimension 1 of the weight of a rowwise one. An axis has one size in
    a model.

    Example:

    ```mlir
    nn.module @up_proj class "Linear"
        tensor_parallel(<kind = colwise, axis = "tp", size = 4>) {
      nn.parameter @weight shard(<dim = 0, axis = "tp", count = 4>)
        : tensor<16x8xbf16>
      func.func private @forward(tensor<?x8xbf16>) -> tensor<?x16xbf16>
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrAttr:$class_name,
    OptionalAttr<StrArrayAttr>:$hooks,
    OptionalAttr<Fuse_TPAttr>:$tensor_parallel
  );
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

def NN_ParameterOp : Op<NN_Dialect, "parameter", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    ParentOneOf<["ModelOp", "NetModuleOp"]>, Symbol]> {
  let summary = "A parameter of a module";
  let description = [{
    Syntax:

    ```
    operation ::= `nn.parameter` $sym_name
                  (`tied_to` `(` $tied_to^ `)`)?
                  (`shard` `(` $shard^ `)`)? `:` $type attr-dict
    ```

    Its name in a checkpoint is the path of its module, a dot and its own name.
    Fusion never moves a parameter to another module.

    A parameter with `tied_to` is an alias of another parameter, a symbol
    relative to the model. Both are one tensor, which belongs to the other
    parameter's module. The other parameter must not be tied itself.

    `shard` states how the ranks of tensor parallelism share the parameter. Its
    type is that of the whole parameter.

    Example:

    ```mlir
    nn.parameter @weight : tensor<16x8xbf16>
    nn.parameter @bias tied_to(@embed::@bias) : tensor<16xbf16>
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    OptionalAttr<SymbolRefAttr>:$tied_to,
    OptionalAttr<Fuse_ShardAttr>:$shard,
    TypeAttrOf<AnyStaticShapeTensor>:$type
  );
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def NN_GetParameterOp : Op<NN_Dialect, "get_parameter", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Value of a parameter";
  let description = [{
    Syntax:

    ```
    operation ::= `nn.get_parameter` $parameter `:` type($value) attr-dict
    ```

    The name is relative to the module whose forward contains the op. A nested
    name (`@up_proj::@weight`) reaches a parameter of a child.

    Example: `%w = nn.get_parameter @weight : tensor<16x8xbf16>`
  }];
  let arguments = (ins SymbolRefAttr:$parameter);
  let results = (outs AnyStaticShapeTensor:$value);
  let hasCustomAssemblyFormat = 1;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

def NN_CallModuleOp : NN_CallOp<"call_module"> {
  let summary = "Call of a module's forward";
  let description = [{
    Syntax:

    ```
    operation ::= `nn.call_module` $callee `(` $args `)` attr-dict
                  `:` functional-type(operands, results)
    ```

    The callee is named relative to the module whose forward contains the call:
    a child `@mlp` or a descendant `@layers::@"0"`. A module can be called many
    times. A call can omit trailing arguments for which the callee has defaults.

    Data flows between modules only through operands and results of calls, so a
    chain of modules is a chain of uses. `--inline` keeps the calls, because
    later passes select modules by them; `fuse-flatten-models` inlines all.

    Example:

    ```mlir
    %y = nn.call_module @layers::@"0"(%x)
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```
  }];
  let arguments = (ins SymbolRefAttr:$callee, Variadic<AnyType>:$args);
  let results = (outs Variadic<AnyType>:$outputs);
  let hasCustomAssemblyFormat = 1;
}

def NN_FusedCallOp : Op<NN_Dialect, "fused_call", [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Call of a chain of modules as one kernel";
  let description = [{
    Replaces the call of the first member and has its arguments. The calls of
    the other members are `nn.identity_call` ops with the same `site`. `sides`
    are the values that later members read from outside of the chain, in the
    order of the identity calls.

    The results are those of the last member, followed by the intermediates in
    `also`. These are indices into the concatenated results of all members but
    the last.

    Members keep their parameters, names and forwards. The op means calling them
    one after the other. `body` names the function next to the model into which
    `fuse-inline-modules` inlined their forwards.

    The kernel is a family of fused ops, or an `nn.kernel` of the model or of
    a library. `weights` are the recipes that compute the kernel's stored
    weights from the members' parameters. The names of parameters in the model
    and in checkpoints do not change.

    Example:

    ```mlir
    %n = nn.fused_call gated_mlp [@norm, @mlp] (%x) site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %y = nn.identity_call @mlp(%n) interface [-1] site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```
  }];
  let arguments = (ins
    NN_KernelReferenceAttr:$kernel,
    TypedArrayAttrBase<SymbolRefAttr, "array of members">:$members,
    Variadic<AnyType>:$args,
    Variadic<AnyType>:$sides,
    OptionalAttr<DenseI64ArrayAttr>:$also,
    StrAttr:$site,
    OptionalAttr<FlatSymbolRefAttr>:$body,
    OptionalAttr<NN_RecipeArrayAttr>:$weights
  );
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = [{
    custom<Kernel>($kernel) $members `(` $args `)`
    (`sides` `(` $sides^ `)`)? (`also` $also^)?
    `site` `(` $site `)` (`body` `(` $body^ `)`)? (`weights` $weights^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// The family of a generated kernel, or nothing for a declared one.
    std::optional<KernelFamily> getFamily();
    /// Name of the family or of the declared kernel.
    ::llvm::StringRef getKernelName();
    /// Results of the last member; the other results are intermediates.
    ::mlir::ResultRange getFinalOutputs() {
      return getOutputs().drop_back(getAlso() ? getAlso()->size() : 0);
    }
  }];
}

def NN_IdentityCallOp : Op<NN_Dialect, "identity_call", [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>, InferTypeOpAdaptor]> {
  let summary = "Call of a module that is part of a fused call";
  let description = [{
    Returns its `values`, which come from the fused call of the same site.
    `ignores` lists the arguments of the replaced call that come from outside of
    the chain.

    `interface` has one entry per argument of the replaced call: `k >= 0` for
    ignored value `k`, `-1 - k` for intermediate `k` of the chain, counted as in
    `also` of `nn.fused_call`.

    Example:

    ```mlir
    %y = nn.identity_call @mlp(%n) ignores(%mask) interface [-1, 0]
           site("norm+mlp#0")
      : (tensor<?x8xbf16>, tensor<?xi1>) -> tensor<?x8xbf16>
    ```
  }];
  let arguments = (ins
    SymbolRefAttr:$callee,
    Variadic<AnyType>:$values,
    Variadic<AnyType>:$ignored,
    DenseI64ArrayAttr:$interface,
    StrAttr:$site
  );
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = [{
    $callee `(` $values `)` (`ignores` `(` $ignored^ `)`)?
    `interface` $interface `site` `(` $site `)`
    attr-dict `:` functional-type(operands, results)
  }];
}

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

def NN_FusionPatternOp : Op<NN_Dialect, "fusion_pattern", [
    HasParent<"ModelOp">, Symbol]> {
  let summary = "A chain of modules that a kernel can replace";
  let description = [{
    One `(class, path)` pair per member, in the order of the chain. Class and
    path are globs. `fuse-match-modules` fuses a declared pattern only if its
    options refer to it, by its name or by the tuple of its class names.

    Example:

    ```mlir
    nn.fusion_pattern @norm_mlp [("RMSNorm", "model.layers.*.norm"),
                                   ("MLP", "model.layers.*.mlp")]
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrArrayAttr:$classes,
    StrArrayAttr:$paths
  );
  let assemblyFormat = [{
    $sym_name custom<PatternMembers>($classes, $paths) attr-dict
  }];
  let hasVerifier = 1;
}

def NN_KernelOp : Op<NN_Dialect, "kernel", [
    HasParent<"ModelOp">, Symbol]> {
  let summary = "A declared kernel that replaces chains of modules";
  let description = [{
    Declares a kernel that the compiler does not generate. `targets` lists the
    supported targets: `cpu`, or chips such as `sm_90`. With
    `returns_intermediates`, the kernel can also return the results of members
    before the last. `weights` are the stored weights that it reads instead of
    parameters. A source is `position:name`: the position of a member in the
    chain and the name of the parameter in that member.

    Example:

    ```mlir
    nn.kernel @RMSNormMLP targets(["sm_90", "sm_100"])
        weights [#nn.recipe<"gate_up" =
                   interleave("1:gate.weight", "1:up.weight" block 8)>]
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrArrayAttr:$targets,
    UnitAttr:$returns_intermediates,
    OptionalAttr<NN_RecipeArrayAttr>:$weights
  );
  let assemblyFormat = [{
    $sym_name `targets` `(` $targets `)`
    (`returns_intermediates` $returns_intermediates^)?
    (`weights` $weights^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif // NN_IR_NNMODULEOPS_TD
