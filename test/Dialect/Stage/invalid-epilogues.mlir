// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --allow-unregistered-dialect

func.func @no_yield(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    // expected-error@+1 {{the epilogue must end with stage.yield}}
    %c = stage.product %a by(%b)
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xf32>):
      "test.end"() : () -> ()
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @member(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    // expected-error@+1 {{has 'fuse.rms_norm' in its epilogue, expected stage.finish, fuse.activation, fuse.gated_mul, fuse.residual_add, fuse.quantize or fuse.dequantize}}
    %c = stage.product %a by(%b)
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xf32>):
      %e = stage.finish %d : (tensor<?x4xf32>) -> tensor<?x4xf32>
      %f = fuse.rms_norm %e eps 1.0e-6 : (tensor<?x4xf32>) -> tensor<?x4xf32>
      stage.yield %f : tensor<?x4xf32>
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @raw_sum(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    %c = stage.product %a by(%b)
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xf32>):
      // expected-error@+1 {{reads sum 0 of its stage, which only stage.finish reads}}
      %e = fuse.activation silu %d : tensor<?x4xf32> -> tensor<?x4xf32>
      stage.yield %e : tensor<?x4xf32>
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @no_sum(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    %c = stage.product %a by(%b)
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xf32>):
      %e = stage.finish %d : (tensor<?x4xf32>) -> tensor<?x4xf32>
      // expected-error@+1 {{finishes a value that is not a sum of its stage}}
      %f = stage.finish %e : (tensor<?x4xf32>) -> tensor<?x4xf32>
      stage.yield %f : tensor<?x4xf32>
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @finish_shape(%s: tensor<?x4xf32>) -> tensor<?x5xf32> {
  // expected-error@+1 {{'sum' and 'y' must have the same shape, got 'tensor<?x4xf32>' and 'tensor<?x5xf32>'}}
  %y = stage.finish %s : (tensor<?x4xf32>) -> tensor<?x5xf32>
  return %y : tensor<?x5xf32>
}

// -----

func.func @finish_bias(%s: tensor<?x4xf32>, %b: tensor<5xf32>)
    -> tensor<?x4xf32> {
  // expected-error@+1 {{'bias' must have one entry per output (4), got 'tensor<5xf32>'}}
  %y = stage.finish %s bias(%b)
     : (tensor<?x4xf32>, tensor<5xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

func.func @finish_place(%s: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // expected-error@+1 {{has no bias to add after rounding}}
  %y = stage.finish %s added after_rounding
     : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

func.func @finish_scale(%s: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // expected-error@+1 {{input scale is negative, got -1.0}}
  %y = stage.finish %s scales(-1.0, 0.5)
     : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

func.func @real_scales(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>)
    -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>):
    %c = stage.product %a by(%b)
       : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xf32>):
      // expected-error@+1 {{has scales, but its product is one of floating-point operands}}
      %e = stage.finish %d scales(0.5, 0.5)
         : (tensor<?x4xf32>) -> tensor<?x4xf32>
      stage.yield %e : tensor<?x4xf32>
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @no_scales(%x: tensor<?x8xi8>, %w: tensor<4x8xi8>)
    -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w)
     : (tensor<?x8xi8>, tensor<4x8xi8>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xi8>, %b: tensor<4x8xi8>):
    %c = stage.product %a by(%b)
       : (tensor<?x8xi8>, tensor<4x8xi8>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xi32>):
      // expected-error@+1 {{needs a scale of the input and one of the weight}}
      %e = stage.finish %d : (tensor<?x4xi32>) -> tensor<?x4xf32>
      stage.yield %e : tensor<?x4xf32>
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @two_scales(%x: tensor<?x8xi8>, %w: tensor<4x8xi8>, %s: tensor<?xf32>)
    -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w, %s)
     : (tensor<?x8xi8>, tensor<4x8xi8>, tensor<?xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xi8>, %b: tensor<4x8xi8>, %t: tensor<?xf32>):
    %c = stage.product %a by(%b) with(%t)
       : (tensor<?x8xi8>, tensor<4x8xi8>, tensor<?xf32>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xi32>, %u: tensor<?xf32>):
      // expected-error@+1 {{has two scales of its input or its weight}}
      %e = stage.finish %d dynamic_scale(%u) scales(0.5, 0.5)
         : (tensor<?x4xi32>, tensor<?xf32>) -> tensor<?x4xf32>
      stage.yield %e : tensor<?x4xf32>
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @token_scales(%x: tensor<?x8xi8>, %w: tensor<4x8xi8>,
                        %s: tensor<?x2xf32>) -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w, %s)
     : (tensor<?x8xi8>, tensor<4x8xi8>, tensor<?x2xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xi8>, %b: tensor<4x8xi8>, %t: tensor<?x2xf32>):
    %c = stage.product %a by(%b) with(%t)
       : (tensor<?x8xi8>, tensor<4x8xi8>, tensor<?x2xf32>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xi32>, %u: tensor<?x2xf32>):
      // expected-error@+1 {{has 'dynamic_scale' of 'tensor<?x2xf32>', expected 'tensor<?xf32>'}}
      %e = stage.finish %d dynamic_scale(%u) scales(dynamic, 0.5)
         : (tensor<?x4xi32>, tensor<?x2xf32>) -> tensor<?x4xf32>
      stage.yield %e : tensor<?x4xf32>
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @block_sums(%x: tensor<?x128xf8E4M3FN>, %w: tensor<4x128xf8E4M3FN>,
                      %s: tensor<?x1xf32>, %v: tensor<1x1xf32>)
    -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w, %s, %v)
     : (tensor<?x128xf8E4M3FN>, tensor<4x128xf8E4M3FN>, tensor<?x1xf32>,
        tensor<1x1xf32>) -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x128xf8E4M3FN>, %b: tensor<4x128xf8E4M3FN>,
       %t: tensor<?x1xf32>, %u: tensor<1x1xf32>):
    %c = stage.product %a by(%b) with(%t, %u)
       : (tensor<?x128xf8E4M3FN>, tensor<4x128xf8E4M3FN>, tensor<?x1xf32>,
          tensor<1x1xf32>) -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xf32>, %e: tensor<?x1xf32>, %f: tensor<1x1xf32>):
      // expected-error@+1 {{has sums of blocks, whose scales are in the sum}}
      %g = stage.finish %d channel_scale(%f) dynamic_scale(%e)
             quant(f8E4M3FN, weights = block<128x128>,
                   activations = per_group<128>, sums = block<128>)
         : (tensor<?x4xf32>, tensor<1x1xf32>, tensor<?x1xf32>)
           -> tensor<?x4xf32>
      stage.yield %g : tensor<?x4xf32>
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}

// -----

func.func @quant_numbers(%x: tensor<?x8xf8E4M3FN>, %w: tensor<4x8xf8E4M3FN>,
                         %s: tensor<4xf32>) -> tensor<?x4xf32> {
  %y = stage.graph(%x, %w, %s)
     : (tensor<?x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>, tensor<4xf32>)
       -> tensor<?x4xf32> {
  ^bb0(%a: tensor<?x8xf8E4M3FN>, %b: tensor<4x8xf8E4M3FN>, %t: tensor<4xf32>):
    %c = stage.product %a by(%b) with(%t)
       : (tensor<?x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>, tensor<4xf32>)
         -> tensor<?x4xf32> {
    ^bb0(%d: tensor<?x4xf32>, %u: tensor<4xf32>):
      // expected-error@+1 {{with 'quant' has its scales as operands}}
      %e = stage.finish %d channel_scale(%u) scales(0.5, per_channel)
             quant(f8E4M3FN, weights = channel, activations = per_token)
         : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
      stage.yield %e : tensor<?x4xf32>
    }
    stage.yield %c : tensor<?x4xf32>
  }
  return %y : tensor<?x4xf32>
}
