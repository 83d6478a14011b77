// RUN: fuse-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{names @kernels::@k, but there is no module @kernels}}
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

gpu.module @kernels {
}
func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{names @kernels::@k, but the module has no such kernel}}
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>)
    // expected-error@+1 {{blocks = -1 is not from 0 to 2^48 - 1}}
    plan <blocks = -1, threads = 32, max_tokens = 8, arguments = []> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>)
    // expected-error@+1 {{max_tokens = 0 is not positive}}
    plan <blocks = 1, threads = 32, max_tokens = 0, arguments = []> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>)
    // expected-error@+1 {{carveout = 101 is not from 0 to 100 percent}}
    plan <blocks = 1, threads = 32, carveout = 101, max_tokens = 8, arguments = []> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>)
    // expected-error@+1 {{arguments has 1 : i64: expected #tile.operand, #tile.result, #tile.packed, #tile.place, #tile.token_map, #tile.tokens or #tile.scalar}}
    plan <blocks = 1, threads = 32, max_tokens = 8, arguments = [1]> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>)
    // expected-error@+1 {{offset = 281474976710656 is not from 0 to 2^48 - 1}}
    plan <blocks = 1, threads = 32, max_tokens = 8,
      arguments = [#tile.place<offset = 281474976710656>]> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

// expected-error@+1 {{zeroed = 16 is more than bytes = 8}}
func.func private @f() attributes {w = #tile.workspace<bytes = 8, zeroed = 16>}

// -----

// expected-error@+1 {{matrices has 1 : i64: expected #tile.token_matrix}}
func.func private @f() attributes {w = #tile.workspace<bytes = 8, matrices = [1]>}

// -----

// expected-error@+1 {{multiple = 0 of a matrix is not positive}}
func.func private @f() attributes {w = #tile.workspace<bytes = 8, matrices = [#tile.token_matrix<offset = 0, row_bytes = 8, multiple = 0>]>}

// -----

// expected-error@+1 {{a matrix begins at 16: expected 0 to 8}}
func.func private @f() attributes {w = #tile.workspace<bytes = 8, matrices = [#tile.token_matrix<offset = 16, row_bytes = 8, multiple = 8>]>}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{has a plan with operand 1, but 1 of them}}
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>)
    plan <blocks = 1, threads = 32, max_tokens = 8,
      arguments = [#tile.operand<1>]> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{has a plan with result 1, but 1 of them}}
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>)
    plan <blocks = 1, threads = 32, max_tokens = 8,
      arguments = [#tile.result<1>]> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{has a plan with packed operand 2, but 1 of them}}
  %y = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x : tensor<4xi32>)
    plan <blocks = 1, threads = 32, max_tokens = 8,
      arguments = [#tile.packed<"r" of [2], tiles = 1, steps = 1, bytes = 8>]> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>, %y: memref<4xi32>) {
  // expected-error@+1 {{has outputs in tensors and in buffers}}
  %z = tile.launch @kernels::@k ins(%x : tensor<4xi32>)
    outs(%x, %y : tensor<4xi32>, memref<4xi32>) -> tensor<4xi32>
  return
}

// -----

func.func @f(%x: memref<4xi32, strided<[2]>>) {
  // expected-error@+1 {{has an operand of type 'memref<4xi32, strided<[2]>>': expected buffers without strides}}
  tile.launch @kernels::@k ins(%x : memref<4xi32, strided<[2]>>) outs()
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  // expected-error@+1 {{is malformed: there is no range of tokens}}
  %y = tile.dispatch %x outs(%x)
      : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x4xbf16> {
  }
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  // expected-error@+1 {{is malformed: the range up to 8 tokens is empty: the one before ends at 8}}
  %y = tile.dispatch %x outs(%x)
      : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x4xbf16> {
    upto 8 {
    ^bb0(%out: tensor<?x4xbf16>):
      tile.yield %x : tensor<?x4xbf16>
    }
    upto 8 {
    ^bb0(%out: tensor<?x4xbf16>):
      tile.yield %x : tensor<?x4xbf16>
    }
  }
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  // expected-error@+1 {{number of operands and types do not match: got 2 operands and 0 types}}
  %y = tile.dispatch %x outs(%x) : () -> tensor<?x4xbf16> {
    upto 8 {
    ^bb0(%out: tensor<?x4xbf16>):
      tile.yield %x : tensor<?x4xbf16>
    }
  }
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  // expected-error@+1 {{has a region for up to 8 tokens that does not end with tile.yield}}
  %y = tile.dispatch %x outs(%x)
      : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x4xbf16> {
    upto 8 {
    ^bb0(%out: tensor<?x4xbf16>):
      llvm.unreachable
    }
  }
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  %y = tile.dispatch %x outs(%x)
      : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x4xbf16> {
    upto 8 {
    ^bb0(%out: tensor<?x4xbf16>):
      // expected-error@+1 {{has operands of types , the dispatch has results of types 'tensor<?x4xbf16>'}}
      tile.yield
    }
  }
  return
}

// -----

func.func @dispatch(%x: tensor<bf16>) {
  // expected-error@+1 {{has an operand without rows}}
  tile.dispatch %x outs() : (tensor<bf16>) -> () {
    upto 8 {
      tile.yield
    }
  }
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  // expected-error@+1 {{has a region for up to 8 tokens with arguments of types , and results of types 'tensor<?x4xbf16>'}}
  %y = tile.dispatch %x outs(%x)
      : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x4xbf16> {
    upto 8 {
      tile.yield %x : tensor<?x4xbf16>
    }
  }
  return
}

// -----

// expected-error@+1 {{scalar 'gate' is 1.0}}
func.func private @f() attributes {x = #tile.scalar<"gate" = 1.0 : f32 of [2.0 : f32, 0.25 : f32]>}

// -----

// expected-error@+1 {{scalar 'hidden' is 1.0}}
func.func private @f() attributes {x = #tile.scalar<"hidden" = 1.0 : f32 over 0.25 : f32>}

// -----

// expected-error@+1 {{scalar 'both' is either a product or a reciprocal, not both}}
func.func private @f() attributes {x = #tile.scalar<"both" = 1.0 : f32 of [1.0 : f32] over 1.0 : f32>}

// -----

// expected-error@+1 {{scalar 'gate' and its scales must be numbers of type f32}}
func.func private @f() attributes {x = #tile.scalar<"gate" = 1.0 : f32 of [1]>}
