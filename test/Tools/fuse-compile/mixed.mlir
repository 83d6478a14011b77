// Scheduled kernels and portable ones in the plan of one function, in the order
// of the ops. Words for blocks to meet on come before buffers whose size depends
// on the tokens, and ops with the same kernel share them and their workspace; a
// weight that two kernels read is packed once. Results are written in place.

// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   --tokens=8 -o %t.fuse 2>&1 | FileCheck %s --check-prefix=WARN
// RUN: fuse-artifact info %t.fuse | FileCheck %s
// RUN: fuse-artifact info --json %t.fuse | FileCheck %s --check-prefix=JSON
// RUN: fuse-artifact info --ptx %t.fuse | FileCheck %s --check-prefix=PTX

// CHECK-LABEL: @two
// CHECK:       tokens at most 8
// CHECK:       CUDA sm_90a, PTX 8.0
// CHECK-NEXT:  CUDA sm_90a, PTX 8.0
// CHECK-NEXT:  workspace {{[0-9]+}} bytes
// CHECK-NEXT:  workspace ["mul","s0",128] bytes
// CHECK-NEXT:  workspace {{[0-9]+}} bytes
// CHECK-NEXT:  launch mlp_decode_0 {{.*}} cooperative module 1
// CHECK-NEXT:  launch map_bf16_bf16 {{.*}} module 0
// CHECK-NEXT:  launch mlp_decode_0 {{.*}} cooperative module 1
// CHECK-NEXT:  packed rows_256 of arguments [1],
// CHECK-NEXT:  packed rows_256 of arguments [2],
// CHECK-NOT:   launch

// A weight that is computed cannot be packed before the first launch, so that
// its op takes the portable path, with a warning.
// WARN: warning: {{.*}}gets no scheduled kernel: FUSE-N160 computed-weight: operand 1 is a computed weight
// CHECK-LABEL: @computed_weight
// CHECK-NOT:   tokens
// CHECK-NOT:   decode

// For more tokens there are launches for each range of their number.
// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   --tokens=32 -o %t.32.fuse --remarks > %t.remarks
// RUN: fuse-artifact info %t.32.fuse | FileCheck %s --check-prefix=RANGES
// RUN: FileCheck %s --check-prefix=NONE --allow-empty < %t.remarks
// RANGES-LABEL: @two
// RANGES:       tokens at most 32
// RANGES:       tokens 1 to 8
// RANGES-NEXT:  workspace [[WORDS:[0-9]+]] bytes
// RANGES:       launch [[FEW:mlp_decode_[0-9]+]]
// RANGES-NEXT:  launch map_bf16_bf16
// RANGES-NEXT:  launch [[FEW]]
// RANGES-NEXT:  tokens 9 to 16
// RANGES-NEXT:  workspace [[WORDS]] bytes
// RANGES:       launch [[SOME:mlp_decode_[0-9]+]]
// RANGES-NEXT:  launch map_bf16_bf16
// RANGES-NEXT:  launch [[SOME]]
// RANGES-NEXT:  tokens 17 to 32
// RANGES-NEXT:  workspace [[WORDS]] bytes
// RANGES:       launch [[MANY:mlp_decode_[0-9]+]]
// RANGES-NEXT:  launch map_bf16_bf16
// RANGES-NEXT:  launch [[MANY]]
// RANGES-NEXT:  packed
// NONE-NOT: ranges:

// Where one scheduled op reads the result of another one, nothing is between.
// CHECK-LABEL: @next_to_each_other
// CHECK:       launch [[KERNEL:mlp_decode_[0-9]+]]
// CHECK-NEXT:  launch [[KERNEL]]
// CHECK-NEXT:  packed

// JSON: "path": "mixed"
// JSON: "path": "portable"
// JSON: "path": "scheduled"

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

func.func @next_to_each_other(%x: tensor<?x64xbf16>, %up: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %0 = fuse.mlp %x up(%up) down(%down) act(silu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<?x64xbf16>
  %1 = fuse.mlp %0 up(%up) down(%down) act(silu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<?x64xbf16>
  return %1 : tensor<?x64xbf16>
}
