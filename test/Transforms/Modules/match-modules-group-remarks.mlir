// RUN: split-file %s %t
// RUN: fuse-opt %t/models.mlir -split-input-file -verify-diagnostics \
// RUN:   --fuse-match-modules='patterns=((*,a),(*,b))->group' --fuse-inline-modules \
// RUN:   --fuse-form-kernels --remarks-filter=fuse --remark-format=emitRemark \
// RUN:   | FileCheck %t/models.mlir
// RUN: fuse-opt %t/models.mlir -split-input-file -o /dev/null --fuse-check-unfuse='patterns=((*,a),(*,b))->group'
// RUN: fuse-opt %t/disabled.mlir -verify-diagnostics -o /dev/null \
// RUN:   --fuse-match-modules='patterns=((*,a))->group' --fuse-inline-modules \
// RUN:   --fuse-form-kernels='disable=a#0#0' --remarks-filter=fuse --remark-format=emitRemark

// Remarks of sites whose kernel is a group.

//--- models.mlir

// CHECK-LABEL: nn.model @formed
// CHECK: fuse.group(
nn.model @formed class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      // expected-remark @below {{[Passed] a+b#0#0 | Category:fuse:fuse-form-kernels | Family=group}}
      %y = arith.negf %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  nn.module @b class "B" {
    nn.parameter @w : tensor<8xf32>
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %w = nn.get_parameter @w : tensor<8xf32>
      %y = arith.mulf %x, %w : tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    // expected-remark @below {{[Passed] a+b#0 | Category:fuse:fuse-match-modules | Kernel=group, Members="a, b"}}
    %a = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %b = nn.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
    return %b, %a : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// A kernel has no effects.

// CHECK-LABEL: nn.model @effects
// CHECK-NOT: fuse.group(
nn.model @effects class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = arith.negf %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  nn.module @b class "B" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      // expected-remark-re @below {{[Missed] a+b#0#0{{.*}}At=memref.alloc{{.*}}FUSE-N023 member-has-effects}}
      %buffer = memref.alloc() : memref<8xf32>
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-remark @below {{[Passed] a+b#0 | Category:fuse:fuse-match-modules | Kernel=group, Members="a, b"}}
    %a = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %b = nn.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

//--- disabled.mlir

nn.model @disabled class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      // expected-remark-re @below {{[Missed] a#0#0{{.*}}FUSE-N013 disabled}}
      %y = arith.negf %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-remark @below {{[Passed] a#0 | Category:fuse:fuse-match-modules | Kernel=group, Members=a}}
    %a = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %a : tensor<8xf32>
  }
}
