//===- FuseModuleOps.td - Models and their modules ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEMODULEOPS_TD
#define FUSE_IR_FUSEMODULEOPS_TD

include "FuseAttrs.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Fuse_RecipeArrayAttr
    : TypedArrayAttrBase<Fuse_RecipeAttr, "array of weight recipes">;

//===----------------------------------------------------------------------===//
// Containers
//===----------------------------------------------------------------------===//

class Fuse_ModuleOp<string mnemonic, list<Trait> traits = []>
    : Op<Fuse_Dialect, mnemonic, !listconcat([
        IsolatedFromAbove, NoTerminator, NoRegionArguments, SingleBlock, Symbol,
        SymbolTable
      ], traits)> {
  let regions = (region SizedRegion<1>:$body);
  let hasRegionVerifier = 1;
}

def Fuse_ModelOp : Fuse_ModuleOp<"model"> {
  let summary = "A neural network as a tree of modules";
  let description = [{
    The root of a module tree. Like a module it has a class name, parameters,
    children and a forward; its own name is no part of a path. It also holds
    what is said of the whole network: `fuse.fusion_pattern`, `fuse.kernel`,
    and its slots, `fuse.slot` and `fuse.slot_kernel`, which are no modules.

    The path of a module is the chain of names below the model, separated by
    dots: `model.layers.0.mlp`.

    Attributes that the passes read:

    - `fuse.must_fuse = ["model.layers.*.mlp"]`: path globs; every module that
      one of them matches must be part of a fused site;
    - `fuse.expect_sites = 36`: how many fused sites the model must have;
    - `fuse.no_fuse = ["model.layers.0.*"]`: path globs of modules that stay
      unfused.

    A model without modules is a library of patterns and kernels: its class is
    a glob of the classes of models that they are for.

    Example:

    ```mlir
    fuse.model @tiny class "TinyForCausalLM" {
      fuse.module @norm class "RMSNorm" {
        fuse.parameter @weight : tensor<8xbf16>
        func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
          %w = fuse.get_parameter @weight : tensor<8xbf16>
          %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
            : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
          return %y : tensor<?x8xbf16>
        }
      }
      func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
        %y = fuse.call_module @norm(%x)
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

def Fuse_NetModuleOp : Fuse_ModuleOp<"module", [
    ParentOneOf<["ModelOp", "NetModuleOp"]>]> {
  let summary = "A module of a neural network";
  let description = [{
    Syntax:

    ```
    operation ::= `fuse.module` $sym_name `class` $class_name
                  (`hooks` `(` $hooks^ `)`)?
                  (`tensor_parallel` `(` $tensor_parallel^ `)`)?
                  attr-dict-with-keyword $body
    ```

    Owns its parameters (`fuse.parameter`), its children (`fuse.module`, in
    their order) and at most one function, `@forward`, that says what a call
    of the module computes. A private `@forward` without a body declares the
    interface only; a module without a forward is a mere container. Numbers
    are names like any other: `@"0"`.

    Arguments of the forward may carry `fuse.name`, the name in the source
    program, and `fuse.default`, the value that a call takes when it passes
    fewer values.

    `hooks` names the hooks that the host has registered on the module, and
    `tensor_parallel` the way in which it is distributed. Fusing would bypass
    the one and break the other, so such a module is not fused.

    Example:

    ```mlir
    fuse.module @up_proj class "Linear" tensor_parallel("colwise") {
      fuse.parameter @weight : tensor<16x8xbf16>
      func.func private @forward(tensor<?x8xbf16>) -> tensor<?x16xbf16>
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrAttr:$class_name,
    OptionalAttr<StrArrayAttr>:$hooks,
    OptionalAttr<StrAttr>:$tensor_parallel
  );
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

def Fuse_ParameterOp : Op<Fuse_Dialect, "parameter", [
    ParentOneOf<["ModelOp", "NetModuleOp"]>, Symbol]> {
  let summary = "A parameter that its module owns";
  let description = [{
    Syntax:

    ```
    operation ::= `fuse.parameter` $sym_name
                  (`tied_to` `(` $tied_to^ `)`)? `:` $type attr-dict
    ```

    Its name in a checkpoint is the path of its module, a dot and its own name.
    Fusing never moves a parameter to another module.

    `tied_to` names the parameter, by its path below the model, that this one
    is another name of: the two are one tensor, which belongs to the module
    of the other. That one is not tied itself.

    Example:

    ```mlir
    fuse.parameter @weight : tensor<16x8xbf16>
    fuse.parameter @bias tied_to("embed.bias") : tensor<16xbf16>
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    OptionalAttr<StrAttr>:$tied_to,
    TypeAttrOf<AnyStaticShapeTensor>:$type
  );
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Fuse_GetParameterOp : Op<Fuse_Dialect, "get_parameter", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Value of a parameter";
  let description = [{
    Syntax:

    ```
    operation ::= `fuse.get_parameter` $parameter `:` type($value) attr-dict
    ```

    The name is relative to the module whose forward contains the op. A nested
    name (`@up_proj::@weight`) reaches a parameter of a child.

    Example: `%w = fuse.get_parameter @weight : tensor<16x8xbf16>`
  }];
  let arguments = (ins SymbolRefAttr:$parameter);
  let results = (outs AnyStaticShapeTensor:$value);
  let hasCustomAssemblyFormat = 1;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

def Fuse_CallModuleOp : Op<Fuse_Dialect, "call_module", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Call of a module's forward";
  let description = [{
    Syntax:

    ```
    operation ::= `fuse.call_module` $callee `(` $args `)` attr-dict
                  `:` functional-type(operands, results)
    ```

    The callee is named relative to the module whose forward contains the call:
    a child `@mlp` or a descendant `@layers::@"0"`. One module may be called
    many times. Trailing values may be left out when the callee has defaults
    for them.

    Data flows between modules through the values that calls take and give and
    in no other way, so a chain of modules is a chain of uses.

    Example:

    ```mlir
    %y = fuse.call_module @layers::@"0"(%x)
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```
  }];
  let arguments = (ins SymbolRefAttr:$callee, Variadic<AnyType>:$args);
  let results = (outs Variadic<AnyType>:$outputs);
  let hasCustomAssemblyFormat = 1;
}

def Fuse_FusedCallOp : Op<Fuse_Dialect, "fused_call", [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Call of a chain of modules as one kernel";
  let description = [{
    Stands in the place of the call of the first member, with the arguments of
    that call. The calls of the other members are `fuse.identity_call` ops with
    the same `site`. `sides` are the values that later members read and that no
    member makes, in the order of the identity calls.

    The results are those of the last member, then the intermediates listed in
    `also`: positions among the results of all members but the last, counted
    from the first member on.

    Members keep their parameters, names and forwards, so the meaning of the op
    is that of calling them one after the other. `body` names the function
    beside the model into which `fuse-inline-modules` has put their forwards.

    `weights` are the recipes by which the kernel's stored weights are made of
    the members' parameters. What a model and a checkpoint call a parameter
    stays what it was; docs/ModuleFusion.md says how a checkpoint is converted
    and converted back.

    Example:

    ```mlir
    %n = fuse.fused_call "gated_mlp" [@norm, @mlp] (%x) site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %y = fuse.identity_call @mlp(%n) interface [-1] site("norm+mlp#0")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```
  }];
  let arguments = (ins
    StrAttr:$kernel,
    TypedArrayAttrBase<SymbolRefAttr, "array of members">:$members,
    Variadic<AnyType>:$args,
    Variadic<AnyType>:$sides,
    OptionalAttr<DenseI64ArrayAttr>:$also,
    StrAttr:$site,
    OptionalAttr<FlatSymbolRefAttr>:$body,
    OptionalAttr<Fuse_RecipeArrayAttr>:$weights
  );
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = [{
    $kernel $members `(` $args `)` (`sides` `(` $sides^ `)`)? (`also` $also^)?
    `site` `(` $site `)` (`body` `(` $body^ `)`)? (`weights` $weights^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// Results of the last member; the other results are intermediates.
    ::mlir::ResultRange getFinalOutputs() {
      return getOutputs().drop_back(getAlso() ? getAlso()->size() : 0);
    }
  }];
}

def Fuse_IdentityCallOp : Op<Fuse_Dialect, "identity_call", [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Call of a module whose work a fused call does";
  let description = [{
    Its results are its `values`, which come from the fused call of the same
    site. `ignores` takes the other arguments that the module is called with.

    `interface` has one entry per argument of the call that this op replaces:
    `k >= 0` for the ignored value `k`, `-1 - k` for intermediate `k` of the
    chain, counted as in `also` of `fuse.fused_call`.

    Example:

    ```mlir
    %y = fuse.identity_call @mlp(%n) ignores(%mask) interface [-1, 0]
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

def Fuse_FusionPatternOp : Op<Fuse_Dialect, "fusion_pattern", [
    HasParent<"ModelOp">, Symbol]> {
  let summary = "A chain of modules that a kernel may replace";
  let description = [{
    One `(class, path)` pair per member, in the order of the chain. Class and
    path are globs, as described in docs/PathGlobs.md. `fuse-match-modules`
    fuses a declared pattern when it is asked to: by the name of the pattern or
    by the tuple of its class names.

    Example:

    ```mlir
    fuse.fusion_pattern @norm_mlp [("RMSNorm", "model.layers.*.norm"),
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

def Fuse_KernelOp : Op<Fuse_Dialect, "kernel", [
    HasParent<"ModelOp">, Symbol]> {
  let summary = "A kernel from outside that modules may be fused to";
  let description = [{
    `targets` lists what it runs on: `cpu`, or chips such as `sm_90`. With
    `returns_intermediates` the kernel can also give the results of members
    in the middle of the chain. `weights` are the stored weights that it takes
    instead of parameters; a source is `position:name`, the position of a
    member in the chain and the name of the parameter in that member.

    Example:

    ```mlir
    fuse.kernel @RMSNormMLP targets(["sm_90", "sm_100"])
        weights [#fuse.recipe<"gate_up" =
                   interleave("1:gate.weight", "1:up.weight" block 8)>]
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrArrayAttr:$targets,
    UnitAttr:$returns_intermediates,
    OptionalAttr<Fuse_RecipeArrayAttr>:$weights
  );
  let assemblyFormat = [{
    $sym_name `targets` `(` $targets `)`
    (`returns_intermediates` $returns_intermediates^)?
    (`weights` $weights^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif // FUSE_IR_FUSEMODULEOPS_TD
