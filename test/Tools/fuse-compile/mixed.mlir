// Scheduled kernels and portable ones in the plan of one function, in the order
// of the ops. Each scheduled op has a workspace of its own, in front of buffers
// whose size depends on the tokens; a weight that two kernels read is packed
// once. Results are written in place.

// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   --mixed --tokens=8 -o %t.fuse
// RUN: fuse-info %t.fuse | FileCheck %s
// RUN: fuse-info --json %t.fuse | FileCheck %s --check-prefix=JSON
// RUN: fuse-info --ptx %t.fuse | FileCheck %s --check-prefix=PTX
// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   --mixed --tokens=64 -o %t.fuse --remarks 2>&1 \
// RUN:   | FileCheck %s --check-prefix=RANGES

// RANGES: remark: Missed [codegen] ranges: {{.*}}has kernels for one range of tokens, here for up to 64

// CHECK-LABEL: @two
// CHECK:       tokens at most 8
// CHECK:       CUDA sm_90a, PTX 8.0
// CHECK-NEXT:  CUDA sm_90a, PTX 8.0
// CHECK-NEXT:  workspace [[BYTES:[0-9]+]] bytes
// CHECK-NEXT:  workspace [[BYTES]] bytes
// CHECK-NEXT:  workspace ["mul","s0",128] bytes
// CHECK-NEXT:  workspace ["mul","s0",128] bytes
// CHECK-NEXT:  launch mlp_decode_0 {{.*}} cooperative module 0
// CHECK-NEXT:  launch map_bf16_bf16 {{.*}} module 1
// CHECK-NEXT:  launch mlp_decode_0 {{.*}} cooperative module 0
// CHECK-NEXT:  packed rows_256 of arguments [1],
// CHECK-NEXT:  packed rows_256 of arguments [2],
// CHECK-NOT:   launch

// A weight that is computed can not be packed before the first launch, so that
// all of the function takes the portable path.
// CHECK-LABEL: @computed_weight
// CHECK-NOT:   tokens
// CHECK-NOT:   decode

// Such a plan has the kernels for the largest range of tokens, and no others.
// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   --mixed --tokens=32 -o %t.32.fuse
// RUN: fuse-info %t.32.fuse | FileCheck %s --check-prefix=LARGEST
// LARGEST-LABEL: @two
// LARGEST:       tokens at most 32
// LARGEST-NOT:   tokens 1 to
// LARGEST:       launch mlp_decode_{{[0-9]+}}
// LARGEST-NEXT:  launch map_bf16_bf16
// LARGEST-NEXT:  launch mlp_decode_{{[0-9]+}}
// LARGEST-NEXT:  packed

// JSON: "path": "mixed"
// JSON: "path": "portable"

// PTX:     .entry mlp_decode_0
// PTX-NOT: .entry mlp_decode_1
// PTX:     .entry map_bf16_bf16

func.func @two(%x: tensor<?x64xbf16>, %up: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %0 = fuse.linear %x, %up
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %1 = fuse.activation silu %0 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %2 = fuse.linear %1, %down
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %3 = fuse.activation gelu_tanh %2 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %4 = fuse.linear %3, %up
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %5 = fuse.activation silu %4 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %6 = fuse.linear %5, %down
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  return %6 : tensor<?x64xbf16>
}

func.func @computed_weight(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %up = fuse.activation relu %w : tensor<64x64xbf16> -> tensor<64x64xbf16>
  %0 = fuse.linear %x, %up
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %1 = fuse.activation silu %0 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %2 = fuse.linear %1, %down
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  return %2 : tensor<?x64xbf16>
}
