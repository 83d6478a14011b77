// RUN: fuse-run %s --verify --dim=0,1,3,17 | FileCheck %s

// Two leading dimensions, biases and a layer norm.

// CHECK-NOT: FAILED
// CHECK-COUNT-5: bit-equal
// CHECK-NOT: FAILED

func.func @bf16(
    %x: tensor<?x?x18xbf16>, %nw: tensor<18xbf16>, %nb: tensor<18xbf16>,
    %u: tensor<33x18xbf16>, %ub: tensor<33xbf16>, %d: tensor<18x33xbf16>,
    %db: tensor<18xbf16>) -> tensor<?x?x18xbf16> {
  %y = fuse.mlp %x norm(layer %nw, %nb eps 1.0e-5)
         up(%u bias %ub) down(%d bias %db) act(gelu) then_add(%x)
         rounding(exact)
     : (tensor<?x?x18xbf16>, tensor<18xbf16>, tensor<18xbf16>,
        tensor<33x18xbf16>, tensor<33xbf16>, tensor<18x33xbf16>,
        tensor<18xbf16>, tensor<?x?x18xbf16>) -> tensor<?x?x18xbf16>
  return %y : tensor<?x?x18xbf16>
}

func.func @f16(
    %x: tensor<?x?x18xf16>, %nw: tensor<18xf16>, %nb: tensor<18xf16>,
    %u: tensor<33x18xf16>, %ub: tensor<33xf16>, %d: tensor<18x33xf16>,
    %db: tensor<18xf16>) -> tensor<?x?x18xf16> {
  %y = fuse.mlp %x norm(layer %nw, %nb eps 1.0e-5)
         up(%u bias %ub) down(%d bias %db) act(quick_gelu) then_add(%x)
         rounding(exact)
     : (tensor<?x?x18xf16>, tensor<18xf16>, tensor<18xf16>,
        tensor<33x18xf16>, tensor<33xf16>, tensor<18x33xf16>,
        tensor<18xf16>, tensor<?x?x18xf16>) -> tensor<?x?x18xf16>
  return %y : tensor<?x?x18xf16>
}

func.func @f32(
    %x: tensor<?x?x18xf32>, %nw: tensor<18xf32>, %nb: tensor<18xf32>,
    %u: tensor<33x18xf32>, %ub: tensor<33xf32>, %d: tensor<18x33xf32>,
    %db: tensor<18xf32>) -> tensor<?x?x18xf32> {
  %y = fuse.mlp %x norm(layer %nw, %nb eps 1.0e-5)
         up(%u bias %ub) down(%d bias %db) act(gelu_tanh) then_add(%x)
         rounding(exact)
     : (tensor<?x?x18xf32>, tensor<18xf32>, tensor<18xf32>,
        tensor<33x18xf32>, tensor<33xf32>, tensor<18x33xf32>,
        tensor<18xf32>, tensor<?x?x18xf32>) -> tensor<?x?x18xf32>
  return %y : tensor<?x?x18xf32>
}

func.func @e4m3(
    %x: tensor<?x?x18xbf16>, %nw: tensor<18xbf16>, %nb: tensor<18xbf16>,
    %u: tensor<33x18xf8E4M3FN>, %ub: tensor<33xbf16>,
    %d: tensor<18x33xf8E4M3FN>,
    %db: tensor<18xbf16>) -> tensor<?x?x18xbf16> {
  %y = fuse.mlp %x norm(layer %nw, %nb eps 1.0e-5)
         up(%u bias %ub) down(%d bias %db) act(relu) then_add(%x)
         scales(f8E4M3FN, input = 0.02, up = 1.1e-3, hidden = 0.04,
                down = 9.0e-4)
         rounding(exact)
     : (tensor<?x?x18xbf16>, tensor<18xbf16>, tensor<18xbf16>,
        tensor<33x18xf8E4M3FN>, tensor<33xbf16>, tensor<18x33xf8E4M3FN>,
        tensor<18xbf16>, tensor<?x?x18xbf16>) -> tensor<?x?x18xbf16>
  return %y : tensor<?x?x18xbf16>
}

func.func @i8_qdq(
    %x: tensor<?x?x18xf16>, %nw: tensor<18xf16>, %nb: tensor<18xf16>,
    %u: tensor<33x18xi8>, %ub: tensor<33xf16>, %d: tensor<18x33xi8>,
    %db: tensor<18xf16>) -> tensor<?x?x18xf16> {
  %y = fuse.mlp %x norm(layer %nw, %nb eps 1.0e-5)
         up(%u bias %ub) down(%d bias %db) act(silu) then_add(%x)
         scales(i8, input = 0.02, up = 1.1e-3, hidden = 0.04, down = 9.0e-4,
                form = qdq)
         rounding(exact)
     : (tensor<?x?x18xf16>, tensor<18xf16>, tensor<18xf16>,
        tensor<33x18xi8>, tensor<33xf16>, tensor<18x33xi8>,
        tensor<18xf16>, tensor<?x?x18xf16>) -> tensor<?x?x18xf16>
  return %y : tensor<?x?x18xf16>
}
