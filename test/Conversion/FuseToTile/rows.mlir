// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --fuse-hopper-pipeline=stage=nvvm -o /dev/null

// A block goes round the rows; all its threads share one.

// CHECK-LABEL: func @norm
// CHECK:         %[[Q:.*]]:2 = tile.launch @fuse_kernels::@norm_quantize_rows_0 ins(%arg0, %arg1, %arg2 : {{.*}}) outs(%{{.*}}) plan
// CHECK-SAME:      blocks = 4, threads = {{[0-9]+}}, {{(shared_bytes = [0-9]+, )?(dependent = true, )?}}max_tokens = 4194303,
// CHECK-SAME:      #tile.operand<2>, #tile.result<0>, #tile.result<1>, #tile.tokens, #tile.scalar<"input" = 5.000000e-01 : f32 over 2.000000e+00 : f32>
// CHECK:         return %[[Q]]#0, %[[Q]]#1
func.func @norm(%x: tensor<?x512xbf16>, %r: tensor<?x512xbf16>,
                %w: tensor<512xbf16>)
    -> (tensor<?x512xf8E4M3FN>, tensor<?x512xbf16>) {
  %q, %s = fuse.norm_quantize %x residual(%r) norm(rms %w eps 1.0e-6)
             also([stream]) scales(f8E4M3FN, input = 2.0) rounding(exact)
             {tile.schedule = #tile.row_schedule<blocks = 4, threads = 64>}
    : (tensor<?x512xbf16>, tensor<?x512xbf16>, tensor<512xbf16>)
      -> (tensor<?x512xf8E4M3FN>, tensor<?x512xbf16>)
  return %q, %s : tensor<?x512xf8E4M3FN>, tensor<?x512xbf16>
}

// Elements are taken in order, four accesses of a thread at a time.

// CHECK-LABEL: func @act
// CHECK:         tile.launch @fuse_kernels::@act_quantize_rows_0 ins(%arg0, %arg1 : {{.*}}) outs(%{{.*}}) plan
// CHECK-SAME:      #tile.scalar<"hidden"
func.func @act(%g: tensor<?x64xbf16>, %u: tensor<?x64xbf16>)
    -> tensor<?x64xf8E4M3FN> {
  %q = fuse.act_quantize %g times(%u) act(silu)
         scales(f8E4M3FN, hidden = 2.0) rounding(exact)
         {tile.schedule = #tile.row_schedule<blocks = 4, threads = 32>}
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  return %q : tensor<?x64xf8E4M3FN>
}

// CHECK-LABEL: tile.kernel @norm_quantize_rows_0(
// CHECK-SAME:    blocks(4) threads(64) shared_bytes(0) {
// CHECK:         scf.for
// CHECK:           tile.load {{.*}} -> vector<8xbf16>
// CHECK:           tile.store {{.*}} : vector<8xbf16>
// CHECK:           tile.reduce {{.*}} warps(0 to 2) barrier(1)
// CHECK:           tile.store {{.*}} : vector<8xf8E4M3FN>
// CHECK:           tile.barrier 1 threads(64)
// CHECK-LABEL: tile.kernel @act_quantize_rows_0(
// CHECK-COUNT-8:   tile.load {{.*}} -> vector<8xbf16>
// CHECK-COUNT-4:   tile.store {{.*}} : vector<8xf8E4M3FN>
// CHECK-NOT:       tile.store
