// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=fast" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=norm=fast" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NONE
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=shifted" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=VARIANT
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=chips" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DEVICE
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=served mode=training" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MODE
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=served mode='inference|compile'" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COMPILE
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=wide" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BUILD
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=wide" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BUILT
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=norm=eager" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EAGER
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=rms_norm=eager" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OP
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale/offset=eager" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KEY
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=layers.*:scale=eager" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PATH
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=a..b:scale=eager" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GLOB
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=teacher@scale=eager" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MODEL
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=eager models=n" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ONLY
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=m@rope=eager" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=INMODEL
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FORM
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=eager target=sm_999" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TARGET
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=eager mode=fast" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MODENAME
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir preset=turbo" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PRESET
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir kernels=%t.missing.mlir" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FILE
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir kernels=%S/Inputs/kernels.mlir" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TWICE
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=eager report-format=xml" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FORMAT
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=eager report=/dev/full" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FULL
// RUN: not fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir config=%t.missing.yaml" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CONFIG

// What cannot be done as asked is an error that says what could be. Nothing is
// bound to another kernel than the one that was named.

// UNKNOWN: error: slot 'scale' (op=scale, variant=standard) at 'layer': unknown kernel 'fast' for op=scale, variant=standard; available: eager, chips, served, trained, twice, wide
// NONE: error: slot 'norm' (op=norm, variant=standard) at 'head': unknown kernel 'fast' for op=norm, variant=standard; available: eager
// VARIANT: error: {{.*}}kernel 'shifted' for op=scale is of variant offset, the slot of variant standard; kernels can stand for each other only within one variant; available: eager, chips, served, trained, twice, wide
// DEVICE: error: {{.*}}kernel 'chips' for op=scale, variant=standard requires device_type=gpu, compute_capability>=70 or device_type=gpu, compute_capability>=80, compute_capability<=90 or device_type=gpu, compute_capability>=90, compute_capability<=90, but the target is device_type=cpu; available for it: eager, served, trained, twice, wide
// MODE: error: {{.*}}kernel 'served' for op=scale, variant=standard is for mode inference, not for training; available for it: eager, trained, twice, wide
// COMPILE: error: {{.*}}kernel 'served' for op=scale, variant=standard is for mode inference, not for inference|compile; available for it: eager, trained, twice, wide
// BUILD: error: slot 'scale' (op=scale, variant=standard) has type '(tensor<4xf32>) -> tensor<4xf32>', the kernel is for '(tensor<8xf32>) -> tensor<8xf32>'
// BUILT: error: slot 'scale' (op=scale, variant=standard) at 'layer': kernel 'wide' cannot be built: it does not serve this slot
// EAGER: error: slot 'norm' (op=norm, variant=standard) at 'head': the slot has no eager body, and none is registered for this op and variant
// OP: error: no call of a slot of op 'rms_norm'; there are norm/standard, scale/standard
// KEY: error: no call of a slot of op 'scale/offset'; there are norm/standard, scale/standard
// PATH: error: override 'layers.*': no call of a slot of op 'scale' is at such a path; they are at layer, head
// GLOB: error: path glob 'a..b': has an empty segment
// MODEL: error: no model 'teacher'; there are m
// ONLY: error: no model 'n'; there are m
// INMODEL: error: no call of a slot of op 'rope' in model 'm'; there are norm/standard, scale/standard
// FORM: error: binding 'scale': expected op=kernel, path:op=kernel or model@path:op=kernel
// TARGET: error: unknown target 'sm_999', expected one of cpu, sm_80
// MODENAME: error: mode 'fast': expected inference, inference|compile, training or training|compile
// PRESET: error: no preset 'turbo'; there are fuse
// FILE: error: kernels: cannot open input file
// TWICE: error: duplicate kernel registration: op=scale, variant=standard, name=twice; it is registered by {{.*}}kernels.mlir
// FORMAT: error: unknown report format 'xml', expected text or json
// FULL: error: /dev/full: No space left on device
// CONFIG: error: {{.*}}No such file or directory

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
