// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   -o %t.fuse
// RUN: fuse-artifact info --json %t.fuse | FileCheck %s
// RUN: fuse-compile --verify --emulate %t.fuse \
// RUN:   | FileCheck %s --check-prefix=RUNS

// A scheduled op between portable ones has a token in each row: ranges are by
// the product of all sizes but the last.

// CHECK: "tokens": [
// CHECK-NEXT: [
// CHECK-NEXT: "mul",
// CHECK-NEXT: "s0",
// CHECK-NEXT: "s1"
// RUNS: V2 @batches has the results of its layers on fuse emulator ok
// RUNS: V2 @one has the results of its layers on fuse emulator ok

func.func @batches(%x: tensor<?x?x64xbf16>, %w: tensor<32x64xbf16>)
    -> tensor<?x?x32xbf16> {
  %0 = arith.negf %x : tensor<?x?x64xbf16>
  %1 = fuse.norm_linear %0 norm(rms eps 1.0e-6) linear(%w) rounding(exact)
       : (tensor<?x?x64xbf16>, tensor<32x64xbf16>) -> tensor<?x?x32xbf16>
  return %1 : tensor<?x?x32xbf16>
}

func.func @one(%x: tensor<64xbf16>, %w: tensor<32x64xbf16>)
    -> tensor<32xbf16> {
  %0 = arith.negf %x : tensor<64xbf16>
  %1 = fuse.norm_linear %0 norm(rms eps 1.0e-6) linear(%w) rounding(exact)
       : (tensor<64xbf16>, tensor<32x64xbf16>) -> tensor<32xbf16>
  return %1 : tensor<32xbf16>
}
