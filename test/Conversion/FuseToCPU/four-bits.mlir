// RUN: fuse-opt %s --convert-fuse-to-cpu='lanes=16 dot' \
// RUN:   --remarks-filter=codegen --remark-format=emitRemark \
// RUN:   -verify-diagnostics | FileCheck %s

// A word of a panel has 8 codes of one output, and scales are read where they
// are.

// CHECK-LABEL: func @mxfp4
// CHECK-SAME: {bytes = 6144 : i64, columns = 64 : i64, operands = [2, 3], recipe = "panels", steps = 8 : i64, tiles = 3 : i64}
// CHECK-SAME: {bytes = 3072 : i64, columns = 64 : i64, operands = [4], recipe = "panels", steps = 12 : i64, tiles = 1 : i64}
// CHECK-SAME: {arguments = [{workspace = 0 : i64}, {packed = 0 : i64}, {operand = 5 : i64}, {operand = 6 : i64}, {workspace = 1 : i64}], function = "mxfp4_hidden"
func.func @mxfp4(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
                 %g: tensor<96x32xi8>, %u: tensor<96x32xi8>,
                 %d: tensor<64x48xi8>, %sg: tensor<96x2xi8>,
                 %su: tensor<96x2xi8>, %sd: tensor<64x3xi8>)
    -> tensor<?x64xbf16> {
  // expected-remark @below {{[Passed] cpu-kernel}}
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) channel_scales(%sg, %su, %sd)
         quant(f4E2M1FN, weights = group<32, f8E8M0FNU>, activations = none)
         rounding(exact)
    : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<96x32xi8>, tensor<96x32xi8>,
       tensor<64x48xi8>, tensor<96x2xi8>, tensor<96x2xi8>, tensor<64x3xi8>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Other groups and types are left to the portable path.

// CHECK-LABEL: func @narrow
// CHECK-NOT: fuse.cpu_plan
func.func @narrow(%x: tensor<?x16xbf16>, %u: tensor<8x8xi8>,
                  %d: tensor<16x4xi8>, %su: tensor<8x4xf32>,
                  %sd: tensor<16x2xf32>) -> tensor<?x16xbf16> {
  // expected-remark @below {{Reason="a group of 4 inputs is not a multiple of 8"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) channel_scales(%su, %sd)
         quant(i4, weights = group<4, f32>, activations = none)
         rounding(exact)
    : (tensor<?x16xbf16>, tensor<8x8xi8>, tensor<16x4xi8>, tensor<8x4xf32>,
       tensor<16x2xf32>) -> tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}

func.func @half(%x: tensor<?x16xf16>, %u: tensor<8x8xi8>,
                %d: tensor<16x4xi8>, %su: tensor<8x2xf16>,
                %sd: tensor<16x1xf16>) -> tensor<?x16xf16> {
  // expected-remark @below {{Reason="weights are dequantized to another type than f32 or bf16"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) channel_scales(%su, %sd)
         quant(i4, weights = group<8, f16>, activations = none)
         rounding(exact)
    : (tensor<?x16xf16>, tensor<8x8xi8>, tensor<16x4xi8>, tensor<8x2xf16>,
       tensor<16x1xf16>) -> tensor<?x16xf16>
  return %y : tensor<?x16xf16>
}

func.func @constant(%x: tensor<?x16xbf16>, %u: tensor<8x8xi8>,
                    %d: tensor<16x4xi8>, %su: tensor<8x2xf32>)
    -> tensor<?x16xbf16> {
  %sd = arith.constant dense<1.0> : tensor<16x1xf32>
  // expected-remark @below {{Reason="a weight of 4 bits or its scale is not an argument of the function"}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) channel_scales(%su, %sd)
         quant(i4, weights = group<8, f32>, activations = none)
         rounding(exact)
    : (tensor<?x16xbf16>, tensor<8x8xi8>, tensor<16x4xi8>, tensor<8x2xf32>,
       tensor<16x1xf32>) -> tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}

// A task dequantizes a block of its panel before it multiplies its tokens by
// the block. The scales of a group are read once for each output.

// CHECK-LABEL: func.func @mxfp4_hidden
// CHECK-SAME: %[[WORDS:[^:]*]]: memref<{{[0-9]+}}xi32>, %[[GATE:[^:]*]]: memref<{{[0-9]+}}xi8>, %[[UP:[^:]*]]: memref<{{[0-9]+}}xi8>
// CHECK: memref.alloca() {{.*}} : memref<4096xi16>
// CHECK: scf.for
// CHECK: memref.load %[[GATE]]
// CHECK: arith.extui {{.*}} : i8 to i32
// CHECK: scf.for
// CHECK: memref.load %[[UP]]
// CHECK: vector.load %[[WORDS]]{{.*}} vector<16xi32>
// CHECK: arith.truncf {{.*}} : vector<16xf32> to vector<16xbf16>
// CHECK: vector.store {{.*}} vector<32xi16>
// CHECK: call @multiply_bf16_6
