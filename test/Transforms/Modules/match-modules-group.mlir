// RUN: fuse-opt %s -split-input-file -o %t.input
// RUN: fuse-opt %s -split-input-file -o %t.fused \
// RUN:   --fuse-match-modules='patterns=((*,a),(*,b))->group' \
// RUN:   --fuse-inline-modules --fuse-form-kernels \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark 2> %t.remarks
// RUN: FileCheck %s --input-file=%t.fused
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK
// RUN: fuse-opt %t.fused -split-input-file --fuse-unfuse -o %t.output
// RUN: diff %t.input %t.output
// RUN: fuse-opt %s -split-input-file -o /dev/null \
// RUN:   --fuse-check-unfuse='patterns=((*,a),(*,b))->group'
// RUN: fuse-opt %s -split-input-file -o /dev/null \
// RUN:   --fuse-match-modules='patterns=((*,a),(*,b))->group' \
// RUN:   --fuse-inline-modules --fuse-form-kernels='disable=a+b#0#0' \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OFF

// A chain that no family has becomes one group of whatever it consists of, also
// with an intermediate that something else reads.

// CHECK-LABEL: fuse.model @chain
// CHECK:      fuse.fused_call "group" [@a, @b](%arg0) also [0]
// CHECK:      func.func @"a+b#0"(%[[X:.*]]: tensor<8xf32>,
// CHECK-SAME:   %[[W:.*]]: tensor<8xf32> {fuse.parameter = "b.w"})
// CHECK-SAME:   attributes {fuse.group}
// CHECK-NEXT: %[[G:.*]]:2 = fuse.group(%[[I:.*]] = %[[X]] : tensor<8xf32>,
// CHECK-SAME:   %[[V:.*]] = %[[W]] : tensor<8xf32>)
// CHECK-SAME:   origins(["a", "b"]) site("a+b#0#0")
// CHECK-NEXT:   %[[N:.*]] = arith.negf %[[I]]
// CHECK-NEXT:   %[[M:.*]] = arith.mulf %[[N]], %[[V]]
// CHECK-NEXT:   fuse.yield %[[N]], %[[M]]
// CHECK:      return %[[G]]#1, %[[G]]#0
// REMARK: [Passed] a+b#0#0 | {{.*}}Family=group
// OFF: [Missed] a+b#0#0 | {{.*}}FUSE-N013 disabled
fuse.model @chain class "M" {
  fuse.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = arith.negf %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  fuse.module @b class "B" {
    fuse.parameter @w : tensor<8xf32>
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %w = fuse.get_parameter @w : tensor<8xf32>
      %y = arith.mulf %x, %w : tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %a = fuse.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %b = fuse.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
    return %b, %a : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// A kernel has no effects.

// CHECK-LABEL: fuse.model @effects
// CHECK-NOT: fuse.group(
// REMARK: [Missed] a+b#0#0 | {{.*}}FUSE-N023 member-has-effects
fuse.model @effects class "M" {
  fuse.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = arith.negf %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  fuse.module @b class "B" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %buffer = memref.alloc() : memref<8xf32>
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %a = fuse.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %b = fuse.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}
