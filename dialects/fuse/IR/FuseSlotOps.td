//===- FuseSlotOps.td - Slots and their kernels ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSESLOTOPS_TD
#define FUSE_IR_FUSESLOTOPS_TD

include "FuseAttrs.td"
include "FuseDialect.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

def Fuse_SlotOp : Op<Fuse_Dialect, "slot", [
    IsolatedFromAbove, NoTerminator, NoRegionArguments,
    ParentOneOf<["ModelOp", "::mlir::ModuleOp"]>, SingleBlock, Symbol,
    SymbolTable]> {
  let summary = "A place in a model that a kernel can be bound to";
  let description = [{
    Belongs to one model, or to the functions beside it, and never to the whole
    process: two models can bind their slots differently. A slot is no module
    and has no path; the forwards that use it do.

    `op` and `variant` name a function in the mathematical sense. Two kernels
    can stand for each other only within one variant, so that `w * x` and
    `(1 + w) * x` are two variants. `params` are numbers that belong to the
    function, such as `eps`.

    `@eager` is the body that defines what the slot computes. It may be left
    out for an op and variant that the registry knows, whose body is then the
    registered one. `fuse-bind-slots` adds a `fuse.bound_kernel` for each
    kernel that a call is bound to.

    Example:

    ```mlir
    fuse.slot @norm op "rms_norm" variant "standard" params {eps = 1.0e-6 : f32}
        : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16> {
      func.func @eager(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>)
          -> tensor<?x8xbf16> {
        %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
          : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
        return %y : tensor<?x8xbf16>
      }
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrAttr:$op,
    StrAttr:$variant,
    OptionalAttr<DictionaryAttr>:$params,
    TypeAttrOf<FunctionType>:$signature
  );
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `op` $op `variant` $variant (`params` $params^)? `:` $signature
    attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    /// The eager body that the slot itself has, or null.
    ::mlir::Operation *getEager();
    /// A param, or null.
    ::mlir::Attribute getParam(::llvm::StringRef name) {
      return getParams() ? getParams()->get(name) : ::mlir::Attribute();
    }
    /// `slot 'norm' (op=rms_norm, variant=standard)`.
    std::string toText();
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Fuse_CallSlotOp : Op<Fuse_Dialect, "call_slot", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Use of a slot";
  let description = [{
    The slot is looked up in the symbol tables around the call, from inside to
    outside. `bound` is what has been bound to this call: `@eager`, or a
    `fuse.bound_kernel` of the slot. Calls of one slot at different paths can
    be bound to different kernels.

    An unbound call can not be lowered; nothing falls back to the eager body
    that was not bound to it.

    Example:

    ```mlir
    %y = fuse.call_slot @norm(%x, %w) bound @fuse
      : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
    ```
  }];
  let arguments = (ins
    SymbolRefAttr:$callee,
    Variadic<AnyType>:$args,
    OptionalAttr<FlatSymbolRefAttr>:$bound
  );
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = [{
    $callee `(` $args `)` (`bound` $bound^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

class Fuse_CodeOp<string mnemonic, list<Trait> traits>
    : Op<Fuse_Dialect, mnemonic, !listconcat([
        IsolatedFromAbove, NoTerminator, NoRegionArguments, SingleBlock,
        SymbolTable
      ], traits)> {
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  code codeDeclaration = [{
    /// The function `@body`, or null when the code is in a file.
    ::mlir::Operation *getBodyFunction();
  }];
  let extraClassDeclaration = codeDeclaration;
}

def Fuse_BoundKernelOp : Fuse_CodeOp<"bound_kernel", [
    HasParent<"SlotOp">, Symbol]> {
  let summary = "A kernel that calls of a slot are bound to";
  let description = [{
    Written by `fuse-bind-slots` and removed by `fuse-unbind-slots`: the
    implementation that was chosen for the target and the mode. It has either
    a function `@body` with the signature of the slot, or `code` in a file.

    Example:

    ```mlir
    fuse.bound_kernel @fuse on <any> {
      func.func @body(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
        return %x : tensor<?x8xf32>
      }
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    Fuse_HardwareAttr:$hardware,
    OptionalAttr<Fuse_KernelModeAttr>:$mode,
    OptionalAttr<AnyAttr>:$code
  );
  let assemblyFormat = [{
    $sym_name `on` $hardware (`mode` $mode^)? (`code` $code^)?
    attr-dict-with-keyword $body
  }];
}

def Fuse_SlotKernelOp : Op<Fuse_Dialect, "slot_kernel", [
    IsolatedFromAbove, NoTerminator, NoRegionArguments,
    ParentOneOf<["ModelOp", "::mlir::ModuleOp"]>, SingleBlock]> {
  let summary = "A kernel for slots of one op and variant";
  let description = [{
    Registers a kernel: in a file of kernels for everything that the file is
    given to, beside a model for the models of that module, in a model for that
    model. The key is (op, variant, name), and a second kernel with the same
    key is an error.

    A kernel has one `fuse.implementation` or several for different hardware
    and modes. `aliases` are names it had before; binding one of them works and
    warns.

    Example:

    ```mlir
    fuse.slot_kernel "mine" op "rms_norm" variant "standard"
        description "One warp per row" {
      fuse.implementation on <gpu from 80> mode <inference>
        code #fuse.gpu_code<format = ptx, file = "rms_norm.ptx",
          entry = "rms_norm", grid = affine_map<()[s0] -> (s0, 1, 1)>,
          block = [32, 1, 1], sizes = [[0, 0]],
          args = ["arg0", "arg1", "result0"]> {}
    }
    ```
  }];
  let arguments = (ins
    StrAttr:$name,
    StrAttr:$op,
    StrAttr:$variant,
    OptionalAttr<StrAttr>:$description,
    OptionalAttr<StrArrayAttr>:$aliases
  );
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name `op` $op `variant` $variant (`description` $description^)?
    (`aliases` $aliases^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Fuse_ImplementationOp : Fuse_CodeOp<"implementation", [
    HasParent<"SlotKernelOp">]> {
  let summary = "A kernel's code for some hardware and some modes";
  let description = [{
    `mode` is `inference` or `training`, either with `|compile`, and `any` when
    left out. It has either a function `@body` that is lowered with the rest of
    the program, or `code`: `#fuse.gpu_code` or `#fuse.host_code`.

    Example:

    ```mlir
    fuse.implementation on <cpu> {
      func.func @body(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
        return %x : tensor<?x8xf32>
      }
    }
    ```
  }];
  let arguments = (ins
    Fuse_HardwareAttr:$hardware,
    OptionalAttr<Fuse_KernelModeAttr>:$mode,
    OptionalAttr<AnyAttr>:$code
  );
  let assemblyFormat = [{
    `on` $hardware (`mode` $mode^)? (`code` $code^)?
    attr-dict-with-keyword $body
  }];
}

#endif // FUSE_IR_FUSESLOTOPS_TD
