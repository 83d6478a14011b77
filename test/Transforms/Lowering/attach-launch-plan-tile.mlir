// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --fuse-attach-launch-plan | FileCheck %s

// Launches of scheduled kernels. Sizes that are equal have one symbol, so that
// both ops have one number of tokens.

// CHECK-DAG:   [[TOKENS:#.+]] = affine_map<()[s0] -> (s0)>
// CHECK-DAG:   [[MATRIX:#.+]] = affine_map<()[s0] -> ((s0 ceildiv 8) * 64)>
// CHECK-DAG:   [[FIXED:#.+]] = affine_map<()[s0] -> (128)>
// CHECK-DAG:   [[ZEROED:#.+]] = affine_map<()[s0] -> (256)>
// CHECK-LABEL: func @equal(
// CHECK-SAME:  launches = [
// CHECK-SAME:    {args = ["arg0", {buffer = "ws0", offset = 0 : i64}, {buffer = "ws1", offset = 0 : i64}],
// CHECK-SAME:     cooperative = true, dependent = false
// CHECK-SAME:    {args = [{buffer = "ws2", map = {box_columns = 4 : i64, box_rows = 8 : i64, columns = 4 : i64, element = bf16, rows = 8 : i64, swizzle = 128 : i64}, offset = 0 : i64}, "arg1", {over = 2.000000e+00 : f32, value = 5.000000e-01 : f32}, {of = [5.000000e-01 : f32, 2.000000e+00 : f32], value = 1.000000e+00 : f32}, 2.500000e-01 : f32
// CHECK-SAME:     carveout = 50 : i64, cluster = 2 : i64, cooperative = false, dependent = true
// CHECK-SAME:    {args = ["arg2", {bytes = 4 : i64, size = [[TOKENS]]}]
// CHECK-SAME:  max_tokens = 8 : i64
// CHECK-SAME:  symbols = [array<i64: 0, 0>]
// CHECK-SAME:  tokens = [[[TOKENS]]]
// CHECK-SAME:  workspace = [[[ZEROED]], [[FIXED]], [[MATRIX]]
// CHECK-SAME:  zeroed = 256 : i64
module attributes {gpu.container_module} {
  gpu.module @kernels {
    tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
      tile.return
    }
  }
  func.func @equal(%x: memref<?x4xbf16>, %y: memref<?x4xbf16> {fuse.result},
      %z: memref<?x4xbf16>, %r: memref<?x4xbf16> {fuse.result})
      attributes {fuse.equal_sizes = [array<i64: 0, 0, 1, 0, 2, 0, 3, 0>]} {
    tile.launch @kernels::@k ins(%x : memref<?x4xbf16>)
      outs(%y : memref<?x4xbf16>)
      plan <blocks = 4, threads = 32, cooperative = true, dependent = true,
        max_tokens = 8, workspace = <bytes = 512, zeroed = 256, matrices = [
          #tile.token_matrix<offset = 384, row_bytes = 8, multiple = 8>]>,
        arguments = [#tile.operand<0>, #tile.place<offset = 0>,
                     #tile.place<offset = 256>]>
    tile.launch @kernels::@k ins(%x : memref<?x4xbf16>)
      outs(%y : memref<?x4xbf16>)
      plan <blocks = 4, threads = 32, cluster = 2, dependent = true,
        carveout = 50, max_tokens = 8,
        workspace = <bytes = 512, zeroed = 256, matrices = [
          #tile.token_matrix<offset = 384, row_bytes = 8, multiple = 8>]>,
        shares_workspace = true,
        arguments = [
          #tile.token_map<offset = 384, rows = 8, columns = 4, element = bf16,
                          box_rows = 8, box_columns = 4, swizzle = 128>,
          #tile.result<0>, #tile.scalar<"input" = 0.5 : f32 over 2.0 : f32>,
          #tile.scalar<"up" = 1.0 : f32 of [0.5 : f32, 2.0 : f32]>,
          #tile.scalar<"eps" = 0.25 : f32>]>
    tile.launch @kernels::@k ins(%z : memref<?x4xbf16>)
      outs(%r : memref<?x4xbf16>)
      plan <blocks = 4, threads = 32, max_tokens = 64,
        arguments = [#tile.operand<0>, #tile.tokens]>
    return
  }
}

// -----

func.func @no_plan(%x: memref<4x4xbf16>) {
  // expected-error@+1 {{has no plan}}
  tile.launch @kernels::@k ins(%x : memref<4x4xbf16>) outs()
  return
}
gpu.module @kernels {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

func.func @tensors(%x: tensor<4x4xbf16>) {
  // expected-error@+1 {{is on tensors: expected buffers, as bufferization makes them}}
  tile.launch @kernels::@k ins(%x : tensor<4x4xbf16>) outs()
    plan <blocks = 1, threads = 32, max_tokens = 8, arguments = []>
  return
}
gpu.module @kernels {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

func.func @rows(%x: memref<bf16>) {
  // expected-error@+1 {{has no input with a row for each token}}
  tile.launch @kernels::@k ins(%x : memref<bf16>) outs()
    plan <blocks = 1, threads = 32, max_tokens = 8, arguments = []>
  return
}
gpu.module @kernels {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

func.func @alone(%x: memref<4x4xbf16>) {
  // expected-error@+1 {{shares the workspace of a launch, but none precedes it}}
  tile.launch @kernels::@k ins(%x : memref<4x4xbf16>) outs()
    plan <blocks = 1, threads = 32, max_tokens = 8, shares_workspace = true,
          arguments = []>
  return
}
gpu.module @kernels {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

func.func @apart(%x: memref<4x4xbf16>) {
  tile.dispatch %x outs() : (memref<4x4xbf16>) -> () {
    upto 8 {
      tile.launch @kernels::@k ins(%x : memref<4x4xbf16>) outs()
        plan <blocks = 1, threads = 32, max_tokens = 8, arguments = []>
      // expected-error@+1 {{does not share the workspace of the previous launch of its range}}
      tile.launch @kernels::@k ins(%x : memref<4x4xbf16>) outs()
        plan <blocks = 1, threads = 32, max_tokens = 8, arguments = []>
      tile.yield
    }
  }
  return
}
gpu.module @kernels {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

func.func @empty(%x: memref<4x4xbf16>) {
  // expected-error@+1 {{has no launch for up to 8 tokens}}
  tile.dispatch %x outs() : (memref<4x4xbf16>) -> () {
    upto 8 {
      tile.yield
    }
  }
  return
}

// -----

func.func @computed(%x: memref<4x4xbf16>) {
  %w = memref.alloc() : memref<4x4xbf16>
  // expected-error@+1 {{packs input 1, which is computed: weights are packed before the first launch and must be arguments of the function}}
  tile.launch @kernels::@k
    ins(%x, %w : memref<4x4xbf16>, memref<4x4xbf16>) outs()
    plan <blocks = 1, threads = 32, max_tokens = 8, arguments = [
      #tile.packed<"rows_256" of [1], tiles = 1, steps = 1, bytes = 8>]>
  return
}
gpu.module @kernels {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

func.func @condition(%c: i1, %x: memref<4x4xbf16>) {
  scf.if %c {
    // expected-error@+1 {{is under control flow, which a plan does not have}}
    tile.launch @kernels::@k ins(%x : memref<4x4xbf16>) outs()
      plan <blocks = 1, threads = 32, max_tokens = 8, arguments = []>
  }
  return
}
gpu.module @kernels {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}
