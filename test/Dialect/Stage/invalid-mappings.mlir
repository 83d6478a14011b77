// RUN: fuse-opt %s --split-input-file --verify-diagnostics

// Mappings that no target has. Those that the mma kernels do not have are errors
// of fuse-map-stages and convert-fuse-to-tile.

func.func @unmapped_stage(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    %c = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%d: tensor<?x64xbf16>):
      %e = fuse.rms_norm %d eps 1.0e-6
         : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %e : tensor<?x64xbf16>
    }
    // expected-error@+1 {{has no mapping, but its graph has one}}
    %f = stage.product %c by(%b)
           
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%g: tensor<?x64xf32>):
      %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %h : tensor<?x64xbf16>
    }
    stage.yield %f : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

func.func @unmapped_graph(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) 
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    // expected-error@+1 {{is mapped, but its graph is not}}
    %c = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%d: tensor<?x64xbf16>):
      %e = fuse.rms_norm %d eps 1.0e-6
         : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %e : tensor<?x64xbf16>
    }
    %f = stage.product %c by(%b)
           map <launch = 1, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%g: tensor<?x64xf32>):
      %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %h : tensor<?x64xbf16>
    }
    stage.yield %f : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

func.func @first_launch(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    // expected-error@+1 {{is in launch 1, expected 0}}
    %c = stage.rows(%a) map <launch = 1, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%d: tensor<?x64xbf16>):
      %e = fuse.rms_norm %d eps 1.0e-6
         : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %e : tensor<?x64xbf16>
    }
    %f = stage.product %c by(%b)
           map <launch = 2, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%g: tensor<?x64xf32>):
      %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %h : tensor<?x64xbf16>
    }
    stage.yield %f : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

func.func @next_launch(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    %c = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%d: tensor<?x64xbf16>):
      %e = fuse.rms_norm %d eps 1.0e-6
         : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %e : tensor<?x64xbf16>
    }
    // expected-error@+1 {{is in launch 2, expected 0 or 1}}
    %f = stage.product %c by(%b)
           map <launch = 2, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%g: tensor<?x64xf32>):
      %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %h : tensor<?x64xbf16>
    }
    stage.yield %f : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

func.func @places(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    // expected-error@+1 {{has 1 results and 2 places}}
    %c = stage.rows(%a) map <launch = 0, results = [launch, output]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%d: tensor<?x64xbf16>):
      %e = fuse.rms_norm %d eps 1.0e-6
         : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %e : tensor<?x64xbf16>
    }
    %f = stage.product %c by(%b)
           map <launch = 1, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%g: tensor<?x64xf32>):
      %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %h : tensor<?x64xbf16>
    }
    stage.yield %f : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

func.func @later(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    // expected-error@+1 {{has result 0 in 'workspace', but a later launch reads it: expected launch}}
    %c = stage.rows(%a) map <launch = 0, results = [workspace]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%d: tensor<?x64xbf16>):
      %e = fuse.rms_norm %d eps 1.0e-6
         : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %e : tensor<?x64xbf16>
    }
    %f = stage.product %c by(%b)
           map <launch = 1, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%g: tensor<?x64xf32>):
      %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %h : tensor<?x64xbf16>
    }
    stage.yield %f : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

func.func @same(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    // expected-error@+1 {{has result 0 in 'launch', but the same launch reads it: expected registers, shared or workspace}}
    %c = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%d: tensor<?x64xbf16>):
      %e = fuse.rms_norm %d eps 1.0e-6
         : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %e : tensor<?x64xbf16>
    }
    %f = stage.product %c by(%b)
           map <launch = 0, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%g: tensor<?x64xf32>):
      %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %h : tensor<?x64xbf16>
    }
    stage.yield %f : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

func.func @unread(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    %c = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%d: tensor<?x64xbf16>):
      %e = fuse.rms_norm %d eps 1.0e-6
         : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %e : tensor<?x64xbf16>
    }
    // expected-error@+1 {{has result 0 in 'workspace', but no stage reads it: expected output}}
    %f = stage.product %c by(%b)
           map <launch = 1, results = [workspace], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%g: tensor<?x64xf32>):
      %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %h : tensor<?x64xbf16>
    }
    stage.yield %f : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

// expected-error@+2 {{tokens = 0 is less than 1}}
func.func private @f() attributes {
  m = #stage.graph_mapping<mma, tokens = 0, blocks = 1>}

// -----

// expected-error@+2 {{blocks = 65536 is not from 1 to 65535}}
func.func private @f() attributes {
  m = #stage.graph_mapping<mma, tokens = 1, blocks = 65536>}

// -----

// expected-error@+2 {{group = 0 is less than 1}}
func.func private @f() attributes {
  m = #stage.graph_mapping<mma, tokens = 1, blocks = 1, group = 0>}

// -----

// expected-error@+2 {{pipeline = 0 is less than 1}}
func.func private @f() attributes {
  m = #stage.product_mapping<launch = 0, results = [output], weight_tile = 64,
                             token_tile = 8, pipeline = 0>}
