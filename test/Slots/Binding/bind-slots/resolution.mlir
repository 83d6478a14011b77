// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=chips target=sm_80" | FileCheck %s --check-prefix=SM80
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=chips target=sm_90a" | FileCheck %s --check-prefix=SM90
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=chips target=sm_90 mode=training|compile" | FileCheck %s --check-prefix=COMPILED
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=chips target=sm_100" | FileCheck %s --check-prefix=SM100
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=trained" | FileCheck %s --check-prefix=INFERENCE
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=trained mode=inference|compile" | FileCheck %s --check-prefix=TRAINED
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=double" 2>&1 | FileCheck %s --check-prefix=ALIAS
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=nothing,scale=eager" 2>&1 | FileCheck %s --check-prefix=EAGER

// The implementation with the smallest interval of capabilities that has the
// target's wins, if there is one for the mode.

// SM80:  nn.bound_kernel @chips on <gpu from 80 to 90> {
// SM90:  nn.bound_kernel @chips on <gpu from 90 to 90> mode <training> {
// SM100: nn.bound_kernel @chips on <gpu from 70> {

// A kernel for training does inference as well; one that cannot be compiled
// cannot stand where code is compiled.

// COMPILED:  nn.bound_kernel @chips on <gpu from 80 to 90> {
// INFERENCE: nn.bound_kernel @trained on <any> mode <inference> {
// TRAINED:   nn.bound_kernel @trained on <any> mode <training|compile> {

// A name that a kernel had before works, and says what it is called now.

// ALIAS:     warning: kernel name 'double' for op=scale, variant=standard is deprecated; use 'twice'
// ALIAS-NOT: warning
// ALIAS:     nn.bound_kernel @twice
// ALIAS:     bound @twice

// eager is the slot's own body whatever the hardware. The last of two bindings
// of an op counts.

// EAGER-NOT: nn.bound_kernel
// EAGER:     bound @eager

nn.model @m class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = nn.call_slot @scale(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
