// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --convert-kernels-to-ptx | FileCheck %s

// A loop of four rounds is unrolled, and its index is folded into addresses.
// What is called is a function of the same text.

// CHECK-LABEL: gpu.binary @kernels [#gpu.object<#nvvm.target<chip = "sm_90"
// CHECK-SAME:    .version 7.8
// CHECK-SAME:    .target sm_90
// CHECK-SAME:    .visible .entry store4(
// CHECK-NOT:     bra
// CHECK-COUNT-4: st.global
// CHECK-NOT:     st.global
// CHECK-NOT:   gpu.module
gpu.module @kernels [#nvvm.target<chip = "sm_90", features = "+ptx78">] {
  llvm.func @store4(%x: !llvm.ptr<1>, %v: f32)
      attributes {gpu.kernel, nvvm.kernel} {
    %zero = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    %four = llvm.mlir.constant(4 : i64) : i64
    llvm.br ^head(%zero : i64)
  ^head(%i: i64):
    %more = llvm.icmp "slt" %i, %four : i64
    llvm.cond_br %more, ^body, ^end
  ^body:
    %p = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %v, %p {alignment = 4 : i64} : f32, !llvm.ptr<1>
    %next = llvm.add %i, %one : i64
    llvm.br ^head(%next : i64)
  ^end:
    llvm.return
  }
}

// -----

// Without a kernel there is nothing to do.

// CHECK-LABEL: func.func @none
// CHECK-NOT:   gpu.binary
func.func @none() {
  return
}

// -----

// expected-error @below {{expected one target to compile for, but got 0}}
gpu.module @no_target {
}

// -----

// expected-error @below {{expected a target of type #nvvm.target, but got #rocdl.target}}
gpu.module @other_target [#rocdl.target] {
}

// -----

// expected-error @below {{is for an unknown chip 'sm_99', expected one of sm_80}}
gpu.module @unknown_chip [#nvvm.target<chip = "sm_99">] {
}
