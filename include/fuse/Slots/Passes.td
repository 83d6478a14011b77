//===- Passes.td - Passes on slots -------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_PASSES_TD
#define FUSE_SLOTS_PASSES_TD

include "mlir/Pass/PassBase.td"

def BindSlotsPass : Pass<"fuse-bind-slots", "::mlir::ModuleOp"> {
  let summary = "Bind slots to kernels as a configuration says";
  let description = [{
    Decides for every call of a `fuse.slot` which kernel it runs. A binding
    names an op, or an op and a variant, and a kernel; `eager` is the body of
    the slot itself:

    - `rms_norm=fuse`, `rms_norm/unweighted=eager`: all calls of such slots;
    - `model.layers.0.*:rms_norm=eager`: the calls in modules that the path
      glob matches (docs/reference/path-globs.md);
    - `teacher@rms_norm=eager`, `teacher@model.norm:rms_norm=eager`: the same
      for one model of the module.

    For a call, the bindings of its model win over the others, then overrides
    over bindings without a path, later overrides over earlier ones, an op with
    a variant over an op. Then comes the preset, then `default`. The same can
    be written in a YAML or JSON file, `config`; docs/how-to/bind-slots.md
    describes it. Options win over the file.

    Kernels are those that fuse generates, those of the files in `kernels`,
    and the `fuse.slot_kernel` ops of the module and of the model. A name is
    resolved in this order: `eager`; unknown names; hardware; mode; then the
    kernel is built for the slot. Each step that fails is an error that lists
    the alternatives; nothing is replaced by another kernel. The
    implementation with the smallest interval of capabilities wins.

    Errors are also: a kernel of another variant; a binding, override, model or
    preset that nothing matches; a call that is bound to another kernel, unless
    `rebind` is set; a second kernel with the key of another one, unless
    `force` is set. A preset fails where any part of it does. After an error
    the module is as it was.

    Every bound call yields a remark of category `slot`, calls that stay
    unbound a warning. `report` writes all bindings to a file, with the slots
    that no kernel is registered for.

    After this pass every call that something was asked for is bound, and its
    slot has a `fuse.bound_kernel`; `fuse-unbind-slots` undoes that.

    Example: `fuse-opt model.mlir --fuse-bind-slots="bind=rms_norm=fuse
    target=sm_90 report=-"`
  }];
  let options = [
    Option<"config", "config", "std::string", /*default=*/"\"\"",
           "YAML or JSON file with all of the following">,
    ListOption<"bind", "bind", "std::string",
               "Bindings: [model@][path:]op[/variant]=kernel">,
    ListOption<"kernels", "kernels", "std::string",
               "Files of kernels to register">,
    Option<"preset", "preset", "std::string", /*default=*/"\"\"",
           "Preset of the configuration, or fuse for all generated kernels">,
    Option<"otherwise", "default", "std::string", /*default=*/"\"\"",
           "Kernel of calls that nothing else names; unbound when empty">,
    Option<"target", "target", "std::string", /*default=*/"\"\"",
           "What kernels must run on: cpu or a chip; cpu when empty">,
    Option<"mode", "mode", "std::string", /*default=*/"\"\"",
           "inference, training, or one of them with |compile; inference when "
           "empty">,
    ListOption<"only", "models", "std::string",
               "Models to bind the slots of, all when empty">,
    Option<"rebind", "rebind", "bool", /*default=*/"false",
           "Permit to bind bound calls to other kernels">,
    Option<"force", "force", "bool", /*default=*/"false",
           "Permit kernels to replace registered ones of the same key">,
    Option<"report", "report", "std::string", /*default=*/"\"\"",
           "File for the report, - for the standard error, empty for none">,
    Option<"reportFormat", "report-format", "std::string",
           /*default=*/"\"text\"", "text or json">
  ];
  let statistics = [
    Statistic<"numBound", "calls-bound", "Calls that are bound">,
    Statistic<"numUnbound", "calls-unbound", "Calls that stay unbound">
  ];
  let dependentDialects = [
    "::fuse::FuseDialect", "::mlir::affine::AffineDialect",
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

def LowerSlotsPass : Pass<"fuse-lower-slots", "::mlir::ModuleOp"> {
  let summary = "Replace calls of slots by the kernels they are bound to";
  let description = [{
    Replaces a call that is bound to a body, `@eager` or a generated kernel, by
    a copy of that body; one that is bound to GPU code by a launch of a
    `gpu.binary` with that code; one that is bound to a function in a shared
    library by a call of it, whose declaration names the library in
    `fuse.library`. Code works on buffers: operands are row-major, results get
    buffers of their own.

    An unbound call is an error: nothing falls back to the eager body. So is
    code for another device than `device`, a file that cannot be read, and a
    body that calls its own slot.

    After this pass there is no call of a slot outside of slots, and slots and
    kernels beside functions are gone.

    Example: `fuse-opt bound.mlir --fuse-lower-slots`
  }];
  let options = [
    Option<"device", "device", "std::string", /*default=*/"\"cpu\"",
           "What the code is for: cpu or gpu">,
    Option<"chip", "chip", "std::string", /*default=*/"\"sm_90\"",
           "GPU that launched code is for">
  ];
  let statistics = [
    Statistic<"numInlined", "calls-inlined", "Calls replaced by a body">,
    Statistic<"numExternal", "calls-external", "Calls of code in files">
  ];
  let dependentDialects = [
    "::fuse::FuseDialect", "::mlir::affine::AffineDialect",
    "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::func::FuncDialect", "::mlir::gpu::GPUDialect",
    "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

def UnbindSlotsPass : Pass<"fuse-unbind-slots", "::mlir::ModuleOp"> {
  let summary = "Undo what fuse-bind-slots did";
  let description = [{
    Removes the bindings of all calls, or of those of the models in `models`,
    and the kernels that they were bound to. Slots keep the eager body that
    they were written with.

    After this pass the module is what it was before `fuse-bind-slots`: modules,
    parameters, forwards, attributes and locations.

    Example: `fuse-opt bound.mlir --fuse-unbind-slots`
  }];
  let options = [
    ListOption<"only", "models", "std::string",
               "Models to unbind the slots of, all when empty">
  ];
  let statistics = [
    Statistic<"numRemoved", "kernels-removed", "Bound kernels removed">
  ];
}

#endif // FUSE_SLOTS_PASSES_TD
