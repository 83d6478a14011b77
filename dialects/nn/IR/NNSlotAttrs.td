//===- NNSlotAttrs.td - Attributes of slots and kernels ----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of FuseAttrs.td.
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNSLOTATTRS_TD
#define NN_IR_NNSLOTATTRS_TD

include "nn/IR/NNDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def NN_DeviceTypeEnum : I32EnumAttr<"DeviceType", "type of a device", [
    I32EnumAttrCase<"Any", 0, "any">,
    I32EnumAttrCase<"CPU", 1, "cpu">,
    I32EnumAttrCase<"GPU", 2, "gpu">]> {
  let cppNamespace = "::fuse";
  let genSpecializedAttr = 0;
}

def NN_CodeFormatEnum : I32EnumAttr<"CodeFormat", "form of GPU code", [
    I32EnumAttrCase<"PTX", 0, "ptx">,
    I32EnumAttrCase<"Cubin", 1, "cubin">]> {
  let cppNamespace = "::fuse";
  let genSpecializedAttr = 0;
}

def NN_KernelModeEnum : I32BitEnumAttr<"KernelMode",
    "use of a network", [
    I32BitEnumAttrCaseNone<"Any", "any">,
    I32BitEnumAttrCaseBit<"Inference", 0, "inference">,
    I32BitEnumAttrCaseBit<"Training", 1, "training">,
    I32BitEnumAttrCaseBit<"Compile", 2, "compile">]> {
  let cppNamespace = "::fuse";
  let genSpecializedAttr = 0;
  let separator = "|";
}

def NN_KernelModeAttr
    : EnumAttr<NN_Dialect, NN_KernelModeEnum, "kernel_mode"> {
  let assemblyFormat = "`<` $value `>`";
}

def NN_HardwareAttr : AttrDef<NN_Dialect, "Hardware"> {
  let mnemonic = "hardware";
  let summary = "hardware that a kernel runs on";
  let description = [{
    A type of device and, for a GPU, an interval of compute capabilities, both
    ends included, as in `sm_90` without its letters. Without `from` or `to`
    the interval is open at that end.

    Example: `#nn.hardware<any>`, `#nn.hardware<gpu from 80 to 90>`.
  }];
  let parameters = (ins
    EnumParameter<NN_DeviceTypeEnum>:$device,
    DefaultValuedParameter<"unsigned", "0", "0 for none">:$from,
    DefaultValuedParameter<"unsigned", "0", "0 for none">:$to
  );
  let assemblyFormat = [{
    `<` $device (`from` $from^)? (`to` $to^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether a device of this type and capability is included.
    bool isMetBy(DeviceType device, unsigned capability) const;
    /// Size of the set, for comparison: the number of capabilities. An open
    /// interval is larger than any closed one, and any device larger than one
    /// type of device.
    uint64_t getSize() const;
    /// `device_type=gpu, compute_capability>=80`.
    std::string toText() const;
  }];
}

def NN_GPUCodeAttr : AttrDef<NN_Dialect, "GPUCode"> {
  let mnemonic = "gpu_code";
  let summary = "kernel in a file of GPU code and how to launch it";
  let description = [{
    `file` contains PTX text or a cubin, and `entry` is the name of the kernel
    in it. A relative path starts at the directory of the file that registers
    the kernel.

    `sizes` lists the sizes that are known at launch: pairs of an operand of the
    slot and one of its dimensions. `grid` maps these sizes to the number of
    blocks. `block` is the number of threads per block, and `shared` the dynamic
    shared memory in bytes (default 0).

    `args` lists the arguments of the kernel, in order:

    - `"arg0"`, `"result0"`: the address of an operand or result of the slot,
      row-major and contiguous;
    - `"param.eps"`: a number of the slot's `params`, with its type;
    - an affine map: a size as i64;
    - a number with its type.

    Example:

    ```mlir
    #nn.gpu_code<format = ptx, file = "rms_norm.ptx", entry = "rms_norm",
      grid = affine_map<()[s0] -> (s0, 1, 1)>, block = [128, 1, 1],
      sizes = [[0, 0]], args = ["arg0", "arg1", "result0", "param.eps"]>
    ```
  }];
  let parameters = (ins
    EnumParameter<NN_CodeFormatEnum>:$format,
    StringRefParameter<"path">:$file,
    StringRefParameter<"name of the kernel">:$entry,
    "::mlir::AffineMapAttr":$grid,
    "::mlir::ArrayAttr":$block,
    DefaultValuedParameter<"unsigned", "0">:$shared,
    "::mlir::ArrayAttr":$sizes,
    "::mlir::ArrayAttr":$args
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def NN_CPUCodeAttr : AttrDef<NN_Dialect, "CPUCode"> {
  let mnemonic = "cpu_code";
  let summary = "function in a shared library";
  let description = [{
    `symbol` is a C function in the shared library `library`. `sizes` and `args`
    are those of `#nn.gpu_code`: addresses are pointers, sizes `int64_t`.

    Example:

    ```mlir
    #nn.cpu_code<library = "libkernels.so", symbol = "rms_norm",
      sizes = [[0, 0]],
      args = ["arg0", "arg1", "result0", affine_map<()[s0] -> (s0)>]>
    ```
  }];
  let parameters = (ins
    StringRefParameter<"path">:$library,
    StringRefParameter<"name of the function">:$symbol,
    "::mlir::ArrayAttr":$sizes,
    "::mlir::ArrayAttr":$args
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // NN_IR_NNSLOTATTRS_TD
