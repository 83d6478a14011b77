// RUN: fuse-opt %s --split-input-file --verify-diagnostics

// Each graph has one wrong product. They share the operands of the first one.

func.func @no_weight(%x: tensor<?x8xf32>) -> tensor<?x4xf32> {
  %y = stage.graph(%x) : (tensor<?x8xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    // expected-error@+1 {{needs a weight}}
    %b = stage.product %a by() : (tensor<?x8xf32>) -> tensor<?x4xf32> {
      stage.yield
    }
    stage.yield %b : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @rank(%x: tensor<?x8xf32>, %w: tensor<8xf32>) -> tensor<?x8xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<8xf32>):
    // expected-error@+1 {{needs weights of static shape [out, in], got 'tensor<8xf32>'}}
    %c = stage.product %a by(%b)
       : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32> {
    ^bb0(%d: tensor<?x8xf32>):
      stage.yield %d : tensor<?x8xf32>
    }
    stage.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @width(%x: tensor<?x8xf32>, %w: tensor<4x9xf32>) -> tensor<?x8xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x9xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x9xf32>):
    // expected-error@+1 {{'x' has 8 features, 'weight' expects 9}}
    %c = stage.product %a by(%b)
       : (tensor<?x8xf32>, tensor<4x9xf32>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xf32>):
      stage.yield %d : tensor<?x4xf32>
    }
    stage.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @no_epilogue(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<?x8xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    // expected-error@+1 {{needs an epilogue or 'slices'}}
    %c = stage.product %a by(%b)
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
    stage.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @slice(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>) -> tensor<?x8xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    // expected-error@+1 {{has slices of 0 elements, expected at least 1}}
    %c = stage.product %a by(%b) slices 0
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<1x?x4xf32>
    stage.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @slice_type(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<?x8xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    // expected-error@+1 {{returns 'tensor<2x?x4xf32>', its slices have sums 'tensor<3x?x4xf32>'}}
    %c = stage.product %a by(%b) slices 3
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<2x?x4xf32>
    stage.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @slice_epilogue(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<?x8xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    // expected-error@+1 {{has slices, so stage.reduce has the epilogue}}
    %c = stage.product %a by(%b) slices 4
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<2x?x4xf32> {
    ^bb0(%d: tensor<?x4xf32>):
      stage.yield
    }
    stage.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// -----

func.func @integers(%x: tensor<?x8xi8>, %w: tensor<4x8xi8>) -> tensor<?x8xi8> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xi8>, tensor<4x8xi8>) -> tensor<?x8xi8> {
  ^bb0(%a: tensor<?x8xi8>, %b: tensor<4x8xi8>):
    // expected-error@+1 {{of 'i8' has no slices, expected floating-point types}}
    %c = stage.product %a by(%b) slices 4
       : (tensor<?x8xi8>, tensor<4x8xi8>) -> tensor<2x?x4xi32>
    stage.yield %a : tensor<?x8xi8>
  }
  return %y : tensor<?x8xi8>
}

// -----

func.func @slice_user(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<2x?x4xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<2x?x4xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    // expected-error@+1 {{has slices that 'stage.yield' reads, expected stage.reduce}}
    %c = stage.product %a by(%b) slices 4
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<2x?x4xf32>
    stage.yield %c : tensor<2x?x4xf32>
  }
  return %y : tensor<2x?x4xf32>
}

// -----

func.func @no_slices(%p: tensor<2x?x4xf32>) -> tensor<?x4xf32> {
  %y = stage.graph(%p) : (tensor<2x?x4xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<2x?x4xf32>):
    // expected-error@+1 {{adds a value that is not the sum of a stage.product with slices}}
    %b = stage.reduce(%a) order ascending
       : (tensor<2x?x4xf32>) -> tensor<?x4xf32> {
    ^bb0(%c: tensor<?x4xf32>):
      %d = stage.finish %c : (tensor<?x4xf32>) -> tensor<?x4xf32>
      stage.yield %d : tensor<?x4xf32>
    }
    stage.yield %b : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @reduce_with(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    %c = stage.product %a by(%b) slices 4
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<2x?x4xf32>
    // expected-error@+1 {{has the sums of slices in 'with'}}
    %d = stage.reduce(%c) with(%c) order ascending
       : (tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<?x4xf32> {
    ^bb0(%e: tensor<?x4xf32>, %f: tensor<2x?x4xf32>):
      %g = stage.finish %e : (tensor<?x4xf32>) -> tensor<?x4xf32>
      stage.yield %g : tensor<?x4xf32>
    }
    stage.yield %d : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @no_partials() {
  stage.graph() : () -> () {
    // expected-error@+1 {{needs the sums of a product}}
    stage.reduce() order ascending : () -> () {
      stage.yield
    }
    stage.yield
  }
  return
}

// -----

func.func @partial_rank(%p: tensor<4xf32>) {
  stage.graph(%p) : (tensor<4xf32>) -> () {
  ^bb0(%a: tensor<4xf32>):
    // expected-error@+1 {{needs sums with the slices as their first dimension, got 'tensor<4xf32>'}}
    stage.reduce(%a) order ascending : (tensor<4xf32>) -> () {
    ^bb0(%b: tensor<f32>):
      stage.yield
    }
    stage.yield
  }
  return
}
