// RUN: fuse-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{names @kernels::@k, but there is no module @kernels}}
  %y = tile.launch @kernels::@k(%x) : (tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

gpu.module @kernels {
}
func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{names @kernels::@k, but the module has no such kernel}}
  %y = tile.launch @kernels::@k(%x) : (tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{has 1 : i32 in its plan: expected i64, less than 2^48}}
  %y = tile.launch @kernels::@k(%x) plan {blocks = 1 : i32}
    : (tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{has 281474976710656 : i64 in its plan: expected i64, less than 2^48}}
  %y = tile.launch @kernels::@k(%x) plan {arguments = [{offset = 281474976710656}]}
    : (tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{has a plan whose 'arguments' is not a list of dictionaries}}
  %y = tile.launch @kernels::@k(%x) plan {arguments = [1]}
    : (tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{has a plan whose 'token_buffers' is not a list of dictionaries}}
  %y = tile.launch @kernels::@k(%x) plan {token_buffers = []}
    : (tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error@+1 {{has a plan with 'operands' in 'arguments' that are not a list of numbers}}
  %y = tile.launch @kernels::@k(%x) plan {arguments = [{operands = "x"}]}
    : (tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  // expected-error@+1 {{is malformed: there is no range of tokens}}
  %y = tile.dispatch %x : (tensor<?x4xbf16>) -> tensor<?x4xbf16> {
  }
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  // expected-error@+1 {{is malformed: the range up to 8 tokens is empty: the one before ends at 8}}
  %y = tile.dispatch %x : (tensor<?x4xbf16>) -> tensor<?x4xbf16> {
    upto 8 {
      tile.yield %x : tensor<?x4xbf16>
    }
    upto 8 {
      tile.yield %x : tensor<?x4xbf16>
    }
  }
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  // expected-error@+1 {{expected one operand, got 0}}
  %y = tile.dispatch %x : () -> tensor<?x4xbf16> {
    upto 8 {
      tile.yield %x : tensor<?x4xbf16>
    }
  }
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  // expected-error@+1 {{has a region for up to 8 tokens that does not end with tile.yield}}
  %y = tile.dispatch %x : (tensor<?x4xbf16>) -> tensor<?x4xbf16> {
    upto 8 {
      llvm.unreachable
    }
  }
  return
}

// -----

func.func @dispatch(%x: tensor<?x4xbf16>) {
  %y = tile.dispatch %x : (tensor<?x4xbf16>) -> tensor<?x4xbf16> {
    upto 8 {
      // expected-error@+1 {{has operands of types , the dispatch has results of types 'tensor<?x4xbf16>'}}
      tile.yield
    }
  }
  return
}

// -----

func.func @dispatch(%x: tensor<bf16>) {
  // expected-error@+1 {{has an operand without rows}}
  tile.dispatch %x : (tensor<bf16>) -> () {
    upto 8 {
      tile.yield
    }
  }
  return
}
