// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// A rank applies a recipe to its parts, so the parts must fit each other.

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p shard(<dim = 0, axis = "tp", count = 2>) : tensor<4x8xf32>
    nn.parameter @q : tensor<4x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' combines 'a.p' and 'a.q', which ranks share in different ways}}
    %y = nn.fused_call @K [@a](%x) site("a#0")
           weights [#nn.recipe<"w" = concat(@a::@p, @a::@q)>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p shard(<dim = 0, axis = "tp", count = 2>) : tensor<4x8xf32>
    nn.parameter @q shard(<dim = 0, axis = "tp", count = 2>) : tensor<8x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' concatenates 4 and 8 rows of which ranks have parts; expected equal numbers of rows}}
    %y = nn.fused_call @K [@a](%x) site("a#0")
           weights [#nn.recipe<"w" = concat(@a::@p, @a::@q)>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// Blocks of 4 rows divide the parameters, but not their parts of 2 rows.

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p shard(<dim = 0, axis = "tp", count = 2>) : tensor<4x8xf32>
    nn.parameter @q shard(<dim = 0, axis = "tp", count = 2>) : tensor<4x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' reads blocks of 4 rows, 'tensor<2x8xf32>' has 2}}
    %y = nn.fused_call @K [@a](%x) site("a#0")
           weights [#nn.recipe<"w" = interleave(@a::@p, @a::@q block 4)>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p shard(<dim = 1, axis = "tp", count = 2>) : tensor<4x8xf32>
    nn.parameter @n : tensor<8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' folds a vector whose parts are not those of the columns of 'a.p'}}
    %y = nn.fused_call @K [@a](%x) site("a#0")
           weights [#nn.recipe<"w" = fold(@a::@p, @a::@n) keep>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// Recipes whose parts are those of the result: pieces, rows and columns, and
// whole vectors with cut rows.

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p shard(<dim = 0, axis = "tp", count = 2>) : tensor<4x8xf32>
    nn.parameter @q shard(<dim = 0, axis = "tp", count = 2>) : tensor<4x8xf32>
    nn.parameter @n : tensor<8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.fused_call @K [@a](%x) site("a#0")
           weights [#nn.recipe<"c" = concat(@a::@p, @a::@q) keep>,
                    #nn.recipe<"i" = interleave(@a::@p, @a::@q block 2) keep>,
                    #nn.recipe<"t" = transpose(@a::@p) keep>,
                    #nn.recipe<"f" = fold(@a::@p, @a::@n) keep>,
                    #nn.recipe<"q" = quantize(@a::@p, i8 scale 0.5) keep>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
