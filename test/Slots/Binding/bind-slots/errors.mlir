// RUN: %check_errors %s \
// RUN:   fuse-opt %s --fuse-bind-slots='kernels=Inputs/kernels.mlir {}'

// A binding that is not possible is an error that lists the alternatives.
// Another kernel than the named one is never bound.

// Kernels that do not exist for the op and the variant of a slot.

// $ bind=scale=fast
// error: slot 'scale' (op=scale, variant=standard) at 'layer': unknown kernel 'fast' for op=scale, variant=standard; available: eager, chips, served, trained, twice, wide

// $ bind=norm=fast
// error: slot 'norm' (op=norm, variant=standard) at 'head': unknown kernel 'fast' for op=norm, variant=standard; available: eager

// $ bind=norm=eager
// error: slot 'norm' (op=norm, variant=standard) at 'head': the slot has no eager body, and none is registered for this op and variant

// $ bind=scale=shifted
// error: slot 'scale' (op=scale, variant=standard) at 'layer': kernel 'shifted' for op=scale is of variant offset, the slot of variant standard; kernels can stand for each other only within one variant; available: eager, chips, served, trained, twice, wide

// Kernels for another device, mode or type.

// $ bind=scale=chips
// error: slot 'scale' (op=scale, variant=standard) at 'layer': kernel 'chips' for op=scale, variant=standard requires device_type=gpu, compute_capability>=70 or device_type=gpu, compute_capability>=80, compute_capability<=90 or device_type=gpu, compute_capability>=90, compute_capability<=90, but the target is device_type=cpu; available for it: eager, served, trained, twice, wide

// $ bind=scale=served mode=training
// error: slot 'scale' (op=scale, variant=standard) at 'layer': kernel 'served' for op=scale, variant=standard is for mode inference, not for training; available for it: eager, trained, twice, wide

// $ bind=scale=served mode='inference|compile'
// error: slot 'scale' (op=scale, variant=standard) at 'layer': kernel 'served' for op=scale, variant=standard is for mode inference, not for inference|compile; available for it: eager, trained, twice, wide

// $ bind=scale=wide
// error: slot 'scale' (op=scale, variant=standard) has type '(tensor<4xf32>) -> tensor<4xf32>', the kernel is for '(tensor<8xf32>) -> tensor<8xf32>'
// error: slot 'scale' (op=scale, variant=standard) at 'layer': kernel 'wide' cannot be built: it does not serve this slot

// Ops, paths and models that the module does not have.

// $ bind=rms_norm=eager
// error: no call of a slot of op 'rms_norm'; there are norm/standard, scale/standard

// $ bind=scale/offset=eager
// error: no call of a slot of op 'scale/offset'; there are norm/standard, scale/standard

// $ bind=m@rope=eager
// error: no call of a slot of op 'rope' in model 'm'; there are norm/standard, scale/standard

// $ bind=layers.*:scale=eager
// error: override 'layers.*': no call of a slot of op 'scale' is at such a path; they are at layer, head

// $ bind=a..b:scale=eager
// error: path glob 'a..b': has an empty segment

// $ bind=teacher@scale=eager
// error: no model 'teacher'; there are m

// $ bind=scale=eager models=n
// error: no model 'n'; there are m

// $ preset=turbo
// error: no preset 'turbo'; there are fuse

// Values that an option does not have.

// $ bind=scale
// error: binding 'scale': expected op=kernel, path:op=kernel or model@path:op=kernel

// $ bind=scale=eager target=sm_999
// error: unknown target 'sm_999', expected one of cpu, sm_80, {{.*}}

// $ bind=scale=eager mode=fast
// error: mode 'fast': expected inference, inference|compile, training or training|compile

// $ bind=scale=eager report-format=xml
// error: unknown report format 'xml', expected text or json

// Files that cannot be read or written, or are given twice.

// $ kernels=missing.mlir
// <unknown>:0: error: kernels: cannot open input file 'missing.mlir': No such file or directory

// $ kernels=Inputs/kernels.mlir
// Inputs/kernels.mlir:3:1: error: duplicate kernel registration: op=scale, variant=standard, name=twice; it is registered by Inputs/kernels.mlir

// $ config=missing.yaml
// error: missing.yaml: No such file or directory

// $ bind=scale=eager report=/dev/full
// error: /dev/full: No space left on device

nn.model @m class "M" {
  nn.slot @scale op "scale" variant "standard" params {by = 2.0 : f32}
      : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  nn.slot @norm op "norm" variant "standard"
      : (tensor<4xf32>) -> tensor<4xf32> {}
  nn.module @layer class "Layer" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  nn.module @head class "Head" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = nn.call_slot @norm(%0) : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
  }
}
