// DEFINE: %{verify} = not fuse-run %S/../Target/ptx-families.mlir --verify \
// DEFINE:   --portable --orders=2
// RUN: %{verify} --chip=sm_90a --dim=tokens=17 | FileCheck %s
// RUN: %{verify} --chip=sm_80 --dim=tokens=0,1,33 | FileCheck %s

// Every family and type on the portable path. Chips without bf16 arithmetic use
// other instructions. The runs fail at V0, because the last three functions
// have nothing to fuse.

// CHECK-NOT: V2 {{.*}} FAILED
// CHECK-COUNT-14: V2 portable on fuse emulator ok {{.*}} values checked by contract, the same bits 2 times
// CHECK-NOT: V2 {{.*}} FAILED
