// RUN: fuse-opt %s --convert-fuse-to-tile --split-input-file \
// RUN:   --verify-diagnostics

func.func @type(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>)
    -> tensor<?x64xf32> {
  // expected-error@+1 {{has a mapping, but the input is f32, not bf16}}
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%a: tensor<?x64xf32>, %b: tensor<64x64xf32>):
    %c = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xf32>) -> tensor<?x64xf32> {
    ^bb0(%d: tensor<?x64xf32>):
      %e = fuse.rms_norm %d eps 1.0e-6
         : (tensor<?x64xf32>) -> tensor<?x64xf32>
      stage.yield %e : tensor<?x64xf32>
    }
    %f = stage.product %c by(%b)
           map <launch = 1, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> {
    ^bb0(%g: tensor<?x64xf32>):
      %h = stage.finish %g : (tensor<?x64xf32>) -> tensor<?x64xf32>
      stage.yield %h : tensor<?x64xf32>
    }
    stage.yield %f : tensor<?x64xf32>
  }
  return %y : tensor<?x64xf32>
}

// -----

// The mapping is that of fuse-map-stages, and so are its errors.

func.func @tile(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  // expected-error@+1 {{has an invalid mapping: gemm2_tile_m = 32 is not 64, 128, 192 or 256}}
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
    %f = stage.product %c by(%b)
           map <launch = 1, results = [output], weight_tile = 32,
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

// A launch counts the rows of its first operand.

func.func @order(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  // expected-error@+1 {{has a mapping, but its tokens are not its first operand}}
  %y = stage.graph(%w, %x) map <mma, tokens = 8, blocks = 1>
     : (tensor<64x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%b: tensor<64x64xbf16>, %a: tensor<?x64xbf16>):
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
