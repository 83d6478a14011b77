// RUN: fuse-opt %s --split-input-file \
// RUN:     --convert-fuse-to-cpu='lanes=4 registers=16' | FileCheck %s
// RUN: fuse-opt %s --split-input-file \
// RUN:     --convert-fuse-to-cpu='lanes=16 dot' \
// RUN:   | FileCheck %s --check-prefix=DOT
// RUN: fuse-opt %s --split-input-file \
// RUN:     --convert-fuse-to-cpu='lanes=4 registers=16 fma=false' \
// RUN:   | FileCheck %s --check-prefix=PLAIN

// The plan: what is packed, which buffers tokens need, and the phases in order.

// CHECK-LABEL: func @gated
// CHECK-SAME: fuse.cpu_plan = {input = 0 : i64, packed = [
// CHECK-SAME: {bytes = 8192 : i64, columns = 8 : i64, operands = [2, 3], recipe = "panels", steps = 16 : i64, tiles = 16 : i64},
// CHECK-SAME: {bytes = 4096 : i64, columns = 8 : i64, operands = [4], recipe = "panels", steps = 64 : i64, tiles = 2 : i64}],
// CHECK-SAME: {arguments = [{operand = 0 : i64}, {operand = 1 : i64}, {workspace = 0 : i64}], function = "gated_rows", panels = 1 : i64, tokens = 4 : i64}
// CHECK-SAME: {arguments = [{workspace = 0 : i64}, {packed = 0 : i64}, {workspace = 1 : i64}], function = "gated_hidden", multiple = 6 : i64, panels = 16 : i64, tokens = 128 : i64}
// CHECK-SAME: {arguments = [{workspace = 1 : i64}, {packed = 1 : i64}, {operand = 0 : i64}, {result = 0 : i64}], function = "gated_output0", multiple = 6 : i64, panels = 2 : i64, tokens = 128 : i64}
// CHECK-SAME: workspace = [64, 256]
// CHECK: fuse.gated_mlp

// CHECK: module @cpu_kernels

// Sums of one token stay in registers; the weights of a step are next to each
// other. Functions take plain pointers, which LLVM has only for memrefs of
// static shape; nothing reads their size.

// CHECK: func.func private @multiply_f32_1(
// CHECK-SAME: %[[X:[^:]*]]: memref<[[ANY:[0-9]+]]xf32>, %[[START:[^:]*]]: index, %{{[^:]*}}: index, %[[W:[^:]*]]: memref<[[ANY]]xf32>,
// CHECK: scf.for %[[K:.*]] = %{{.*}} iter_args(%[[S0:.*]] = %{{.*}}, %[[S1:.*]] = %{{.*}}) -> (vector<4xf32>, vector<4xf32>)
// CHECK: %[[W0:.*]] = vector.load %[[W]]
// CHECK: %[[W1:.*]] = vector.load %[[W]]
// CHECK: %[[I:.*]] = arith.addi %[[START]], %[[K]]
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[I]]]
// CHECK: %[[B:.*]] = vector.broadcast %[[V]]
// CHECK: %[[N0:.*]] = vector.fma %[[B]], %[[W0]], %[[S0]]
// CHECK: %[[N1:.*]] = vector.fma %[[B]], %[[W1]], %[[S1]]
// CHECK: scf.yield %[[N0]], %[[N1]]

// PLAIN: func.func private @multiply_f32_1(
// PLAIN-NOT: vector.fma
// PLAIN: %[[P:.*]] = arith.mulf {{.*}} : vector<4xf32>
// PLAIN: arith.addf %[[P]]

// CHECK: func.func private @multiply_f32_2(
// CHECK: func.func private @multiply_f32_4(

// Only the code for most tokens prefetches the next block of the panel.

// CHECK-NOT: llvm.intr.prefetch
// CHECK: func.func private @multiply_f32_6(
// CHECK-SAME: %[[P:[^:]*]]: memref<[[ANY]]xf32>, %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: memref<[[ANY]]xf32>, %{{[^:]*}}: index, %[[AHEAD:[^:]*]]: index)
// CHECK: arith.addi %[[AHEAD]]
// CHECK: memref.extract_aligned_pointer_as_index %[[P]]
// CHECK: llvm.intr.prefetch

// CHECK: func.func @gated_rows(%{{.*}}: memref<3xindex>, {{.*}}) attributes {llvm.bareptr}
// CHECK: vector.fma
// CHECK: math.rsqrt
// The caller may choose the number of tokens in a task.
// CHECK: func.func @gated_hidden(
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<1024xf32>
// CHECK: %[[GIVEN:.*]] = arith.shrui %{{.*}}, %c48
// CHECK: arith.cmpi eq, %[[GIVEN]], %c0
// CHECK: arith.select %{{.*}}, %c128{{.*}}, %[[GIVEN]]
// CHECK: call @multiply_f32_6
// CHECK: call @multiply_f32_4
// CHECK: call @multiply_f32_2
// CHECK: call @multiply_f32_1
// CHECK: math.exp %{{.*}} : vector<4xf32>
// CHECK: arith.mulf
// CHECK: vector.store
// CHECK: func.func @gated_output0(
// The vectors of a panel have one piece of code.
// CHECK: scf.for
// CHECK: call @multiply_f32_1
// CHECK: scf.for
// CHECK: scf.for
// CHECK-NOT: scf.for
// The residual is added to the rounded sum, which f32 does not change.
// CHECK: arith.addf
// CHECK-NEXT: vector.store
func.func @gated(%x: tensor<?x16xf32>, %w: tensor<16xf32>,
                 %g: tensor<64x16xf32>, %u: tensor<64x16xf32>,
                 %d: tensor<16x64xf32>) -> tensor<?x16xf32> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) then_add(%x) rounding(exact)
    : (tensor<?x16xf32>, tensor<16xf32>, tensor<64x16xf32>, tensor<64x16xf32>,
       tensor<16x64xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}

// -----

// In bf16 a step is a pair. AVX512-BF16 multiplies it as it is; other
// processors widen both halves.

// DOT-LABEL: func.func private @multiply_bf16_1(
// DOT-SAME: memref<{{[0-9]+}}xi16>, %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: memref<{{[0-9]+}}xi16>
// DOT: vector.load {{.*}} vector<32xi16>
// DOT: %[[PAIR:.*]] = vector.load {{.*}} vector<2xi16>
// DOT: vector.bitcast %[[PAIR]] : vector<2xi16> to vector<1xi32>
// DOT: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"

// CHECK-LABEL: func.func private @multiply_bf16_1(
// CHECK-SAME: memref<{{[0-9]+}}xf32>, %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: memref<{{[0-9]+}}xi16>
// CHECK: %[[BITS:.*]] = vector.bitcast %{{.*}} : vector<8xi16> to vector<4xi32>
// CHECK: arith.shli %[[BITS]]
// CHECK: arith.andi %[[BITS]]

// What does not fill a vector or a panel has a mask, and what is rounded
// between layers is rounded here.

// CHECK-LABEL: func.func @dense_rows(
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: arith.truncf %[[SUM]] : vector<4xf32> to vector<4xbf16>
// CHECK: %[[LANES:.*]] = arith.constant dense<[0, 1, 2, 3]> : vector<4xindex>
// CHECK: %[[MASK:.*]] = arith.cmpi slt, %[[LANES]], %{{.*}} : vector<4xindex>
// CHECK: vector.maskedload %{{.*}}, %[[MASK]]
// CHECK-LABEL: func.func @dense_hidden(
// CHECK: %[[REST:.*]] = vector.broadcast %{{.*}} : index to vector<4xindex>
// CHECK: %[[MASK:.*]] = arith.cmpi slt, %{{.*}}, %[[REST]] : vector<4xindex>
// CHECK: vector.maskedload %{{.*}}, %[[MASK]]
// CHECK: arith.truncf
// CHECK: arith.maximumf
// CHECK: vector.maskedstore
// The stream, which is a result, is added at the end.
// CHECK-LABEL: func.func @dense_output0(
// CHECK: arith.truncf
// CHECK: vector.maskedstore
func.func @dense(%x: tensor<2x?x6xbf16>, %r: tensor<2x?x6xbf16>,
                 %u: tensor<10x6xbf16>, %b: tensor<10xbf16>,
                 %d: tensor<6x10xbf16>)
    -> (tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) {
  %y, %s = fuse.mlp %x residual(%r) up(%u bias %b) down(%d) act(relu)
             add_stream also([stream]) rounding(exact)
    : (tensor<2x?x6xbf16>, tensor<2x?x6xbf16>, tensor<10x6xbf16>,
       tensor<10xbf16>, tensor<6x10xbf16>)
      -> (tensor<2x?x6xbf16>, tensor<2x?x6xbf16>)
  return %y, %s : tensor<2x?x6xbf16>, tensor<2x?x6xbf16>
}

// -----

// Each linear has a phase and weights of its own.

// CHECK-LABEL: func @projections
// CHECK: module @cpu_kernels
// CHECK: func.func @projections_rows(
// The variance is taken of distances from the mean.
// CHECK: arith.subf
// CHECK: func.func @projections_output0(
// CHECK: func.func @projections_output1(
func.func @projections(%x: tensor<?x8xf32>, %w: tensor<8xf32>,
                       %b: tensor<8xf32>, %q: tensor<16x8xf32>,
                       %k: tensor<8x8xf32>)
    -> (tensor<?x16xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %r:3 = fuse.norm_linear %x norm(layer %w, %b eps 1.0e-5) linear(%q, %k)
           also([normed]) rounding(exact)
    : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16x8xf32>,
       tensor<8x8xf32>)
      -> (tensor<?x16xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  return %r#0, %r#1, %r#2
    : tensor<?x16xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// -----

// A linear without a norm reads the input where it is, and adds in its only
// phase.

// CHECK-LABEL: func @output_projection
// CHECK-SAME: packed = [{bytes = 512 : i64, columns = 8 : i64, operands = [1], recipe = "panels"
// CHECK-SAME: phases = [{arguments = [{operand = 0 : i64}, {packed = 0 : i64}, {operand = 2 : i64}, {operand = 3 : i64}, {result = 0 : i64}
// CHECK-SAME: function = "output_projection_output0"
// CHECK-SAME: }], workspace = []
func.func @output_projection(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>,
                             %b: tensor<8xf32>, %r: tensor<?x8xf32>)
    -> tensor<?x8xf32> {
  %y = fuse.fused_linear %x linear(%w bias %b) then_add(%r) rounding(exact)
    : (tensor<?x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<?x8xf32>)
      -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
