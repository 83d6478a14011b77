//===- Passes.td - Passes on slots -------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_PASSES_TD
#define FUSE_SLOTS_PASSES_TD

include "mlir/Pass/PassBase.td"

def BindSlotsPass : Pass<"fuse-bind-slots", "::mlir::ModuleOp"> {
  let summary = "Bind slots to kernels according to a configuration";
  let description = [{
    Selects the kernel of every call of an `nn.slot`. A binding names an op, or
    an op and a variant, and a kernel. The kernel `eager` is the body of the
    slot:

    - `rms_norm=fuse`, `rms_norm/unweighted=eager`: all calls of such slots;
    - `model.layers.0.*:rms_norm=eager`: the calls in modules that the path
      glob matches (docs/reference/path-globs.md);
    - `teacher@rms_norm=eager`, `teacher@model.norm:rms_norm=eager`: the same
      for one model of the module.

    For a call, bindings of its model precede other bindings, overrides precede
    bindings without a path, later overrides precede earlier ones, and an op
    with a variant precedes an op. The preset and then `default` apply to the
    remaining calls. A YAML or JSON file, `config`, can contain the same
    settings; docs/how-to/bind-slots.md describes it. Options precede the file.

    Kernels are those that fuse generates, those of the files in `kernels`, and
    the `nn.slot_kernel` ops of the module and of the model. A name is
    resolved in these steps: `eager`, unknown names, hardware, mode, and
    building the kernel for the slot. A failure in a step is an error that lists
    the alternatives; no other kernel is used instead. The implementation with
    the smallest interval of capabilities is selected.

    Other errors are a kernel of another variant; a binding, override, model or
    preset without a match; a call that is already bound to another kernel,
    unless `rebind` is set; and a second kernel with the same key, unless
    `force` is set. A preset fails if any part of it fails. After an error, the
    module is unchanged.

    Every bound call causes a remark of category `slot`, and every unbound call
    a warning. `report` writes all bindings to a file, with the slots without a
    registered kernel.

    After this pass every call that a setting selects is bound, and its slot has
    an `nn.bound_kernel`. `fuse-unbind-slots` undoes this.

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
    "::fuse::FuseDialect", "::fuse::NNDialect", "::mlir::affine::AffineDialect",
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"
  ];
}

def LowerSlotsPass : Pass<"fuse-lower-slots", "::mlir::ModuleOp"> {
  let summary = "Replace calls of slots by the kernels they are bound to";
  let description = [{
    Replaces a call that is bound to a body, `@eager` or a generated kernel, by
    a copy of that body. A call that is bound to GPU code becomes a launch of a
    `gpu.binary` with that code. A call that is bound to a function in a shared
    library becomes a call of a declaration that names the library in
    `fuse.library`. Code works on buffers: operands are row-major, and results
    have separate buffers.

    An unbound call is an error; the eager body is not a fallback. Code for
    another device than `device`, a file that cannot be read, and a body that
    calls its own slot are errors, too.

    After this pass calls of slots exist only inside of slots, and slots and
    kernels outside of models are erased.

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
    "::fuse::FuseDialect", "::fuse::NNDialect", "::mlir::affine::AffineDialect",
    "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect", "::mlir::func::FuncDialect",
    "::mlir::gpu::GPUDialect", "::mlir::memref::MemRefDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::tensor::TensorDialect"
  ];
}

def UnbindSlotsPass : Pass<"fuse-unbind-slots", "::mlir::ModuleOp"> {
  let summary = "Undo fuse-bind-slots";
  let description = [{
    Removes the bindings of all calls, or of the calls of the models in
    `models`, and the kernels to which they were bound. Slots keep their
    original eager body.

    After this pass the module is identical to the one before `fuse-bind-slots`:
    modules, parameters, forwards, attributes and locations.

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
