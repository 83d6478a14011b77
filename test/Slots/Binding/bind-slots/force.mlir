// RUN: fuse-opt %s --fuse-bind-slots="bind=scale=mine kernels=%S/Inputs/mine.mlir" \
// RUN:   -verify-diagnostics
// RUN: fuse-opt %s --fuse-bind-slots="bind=scale=mine kernels=%S/Inputs/mine.mlir force=true" \
// RUN:   --remarks-filter=".*" --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=FORCED

// A kernel beside a model serves all models of the module. It is an error if a
// file registers the same kernel. With `force`, it replaces the kernel of the
// file, and a remark reports that.

// FORCED: remark: [Analysis] mine | Category:fuse:fuse-kernel-registry | Reason="replaces kernel op=scale, variant=standard, name=mine of {{.*}}mine.mlir"
// FORCED: remark: [Passed] scale | Category:slot:fuse-bind-slots | Because="bind scale", Kernel=mine, Path=
// FORCED: nn.bound_kernel @mine
// FORCED: arith.subf

// expected-error-re @below {{duplicate kernel registration: op=scale, variant=standard, name=mine; it is registered by {{.*}}mine.mlir}}
nn.slot_kernel "mine" op "scale" variant "standard" {
  nn.implementation on <any> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.subf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
}

nn.model @m class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
