// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --allow-unregistered-dialect

// The parts of bodies.

func.func @arguments(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error@+1 {{body expects 'tensor<?x9xf32>', inputs are 'tensor<?x8xf32>'}}
  %y = stage.graph(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x9xf32>):
    stage.yield %a : tensor<?x9xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @results(%x: tensor<?x8xf32>) -> tensor<?x9xf32> {
  // expected-error@+1 {{body yields 'tensor<?x8xf32>', results are 'tensor<?x9xf32>'}}
  %y = stage.graph(%x) : (tensor<?x8xf32>) -> tensor<?x9xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    stage.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x9xf32>
}

// -----

func.func @content(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error@+1 {{has 'fuse.activation', expected stage.rows, stage.product or stage.reduce}}
  %y = stage.graph(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    %b = fuse.activation silu %a : tensor<?x8xf32> -> tensor<?x8xf32>
    stage.yield %b : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @no_yield(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error@+1 {{body must end with stage.yield}}
  %y = stage.graph(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    "test.end"() : () -> ()
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @row_arguments(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = stage.graph(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    // expected-error@+1 {{the body has arguments 'tensor<?x9xf32>', expected 'tensor<?x8xf32>'}}
    %b = stage.rows(%a) : (tensor<?x8xf32>) -> tensor<?x9xf32> {
    ^bb0(%c: tensor<?x9xf32>):
      stage.yield %c : tensor<?x9xf32>
    }
    stage.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @row_results(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = stage.graph(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    // expected-error@+1 {{the body yields 'tensor<?x8xf32>', results are 'tensor<?x9xf32>'}}
    %b = stage.rows(%a) : (tensor<?x8xf32>) -> tensor<?x9xf32> {
    ^bb0(%c: tensor<?x8xf32>):
      stage.yield %c : tensor<?x8xf32>
    }
    stage.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @row_member(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>)
    -> tensor<?x8xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<8x8xf32>):
    // expected-error@+1 {{has 'fuse.linear', expected fuse.residual_add, fuse.rms_norm, fuse.layer_norm, fuse.activation, fuse.gated_mul, fuse.quantize, fuse.dequantize or fuse.dynamic_quantize}}
    %c = stage.rows(%a, %b)
       : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32> {
    ^bb0(%d: tensor<?x8xf32>, %e: tensor<8x8xf32>):
      %f = fuse.linear %d, %e
         : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
      stage.yield %f : tensor<?x8xf32>
    }
    stage.yield %c : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @all_rows(%x: tensor<?x8xf32>) -> tensor<?x8xi8> {
  %y = stage.graph(%x) : (tensor<?x8xf32>) -> tensor<?x8xi8> {
  ^bb0(%a: tensor<?x8xf32>):
    // expected-error@+1 {{has 'fuse.dynamic_quantize per_tensor', which reads all rows, expected per_token or per_group}}
    %b = stage.rows(%a) : (tensor<?x8xf32>) -> tensor<?x8xi8> {
    ^bb0(%c: tensor<?x8xf32>):
      %d, %e = fuse.dynamic_quantize per_tensor %c
             : (tensor<?x8xf32>) -> (tensor<?x8xi8>, tensor<1xf32>)
      stage.yield %d : tensor<?x8xi8>
    }
    stage.yield %b : tensor<?x8xi8>
  }
  return %y : tensor<?x8xi8>
}
