// A remark names each scheduled kernel that a plan of the artifact launches. A
// kernel that does not reach the artifact has none: a weight that is computed
// cannot be packed before the first launch.

// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never --tokens=8 \
// RUN:   --remarks -o %t.fuse 2>&1 | grep tile-kernel | FileCheck %s
// RUN: fuse-artifact info %t.fuse | FileCheck %s --check-prefix=ARTIFACT
// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never --portable \
// RUN:   --remarks -o %t.fuse 2>&1 | FileCheck %s --check-prefix=PORTABLE
// RUN: fuse-artifact info %t.fuse | FileCheck %s --check-prefix=PORTABLE

// CHECK:     [[# @LINE + 12]]:{{.*}}remark: Passed [codegen] tile-kernel: Kernel=mlp_decode_0
// CHECK-NOT: tile-kernel

// ARTIFACT:     @mlp
// ARTIFACT:     launch mlp_decode_0
// ARTIFACT:     @computed
// ARTIFACT-NOT: launch mlp_decode

// PORTABLE-NOT: mlp_decode

func.func @mlp(%x: tensor<?x128xbf16>, %up: tensor<256x128xbf16>,
               %down: tensor<128x256xbf16>) -> tensor<?x128xbf16> {
  %u = fuse.linear %x, %up
    : (tensor<?x128xbf16>, tensor<256x128xbf16>) -> tensor<?x256xbf16>
  %a = fuse.activation silu %u : tensor<?x256xbf16> -> tensor<?x256xbf16>
  %d = fuse.linear %a, %down
    : (tensor<?x256xbf16>, tensor<128x256xbf16>) -> tensor<?x128xbf16>
  return %d : tensor<?x128xbf16>
}

func.func @computed(%x: tensor<?x128xbf16>, %raw: tensor<256x128xbf16>,
                    %down: tensor<128x256xbf16>) -> tensor<?x128xbf16> {
  %up = fuse.activation relu %raw
    : tensor<256x128xbf16> -> tensor<256x128xbf16>
  %u = fuse.linear %x, %up
    : (tensor<?x128xbf16>, tensor<256x128xbf16>) -> tensor<?x256xbf16>
  %a = fuse.activation silu %u : tensor<?x256xbf16> -> tensor<?x256xbf16>
  %d = fuse.linear %a, %down
    : (tensor<?x256xbf16>, tensor<128x256xbf16>) -> tensor<?x128xbf16>
  return %d : tensor<?x128xbf16>
}
