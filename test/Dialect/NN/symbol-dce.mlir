// RUN: fuse-opt %s --symbol-dce | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt --symbol-dce \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --symbol-dce --fuse-flatten-models --inline --symbol-dce \
// RUN:   | FileCheck %s --check-prefix=FLAT

// Calls name the module, so nothing but the module itself refers to its private
// forward.

// CHECK-LABEL: nn.model @tiny
// CHECK:         nn.module @declared class "Linear" {
// CHECK-NEXT:      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
// CHECK:         nn.module @defined class "Act" {
// CHECK-NEXT:      func.func private @forward(%{{.*}}: tensor<8xf32>)
// CHECK:         nn.call_module @defined
// CHECK-NOT:     @unused

// FLAT-NOT:      nn.model
// FLAT:          func.func @tiny(
// FLAT-NEXT:       math.exp
nn.model @tiny class "Tiny" {
  nn.module @declared class "Linear" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @defined class "Act" {
    func.func private @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = math.exp %x : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = nn.call_module @defined(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

func.func private @unused(tensor<8xf32>)
