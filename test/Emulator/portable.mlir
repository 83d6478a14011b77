// RUN: not fuse-run %S/../Target/ptx-families.mlir --verify --chip=sm_90a \
// RUN:   --portable --orders=2 --dim=tokens=17 | FileCheck %s

// Every family and type on the portable path. The last three functions have
// nothing to fuse, which V0 does not like.

// CHECK-NOT: V2 {{.*}} FAILED
// CHECK-COUNT-14: V2 portable on fuse emulator ok {{.*}} values checked by contract, the same bits 2 times
// CHECK-NOT: V2 {{.*}} FAILED
