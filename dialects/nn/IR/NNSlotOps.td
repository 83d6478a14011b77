//===- NNSlotOps.td - Slots and their kernels --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNSLOTOPS_TD
#define NN_IR_NNSLOTOPS_TD

include "nn/IR/NNAttrs.td"
include "nn/IR/NNCalls.td"
include "nn/IR/NNDialect.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

def NN_SlotOp : Op<NN_Dialect, "slot", [
    IsolatedFromAbove, NoTerminator, NoRegionArguments,
    ParentOneOf<["ModelOp", "::mlir::ModuleOp"]>, SingleBlock, Symbol,
    SymbolTable]> {
  let summary = "A place in a model that a kernel can be bound to";
  let description = [{
    Belongs to one model, or to the functions next to it, never to the whole
    process: two models can bind their slots differently. A slot is not a module
    and has no path; the forwards that use it have paths.

    `op` and `variant` name a mathematical function. All kernels of one variant
    compute the same function, so `w * x` and `(1 + w) * x` are two variants.
    `params` are constants of the function, such as `eps`.

    The body `@eager` defines the function. It is optional if the op and variant
    are registered; the registered body is used then. `fuse-bind-slots` adds one
    `nn.bound_kernel` for each kernel to which a call is bound.

    Example:

    ```mlir
    nn.slot @norm op "rms_norm" variant "standard" params {eps = 1.0e-6 : f32}
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
    /// The eager body in this slot, or null.
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

def NN_CallSlotOp : NN_CallOp<"call_slot"> {
  let summary = "Use of a slot";
  let description = [{
    The slot is looked up in the symbol tables around the call, innermost first.
    `bound` names the implementation of this call: `@eager`, or a
    `nn.bound_kernel` of the slot. Calls of one slot at different paths can be
    bound to different kernels.

    An unbound call cannot be lowered. There is no implicit fallback to the
    eager body. `--inline` keeps the calls; `fuse-lower-slots` replaces them.

    Example:

    ```mlir
    %y = nn.call_slot @norm(%x, %w) bound @fuse
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

class NN_CodeOp<string mnemonic, list<Trait> traits>
    : Op<NN_Dialect, mnemonic, !listconcat([
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

def NN_BoundKernelOp : NN_CodeOp<"bound_kernel", [
    HasParent<"SlotOp">, Symbol]> {
  let summary = "A kernel that calls of a slot are bound to";
  let description = [{
    The implementation that `fuse-bind-slots` chose for the target and the mode;
    `fuse-unbind-slots` removes it. It has either a function `@body` with the
    signature of the slot, or `code` in a file.

    Example:

    ```mlir
    nn.bound_kernel @fuse on <any> {
      func.func @body(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
        return %x : tensor<?x8xf32>
      }
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    NN_HardwareAttr:$hardware,
    OptionalAttr<NN_KernelModeAttr>:$mode,
    OptionalAttr<AnyAttr>:$code
  );
  let assemblyFormat = [{
    $sym_name `on` $hardware (`mode` $mode^)? (`code` $code^)?
    attr-dict-with-keyword $body
  }];
}

def NN_SlotKernelOp : Op<NN_Dialect, "slot_kernel", [
    IsolatedFromAbove, NoTerminator, NoRegionArguments,
    ParentOneOf<["ModelOp", "::mlir::ModuleOp"]>, SingleBlock]> {
  let summary = "A kernel for slots of one op and variant";
  let description = [{
    Registers a kernel. In a kernel file, it is visible to every program that
    loads the file; next to a model, to the models of that module; in a model,
    to that model. The key is (op, variant, name). Two kernels with the same key
    are an error.

    A kernel has one or several `nn.implementation` ops for different hardware
    and modes. `aliases` are former names; binding one of them emits a warning.

    Example:

    ```mlir
    nn.slot_kernel "mine" op "rms_norm" variant "standard"
        description "One warp per row" {
      nn.implementation on <gpu from 80> mode <inference>
        code #nn.gpu_code<format = ptx, file = "rms_norm.ptx",
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

def NN_ImplementationOp : NN_CodeOp<"implementation", [
    HasParent<"SlotKernelOp">]> {
  let summary = "A kernel's code for some hardware and some modes";
  let description = [{
    `mode` is `inference` or `training`, optionally with `|compile`; the default
    is `any`. The implementation is either a function `@body`, which is lowered
    with the rest of the program, or `code`: `#nn.gpu_code` or
    `#nn.cpu_code`.

    Example:

    ```mlir
    nn.implementation on <cpu> {
      func.func @body(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
        return %x : tensor<?x8xf32>
      }
    }
    ```
  }];
  let arguments = (ins
    NN_HardwareAttr:$hardware,
    OptionalAttr<NN_KernelModeAttr>:$mode,
    OptionalAttr<AnyAttr>:$code
  );
  let assemblyFormat = [{
    `on` $hardware (`mode` $mode^)? (`code` $code^)?
    attr-dict-with-keyword $body
  }];
}

#endif // NN_IR_NNSLOTOPS_TD
