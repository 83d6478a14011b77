// RUN: fuse-opt %s --fuse-map-stages --split-input-file --verify-diagnostics

// Mappings in the text that the mma kernels do not have.

func.func @registers(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    // expected-error@+1 {{has a result in 'registers', the mma kernels have results in 'workspace', 'launch' or 'output'}}
    %c = stage.rows(%a) map <launch = 0, results = [registers]>
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

func.func @one_launch(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  // expected-error@+1 {{has an invalid mapping: launches = 1 requires at most token_tile = 8 tokens, not 16}}
  %y = stage.graph(%x, %w) map <mma, tokens = 16, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    %c = stage.rows(%a) map <launch = 0, results = [workspace]>
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

// The kernels have one stage of rows.

func.func @two_rows(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x64xbf16> {
  // expected-error@+1 {{has a mapping, but kernels have one stage.rows, before the products}}
  %y = stage.graph(%x, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>):
    %c = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%d: tensor<?x64xbf16>):
      stage.yield %d : tensor<?x64xbf16>
    }
    %e = stage.rows(%c) map <launch = 1, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%f: tensor<?x64xbf16>):
      %g = fuse.rms_norm %f eps 1.0e-6
         : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
      stage.yield %g : tensor<?x64xbf16>
    }
    %h = stage.product %e by(%b)
           map <launch = 2, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%i: tensor<?x64xf32>):
      %j = stage.finish %i : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %j : tensor<?x64xbf16>
    }
    stage.yield %h : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

// A product reads tokens that a stage of rows has packed.

func.func @no_rows(%x: tensor<?x64xbf16>, %u: tensor<64x64xbf16>,
                   %w: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{has 0 stage.rows, the mma kernels have one, before the products}}
  %y = stage.graph(%x, %u, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
       -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>, %c: tensor<64x64xbf16>):
    %d = stage.product %a by(%b)
           map <launch = 0, results = [launch], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%e: tensor<?x64xf32>):
      %f = stage.finish %e : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      %g = fuse.activation relu %f : tensor<?x64xbf16> -> tensor<?x64xbf16>
      stage.yield %g : tensor<?x64xbf16>
    }
    %h = stage.product %d by(%c)
           map <launch = 1, results = [output], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%i: tensor<?x64xf32>):
      %j = stage.finish %i : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %j : tensor<?x64xbf16>
    }
    stage.yield %h : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

// Slices are added one after the other.

func.func @order(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                 %w: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %u, %w) map <mma, tokens = 8, blocks = 4>
     : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
       -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<256x64xbf16>,
       %c: tensor<64x256xbf16>):
    %k = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%l: tensor<?x64xbf16>):
      stage.yield %l : tensor<?x64xbf16>
    }
    %d = stage.product %k by(%b)
           map <launch = 1, results = [launch], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<256x64xbf16>) -> tensor<?x256xbf16> {
    ^bb0(%e: tensor<?x256xf32>):
      %f = stage.finish %e : (tensor<?x256xf32>) -> tensor<?x256xbf16>
      %g = fuse.activation relu %f : tensor<?x256xbf16> -> tensor<?x256xbf16>
      stage.yield %g : tensor<?x256xbf16>
    }
    %h = stage.product %d by(%c) slices 128
           map <launch = 2, results = [workspace], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x256xbf16>, tensor<64x256xbf16>) -> tensor<2x?x64xf32>
    // expected-error@+1 {{has order pairwise, the mma kernels add slices in order ascending}}
    %m = stage.reduce(%h) order pairwise map <launch = 2, results = [output]>
       : (tensor<2x?x64xf32>) -> tensor<?x64xbf16> {
    ^bb0(%i: tensor<?x64xf32>):
      %j = stage.finish %i : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %j : tensor<?x64xbf16>
    }
    stage.yield %m : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

// A slice consists of whole runs of hidden units.

func.func @length(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                 %w: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %u, %w) map <mma, tokens = 8, blocks = 16>
     : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
       -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<256x64xbf16>,
       %c: tensor<64x256xbf16>):
    %k = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%l: tensor<?x64xbf16>):
      stage.yield %l : tensor<?x64xbf16>
    }
    %d = stage.product %k by(%b)
           map <launch = 1, results = [launch], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<256x64xbf16>) -> tensor<?x256xbf16> {
    ^bb0(%e: tensor<?x256xf32>):
      %f = stage.finish %e : (tensor<?x256xf32>) -> tensor<?x256xbf16>
      %g = fuse.activation relu %f : tensor<?x256xbf16> -> tensor<?x256xbf16>
      stage.yield %g : tensor<?x256xbf16>
    }
    // expected-error@+1 {{has slices of 100 elements, the mma kernels cut 3 slices of 128}}
    %h = stage.product %d by(%c) slices 100
           map <launch = 2, results = [workspace], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x256xbf16>, tensor<64x256xbf16>) -> tensor<3x?x64xf32>
    %m = stage.reduce(%h) order ascending map <launch = 2, results = [output]>
       : (tensor<3x?x64xf32>) -> tensor<?x64xbf16> {
    ^bb0(%i: tensor<?x64xf32>):
      %j = stage.finish %i : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %j : tensor<?x64xbf16>
    }
    stage.yield %m : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

// Each slice has a block.

func.func @blocks(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                 %w: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{does not fit its mapping: blocks wait for each other, but 1 blocks are less than the 8 units of GEMM2}}
  %y = stage.graph(%x, %u, %w) map <mma, tokens = 8, blocks = 1>
     : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
       -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<256x64xbf16>,
       %c: tensor<64x256xbf16>):
    %k = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%l: tensor<?x64xbf16>):
      stage.yield %l : tensor<?x64xbf16>
    }
    %d = stage.product %k by(%b)
           map <launch = 1, results = [launch], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<256x64xbf16>) -> tensor<?x256xbf16> {
    ^bb0(%e: tensor<?x256xf32>):
      %f = stage.finish %e : (tensor<?x256xf32>) -> tensor<?x256xbf16>
      %g = fuse.activation relu %f : tensor<?x256xbf16> -> tensor<?x256xbf16>
      stage.yield %g : tensor<?x256xbf16>
    }
    %h = stage.product %d by(%c) slices 128
           map <launch = 2, results = [workspace], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x256xbf16>, tensor<64x256xbf16>) -> tensor<2x?x64xf32>
    %m = stage.reduce(%h) order ascending map <launch = 2, results = [output]>
       : (tensor<2x?x64xf32>) -> tensor<?x64xbf16> {
    ^bb0(%i: tensor<?x64xf32>):
      %j = stage.finish %i : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %j : tensor<?x64xbf16>
    }
    stage.yield %m : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

// Both products have the same ring.

func.func @pipeline(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                 %w: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{has products with token_tile = 16, pipeline = 2 and token_tile = 8, pipeline = 2, the mma kernels have one pipeline}}
  %y = stage.graph(%x, %u, %w) map <mma, tokens = 8, blocks = 4>
     : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
       -> tensor<?x64xbf16> {
  ^bb0(%a: tensor<?x64xbf16>, %b: tensor<256x64xbf16>,
       %c: tensor<64x256xbf16>):
    %k = stage.rows(%a) map <launch = 0, results = [launch]>
       : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%l: tensor<?x64xbf16>):
      stage.yield %l : tensor<?x64xbf16>
    }
    %d = stage.product %k by(%b)
           map <launch = 1, results = [launch], weight_tile = 64,
                token_tile = 16, pipeline = 2>
       : (tensor<?x64xbf16>, tensor<256x64xbf16>) -> tensor<?x256xbf16> {
    ^bb0(%e: tensor<?x256xf32>):
      %f = stage.finish %e : (tensor<?x256xf32>) -> tensor<?x256xbf16>
      %g = fuse.activation relu %f : tensor<?x256xbf16> -> tensor<?x256xbf16>
      stage.yield %g : tensor<?x256xbf16>
    }
    %h = stage.product %d by(%c) slices 128
           map <launch = 2, results = [workspace], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x256xbf16>, tensor<64x256xbf16>) -> tensor<2x?x64xf32>
    %m = stage.reduce(%h) order ascending map <launch = 2, results = [output]>
       : (tensor<2x?x64xf32>) -> tensor<?x64xbf16> {
    ^bb0(%i: tensor<?x64xf32>):
      %j = stage.finish %i : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %j : tensor<?x64xbf16>
    }
    stage.yield %m : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}
