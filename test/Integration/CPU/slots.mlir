// RUN: fuse-opt %s --fuse-bind-slots="bind=first:scale=rough,second:scale=eager" -o %t.mlir
// RUN: fuse-run %t.mlir --entry=m --print | FileCheck %s
// RUN: fuse-run %t.mlir --entry=m --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: not fuse-run %s --entry=m 2>&1 | FileCheck %s --check-prefix=UNBOUND

// A bound model runs. Twice 257 is 514, of which the kernel of the first module
// makes 512, since bf16 has no number between 512 and 516. The eager body of the
// second module is exact.

// CHECK: [1024, 1024]

// PTX: .entry

// UNBOUND: error: slot 'scale' (op=scale, variant=standard) at '{{first|second}}' has no kernel bound

nn.slot_kernel "rough" op "scale" variant "standard" {
  nn.implementation on <any> {
    func.func @body(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuse.residual_add %x, %x
        : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xbf16>
      %zero = arith.constant dense<0.0> : tensor<2xf32>
      %1 = fuse.residual_add %0, %zero
        : (tensor<2xbf16>, tensor<2xf32>) -> tensor<2xf32>
      return %1 : tensor<2xf32>
    }
  }
}

nn.model @m class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<2xf32>) -> tensor<2xf32> {
    func.func @eager(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuse.residual_add %x, %x
        : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }
  }
  nn.module @first class "Layer" {
    func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = nn.call_slot @scale(%x) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }
  }
  nn.module @second class "Layer" {
    func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = nn.call_slot @scale(%x) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }
  }
  func.func @forward() -> tensor<2xf32> {
    %x = arith.constant dense<257.0> : tensor<2xf32>
    %0 = nn.call_module @first(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = nn.call_module @second(%0) : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}
