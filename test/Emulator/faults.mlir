// RUN: fuse-compile %s --chip=sm_90a --cpu=none --assemble=never -o %t.fuse
// RUN: fuse-compile --verify --emulate %t.fuse | FileCheck %s --check-prefix=RIGHT
// RUN: %python %S/Inputs/damage.py %t.fuse %t.bad.fuse 'wgmma.fence.sync.aligned;' ''
// RUN: not fuse-compile --verify --emulate %t.bad.fuse | FileCheck %s

// A fault ends all that a context does on a GPU. Functions are run in contexts
// of their own, so that it stays with the one whose kernel has it.

// RIGHT: V2 @before {{.*}} ok
// RIGHT: V2 @broken {{.*}} ok
// RIGHT: V2 @behind {{.*}} ok

// CHECK: V2 @before {{.*}} ok
// CHECK: V2 @broken {{.*}} FAILED: {{.*}}there is no wgmma.fence before it
// CHECK: V2 @behind {{.*}} ok

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

func.func @behind(%x: tensor<3x8xbf16>) -> tensor<3x8xbf16> {
  %y = fuse.activation silu %x : tensor<3x8xbf16> -> tensor<3x8xbf16>
  return %y : tensor<3x8xbf16>
}
