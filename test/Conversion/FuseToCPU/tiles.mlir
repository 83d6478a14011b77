// RUN: fuse-opt %s --split-input-file \
// RUN:     --convert-fuse-to-cpu='lanes=16 dot tiles' | FileCheck %s

// Sums of a multiple of 32 terms are made by AMX, for any number of tokens, so
// that a token has the same sums alone and among others. A tile of weights is
// read where they lie: 16 pairs, a panel of 64 outputs apart.

// CHECK: function = "gated_hidden", multiple = 32 : i64
// CHECK: func.func private @multiply_tiles_2(
// CHECK: func.func private @multiply_tiles_1(
// CHECK-SAME: %[[X:[^:]*]]: memref<{{[0-9]+}}xi16>, {{.*}}, %[[ROWS:[^:]*]]: index)
// CHECK: %[[BYTES:.*]] = arith.constant 64 : i16
// CHECK: %[[ALL:.*]] = arith.constant 16 : i16
// CHECK: %[[FEW:.*]] = arith.index_cast %[[ROWS]] : index to i16
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.tilezero.internal"(%[[FEW]], %[[BYTES]])
// CHECK: scf.for {{.*}} -> (!llvm.x86_amx, !llvm.x86_amx, !llvm.x86_amx, !llvm.x86_amx)
// CHECK: %[[A:.*]] = llvm.call_intrinsic "llvm.x86.tileloadd64.internal"(%[[FEW]], %[[BYTES]]
// Weights of the step after next are asked for: 64 lines of 64 bytes.
// CHECK-COUNT-64: llvm.intr.prefetch
// CHECK: %[[B:.*]] = llvm.call_intrinsic "llvm.x86.tileloadd64.internal"(%[[ALL]], %[[BYTES]]
// CHECK: llvm.call_intrinsic "llvm.x86.tdpbf16ps.internal"(%[[FEW]], %[[BYTES]], %[[BYTES]], %{{.*}}, %[[A]], %[[B]])
// CHECK: scf.yield
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.tilestored64.internal"
// Sums of a block of terms are added to those before them.
// CHECK: arith.addf
// CHECK-LABEL: func.func @gated_hidden(
// CHECK: call @multiply_tiles_1
// CHECK: call @multiply_tiles_2
// CHECK-NOT: dpbf16ps.512
func.func @gated(%x: tensor<?x64xbf16>, %g: tensor<128x64xbf16>,
                 %u: tensor<128x64xbf16>, %d: tensor<64x128xbf16>)
    -> tensor<?x64xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<128x64xbf16>,
       tensor<64x128xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// 48 terms are no multiple of 32, and f32 has no tiles.

// CHECK: func.func private @multiply_f32_1(
// CHECK: func.func private @multiply_bf16_1(
// CHECK: dpbf16ps.512
// CHECK-NOT: x86_amx
func.func @odd(%x: tensor<?x48xbf16>, %u: tensor<48x48xbf16>,
               %d: tensor<48x48xbf16>) -> tensor<?x48xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x48xbf16>, tensor<48x48xbf16>, tensor<48x48xbf16>)
      -> tensor<?x48xbf16>
  return %y : tensor<?x48xbf16>
}
func.func @wide(%x: tensor<?x64xf32>, %u: tensor<64x64xf32>,
                %d: tensor<64x64xf32>) -> tensor<?x64xf32> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
      -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
