// RUN: fuse-opt %s --fuse-localize-shards='size=2' --split-input-file \
// RUN:   | FileCheck %s

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>
#columns = #fuse.shard<dim = 1, axis = "tp", count = 2>

// Layers: a colwise linear has a result of which a rank has a part, and a
// rowwise one a partial sum in f32. The bias, the residual and the next norm
// follow the sum once.

// CHECK-LABEL: func.func @layers
// CHECK-SAME: %[[X:.*]]: tensor<?x8xbf16>, %[[U:.*]]: tensor<16x8xbf16> {fuse.shard = #fuse.shard<dim = 0, axis = "tp", count = 2>}
// CHECK-SAME: %[[UB:.*]]: tensor<16xbf16>
// CHECK-SAME: %[[D:.*]]: tensor<8x16xbf16>
// CHECK-SAME: %[[DB:.*]]: tensor<8xbf16>
// CHECK-SAME: attributes {fuse.ranks = 2 : i64}
// CHECK: %[[H:.*]] = fuse.linear %[[X]], %[[U]] bias(%[[UB]]) {{.*}} -> tensor<?x16xbf16>
// CHECK: %[[A:.*]] = fuse.activation gelu %[[H]] : tensor<?x16xbf16>
// CHECK: %[[P:.*]] = fuse.linear %[[A]], %[[D]] : {{.*}} -> tensor<?x8xf32>
// CHECK: %[[S:.*]] = fuse.all_reduce %[[P]] bias(%[[DB]]) added after_rounding group("tp", 2) order(rank) : (tensor<?x8xf32>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK: %[[R:.*]] = fuse.residual_add %[[S]], %[[X]]
// CHECK: fuse.rms_norm %[[R]]
func.func @layers(%x: tensor<?x8xbf16>,
                  %u: tensor<32x8xbf16> {fuse.shard = #rows},
                  %ub: tensor<32xbf16> {fuse.shard = #rows},
                  %d: tensor<8x32xbf16> {fuse.shard = #columns},
                  %db: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %h = fuse.linear %x, %u bias(%ub)
    : (tensor<?x8xbf16>, tensor<32x8xbf16>, tensor<32xbf16>)
      -> tensor<?x32xbf16>
  %a = fuse.activation gelu %h : tensor<?x32xbf16> -> tensor<?x32xbf16>
  %y = fuse.linear %a, %d bias(%db) added after_rounding
    : (tensor<?x32xbf16>, tensor<8x32xbf16>, tensor<8xbf16>)
      -> tensor<?x8xbf16>
  %r = fuse.residual_add %y, %x
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %n = fuse.rms_norm %r eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %n : tensor<?x8xbf16>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>
#columns = #fuse.shard<dim = 1, axis = "tp", count = 2>

// A fused op keeps what precedes the sum. Its leading residual is replicated,
// and its stream is a result if the end adds it.

// CHECK-LABEL: func.func @fused
// CHECK: %[[Y:.*]]:2 = fuse.gated_mlp %[[X:.*]] residual(%{{.*}}) norm(rms
// CHECK-SAME: gate(%{{.*}}) up(%{{.*}}) down(%[[D:[^ ]*]]) act(silu)
// CHECK-SAME: also([stream]) rounding(exact types {act = f32}) site("mlp#0")
// CHECK-SAME: tensor<16x8xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>) -> (tensor<?x8xf32>, tensor<?x8xbf16>)
// CHECK: %[[S:.*]] = fuse.all_reduce %[[Y]]#0 bias(%[[B:.*]]) group("tp", 2) order(rank) : (tensor<?x8xf32>, tensor<8xbf16>) -> tensor<?x8xf16>
// CHECK: %[[R:.*]] = fuse.residual_add %[[Y]]#1, %[[S]] : (tensor<?x8xbf16>, tensor<?x8xf16>) -> tensor<?x8xbf16>
// CHECK: return %[[R]]
func.func @fused(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>,
                 %w: tensor<8xbf16>,
                 %g: tensor<32x8xbf16> {fuse.shard = #rows},
                 %u: tensor<32x8xbf16> {fuse.shard = #rows},
                 %d: tensor<8x32xbf16> {fuse.shard = #columns},
                 %b: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %w eps 1.0e-6) gate(%g) up(%u)
         down(%d bias %b) act(silu) add_stream
         rounding(exact types {act = f32, down = f16}) site("mlp#0")
    : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<8xbf16>, tensor<32x8xbf16>,
       tensor<32x8xbf16>, tensor<8x32xbf16>, tensor<8xbf16>)
      -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>
#columns = #fuse.shard<dim = 1, axis = "tp", count = 2>

// Operands of the last add keep their order, and a skipped rounding point stays
// in f32.

// CHECK-LABEL: func.func @commuted
// CHECK: fuse.mlp {{.*}} rounding(relaxed skip [act])
// CHECK: %[[S:.*]] = fuse.all_reduce {{.*}} -> tensor<?x8xf32>
// CHECK: fuse.residual_add %[[S]], %{{.*}} : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
func.func @commuted(%x: tensor<?x8xbf16>,
                    %u: tensor<32x8xbf16> {fuse.shard = #rows},
                    %d: tensor<8x32xbf16> {fuse.shard = #columns})
    -> tensor<?x8xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) then_add(%x)
         rounding(relaxed skip [act, down]) provenance(commuted = [then_add])
    : (tensor<?x8xbf16>, tensor<32x8xbf16>, tensor<8x32xbf16>,
       tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

// Projections are colwise: a rank has some of the heads.

// CHECK-LABEL: func.func @projections
// CHECK-SAME: -> (tensor<?x16xbf16> {fuse.shard = #fuse.shard<dim = 1, axis = "tp", count = 2>}, tensor<?x8xbf16>)
// CHECK: fuse.norm_linear {{.*}} -> (tensor<?x16xbf16>, tensor<?x8xbf16>)
func.func @projections(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>,
                       %q: tensor<32x8xbf16> {fuse.shard = #rows},
                       %b: tensor<32xbf16> {fuse.shard = #rows},
                       %k: tensor<8x8xbf16>)
    -> (tensor<?x32xbf16>, tensor<?x8xbf16>) {
  %y:2 = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%q bias %b, %k)
           rounding(exact)
    : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<32x8xbf16>, tensor<8x8xbf16>,
       tensor<32xbf16>) -> (tensor<?x32xbf16>, tensor<?x8xbf16>)
  return %y#0, %y#1 : tensor<?x32xbf16>, tensor<?x8xbf16>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>
#columns = #fuse.shard<dim = 1, axis = "tp", count = 2>

// Scales: those of blocks are cut with the weight, those of outputs of a
// rowwise linear are whole, and static ones are the same on all ranks.

// CHECK-LABEL: func.func @blocks
// CHECK: fuse.mlp {{.*}} tensor<16x8xf8E4M3FN>, tensor<8x16xf8E4M3FN>, tensor<2x1xf32>, tensor<1x2xf32>) -> tensor<?x8xf32>
func.func @blocks(%x: tensor<?x8xbf16>,
                  %u: tensor<32x8xf8E4M3FN> {fuse.shard = #rows},
                  %d: tensor<8x32xf8E4M3FN> {fuse.shard = #columns},
                  %us: tensor<4x1xf32> {fuse.shard = #rows},
                  %ds: tensor<1x4xf32> {fuse.shard = #columns})
    -> tensor<?x8xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) channel_scales(%us, %ds)
         quant(f8E4M3FN, weights = block<8x8>, activations = per_group<8>,
               sums = block<8>) rounding(exact)
    : (tensor<?x8xbf16>, tensor<32x8xf8E4M3FN>, tensor<8x32xf8E4M3FN>,
       tensor<4x1xf32>, tensor<1x4xf32>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func.func @static
// CHECK: fuse.quantize {{.*}} -> tensor<?x16xf8E4M3FN>
// CHECK: fuse.linear {{.*}} scales(0.02, per_channel) {{.*}} -> tensor<?x8xf32>
// CHECK: fuse.all_reduce
func.func @static(%x: tensor<?x8xbf16>,
                  %u: tensor<32x8xbf16> {fuse.shard = #rows},
                  %d: tensor<8x32xf8E4M3FN> {fuse.shard = #columns},
                  %s: tensor<8xf32>) -> tensor<?x8xbf16> {
  %h = fuse.linear %x, %u
    : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %q = fuse.quantize %h scale 2.0e-2
    : (tensor<?x32xbf16>) -> tensor<?x32xf8E4M3FN>
  %y = fuse.linear %q, %d channel_scale(%s) scales(2.0e-2, per_channel)
    : (tensor<?x32xf8E4M3FN>, tensor<8x32xf8E4M3FN>, tensor<8xf32>)
      -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// The output projection of attention is rowwise. The part of a rank is one
// linear.

// CHECK-LABEL: func.func @projection
// CHECK: %[[P:.*]] = fuse.linear %{{.*}}, %{{.*}} : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xf32>
// CHECK: %[[S:.*]] = fuse.all_reduce %[[P]] bias(%{{.*}}) group("tp", 2)
// CHECK: fuse.residual_add %{{.*}}, %[[S]]
func.func @projection(%x: tensor<?x32xbf16>
                        {fuse.shard = #fuse.shard<dim = 1, axis = "tp", count = 2>},
                      %w: tensor<8x32xbf16> {fuse.shard = #columns},
                      %b: tensor<8xbf16>, %r: tensor<?x8xbf16>)
    -> tensor<?x8xbf16> {
  %y = fuse.fused_linear %x linear(%w bias %b) then_add(%r) rounding(exact)
    : (tensor<?x32xbf16>, tensor<8x32xbf16>, tensor<8xbf16>, tensor<?x8xbf16>)
      -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// A function without shards does not change.

// CHECK-LABEL: func.func @whole(
// CHECK-NOT: fuse.ranks
// CHECK: return
func.func @whole(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  return %x : tensor<?x8xbf16>
}
