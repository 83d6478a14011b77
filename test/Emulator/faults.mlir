// RUN: fuse-compile %s --chip=sm_90a --cpu=none --assemble=never -o %t.fuse
// RUN: fuse-compile --verify --emulate %t.fuse | FileCheck %s --check-prefix=RIGHT
// RUN: %python %S/Inputs/damage.py %t.fuse %t.bad.fuse 'wgmma.fence.sync.aligned;' ''
// RUN: not fuse-compile --verify --emulate %t.bad.fuse | FileCheck %s

// A fault ends all work of its context on a GPU. Each function runs in its own
// context, so a fault in one function does not affect the others.

// RIGHT: V2 @before {{.*}} ok
// RIGHT: V2 @broken {{.*}} ok
// RIGHT: V2 @after {{.*}} ok

// CHECK: V2 @before {{.*}} ok
// CHECK: V2 @broken {{.*}} FAILED: {{.*}}there is no wgmma.fence before it
// CHECK: V2 @after {{.*}} ok

func.func @before(%x: tensor<3x8xbf16>) -> tensor<3x8xbf16> {
  %y = fuse.activation relu %x : tensor<3x8xbf16> -> tensor<3x8xbf16>
  return %y : tensor<3x8xbf16>
}

func.func @broken(%x: tensor<9x128xbf16>, %u: tensor<192x128xbf16>,
                  %d: tensor<128x192xbf16>) -> tensor<9x128xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
       : (tensor<9x128xbf16>, tensor<192x128xbf16>, tensor<128x192xbf16>)
         -> tensor<9x128xbf16>
  return %y : tensor<9x128xbf16>
}

func.func @after(%x: tensor<3x8xbf16>) -> tensor<3x8xbf16> {
  %y = fuse.activation silu %x : tensor<3x8xbf16> -> tensor<3x8xbf16>
  return %y : tensor<3x8xbf16>
}
