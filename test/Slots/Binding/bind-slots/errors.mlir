// RUN: %option_errors %s \
// RUN:   fuse-opt %s --fuse-bind-slots='kernels=%S/Inputs/kernels.mlir {}'

// A binding that is not possible is an error that lists the alternatives.
// Another kernel than the named one is never bound.

// Kernels that do not exist for the op and the variant of a slot.

// OPTIONS: bind=scale=fast
// ERROR: slot 'scale' (op=scale, variant=standard) at 'layer': unknown kernel 'fast' for op=scale, variant=standard; available: eager, chips, served, trained, twice, wide

// OPTIONS: bind=norm=fast
// ERROR: slot 'norm' (op=norm, variant=standard) at 'head': unknown kernel 'fast' for op=norm, variant=standard; available: eager

// OPTIONS: bind=norm=eager
// ERROR: slot 'norm' (op=norm, variant=standard) at 'head': the slot has no eager body, and none is registered for this op and variant

// OPTIONS: bind=scale=shifted
// ERROR: {{.*}}kernel 'shifted' for op=scale is of variant offset, the slot of variant standard; kernels can stand for each other only within one variant; available: eager, chips, served, trained, twice, wide

// Kernels for another device, mode or type.

// OPTIONS: bind=scale=chips
// ERROR: {{.*}}kernel 'chips' for op=scale, variant=standard requires device_type=gpu, compute_capability>=70 or device_type=gpu, compute_capability>=80, compute_capability<=90 or device_type=gpu, compute_capability>=90, compute_capability<=90, but the target is device_type=cpu; available for it: eager, served, trained, twice, wide

// OPTIONS: bind=scale=served mode=training
// ERROR: {{.*}}kernel 'served' for op=scale, variant=standard is for mode inference, not for training; available for it: eager, trained, twice, wide

// OPTIONS: bind=scale=served mode='inference|compile'
// ERROR: {{.*}}kernel 'served' for op=scale, variant=standard is for mode inference, not for inference|compile; available for it: eager, trained, twice, wide

// OPTIONS: bind=scale=wide
// ERROR: slot 'scale' (op=scale, variant=standard) has type '(tensor<4xf32>) -> tensor<4xf32>', the kernel is for '(tensor<8xf32>) -> tensor<8xf32>'
// ERROR: slot 'scale' (op=scale, variant=standard) at 'layer': kernel 'wide' cannot be built: it does not serve this slot

// Ops, paths and models that the module does not have.

// OPTIONS: bind=rms_norm=eager
// ERROR: no call of a slot of op 'rms_norm'; there are norm/standard, scale/standard

// OPTIONS: bind=scale/offset=eager
// ERROR: no call of a slot of op 'scale/offset'; there are norm/standard, scale/standard

// OPTIONS: bind=m@rope=eager
// ERROR: no call of a slot of op 'rope' in model 'm'; there are norm/standard, scale/standard

// OPTIONS: bind=layers.*:scale=eager
// ERROR: override 'layers.*': no call of a slot of op 'scale' is at such a path; they are at layer, head

// OPTIONS: bind=a..b:scale=eager
// ERROR: path glob 'a..b': has an empty segment

// OPTIONS: bind=teacher@scale=eager
// ERROR: no model 'teacher'; there are m

// OPTIONS: bind=scale=eager models=n
// ERROR: no model 'n'; there are m

// OPTIONS: preset=turbo
// ERROR: no preset 'turbo'; there are fuse

// Values that an option does not have.

// OPTIONS: bind=scale
// ERROR: binding 'scale': expected op=kernel, path:op=kernel or model@path:op=kernel

// OPTIONS: bind=scale=eager target=sm_999
// ERROR: unknown target 'sm_999', expected one of cpu, sm_80

// OPTIONS: bind=scale=eager mode=fast
// ERROR: mode 'fast': expected inference, inference|compile, training or training|compile

// OPTIONS: bind=scale=eager report-format=xml
// ERROR: unknown report format 'xml', expected text or json

// Files that cannot be read or written, or are given twice.

// OPTIONS: kernels=missing.mlir
// ERROR: kernels: cannot open input file

// OPTIONS: kernels=%S/Inputs/kernels.mlir
// ERROR: duplicate kernel registration: op=scale, variant=standard, name=twice; it is registered by {{.*}}kernels.mlir

// OPTIONS: config=missing.yaml
// ERROR: {{.*}}No such file or directory

// OPTIONS: bind=scale=eager report=/dev/full
// ERROR: /dev/full: No space left on device

fuse.model @m class "M" {
  fuse.slot @scale op "scale" variant "standard" params {by = 2.0 : f32}
      : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  fuse.slot @norm op "norm" variant "standard"
      : (tensor<4xf32>) -> tensor<4xf32> {}
  fuse.module @layer class "Layer" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fuse.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  fuse.module @head class "Head" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fuse.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = fuse.call_slot @norm(%0) : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
  }
}
