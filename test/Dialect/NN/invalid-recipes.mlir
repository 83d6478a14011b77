// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{unknown recipe 'glue'; expected one of concat, interleave, transpose, fold, quantize}}
func.func private @kind() attributes {a = #nn.recipe<"w" = glue(@a, @b)>}

// -----

// expected-error @below {{expected the name of a parameter}}
func.func private @source() attributes {a = #nn.recipe<"w" = concat(@a, b)>}

// -----

// expected-error @below {{recipe 'w' needs at least two parameters, got 1}}
func.func private @one() attributes {a = #nn.recipe<"w" = concat(@a)>}

// -----

// expected-error @below {{recipe 'w' reads parameter 'a' twice}}
func.func private @twice() attributes {a = #nn.recipe<"w" = concat(@a, @a)>}

// -----

// expected-error @+2 {{recipe 'w' reads '1:'; expected position:name, such as 1:gate.weight}}
func.func private @unnamed()
    attributes {a = #nn.recipe<"w" = concat("0:a", "1:")>}

// -----

// expected-error @+2 {{recipe 'w' reads parameter '1:a' twice}}
func.func private @twice_in_member()
    attributes {a = #nn.recipe<"w" = concat("1:a", "1:a")>}

// -----

// expected-error @below {{recipe has no name}}
func.func private @result() attributes {a = #nn.recipe<"" = concat(@a, @b)>}

// -----

// expected-error @+2 {{recipe 'w' cannot interleave blocks of 0 rows}}
func.func private @block()
    attributes {a = #nn.recipe<"w" = interleave(@a, @b block 0)>}

// -----

// expected-error @below {{recipe 'w' needs 2 parameters, got 1}}
func.func private @fold() attributes {a = #nn.recipe<"w" = fold(@a) keep>}

// -----

// expected-error @below {{recipe 'w' needs a type and a scale}}
func.func private @noscale() attributes {a = #nn.recipe<"w" = quantize(@a)>}

// -----

// expected-error @+2 {{recipe 'w' stores 'bf16'; expected f8E4M3FN, f8E5M2 or i8}}
func.func private @storage()
    attributes {a = #nn.recipe<"w" = quantize(@a, bf16 scale 1.0)>}

// -----

// expected-error @+2 {{recipe 'w' has a scale that is negative}}
func.func private @scale()
    attributes {a = #nn.recipe<"w" = quantize(@a, i8 scale -1.0)>}

// -----

nn.model @m class "M" {
  nn.kernel @K targets(["cpu"])
    // expected-error @below {{recipe 'w' reads 'gate.weight'; expected position:name, such as 1:gate.weight}}
    weights [#nn.recipe<"w" = concat("gate.weight", "1:up")>]
}

// -----

nn.model @m class "M" {
  // expected-error @below {{recipe 'w' reads @gate::@weight; expected position:name, such as 1:gate.weight}}
  nn.kernel @K targets(["cpu"])
    weights [#nn.recipe<"w" = concat(@gate::@weight, "1:up")>]
}

// -----

// Recipes of a call name parameters by symbols.

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p : tensor<4x8xf32>
    nn.parameter @q : tensor<4x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' reads #fuse.member_parameter<0, "p">; expected the symbol of a parameter}}
    %y = nn.fused_call @K [@a](%x) site("a#0")
           weights [#nn.recipe<"w" = concat("0:p", "0:q")>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// Recipes of a call are invertible and read parameters of its members.

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p : tensor<4x8xf32>
    nn.parameter @n : tensor<8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' rounds without 'keep'; its parameters cannot be restored}}
    %y = nn.fused_call @K [@a](%x) site("a#0")
           weights [#nn.recipe<"w" = fold(@a::@p, @a::@n)>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p : tensor<4x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @b class "B" {
    nn.parameter @p : tensor<4x8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' reads 'b.p', which is not a parameter of a member}}
    %y = nn.fused_call @K [@a](%x) site("a#0")
           weights [#nn.recipe<"w" = concat(@a::@p, @b::@p)>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p : tensor<4x8xf32>
    nn.parameter @q : tensor<4x6xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' combines 'a.p' of type 'tensor<4x8xf32>' with 'a.q' of type 'tensor<4x6xf32>'}}
    %y = nn.fused_call @K [@a](%x) site("a#0")
           weights [#nn.recipe<"w" = concat(@a::@p, @a::@q)>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    // expected-error @below {{is tied to 'b.p', which is not a parameter of the model}}
    nn.parameter @p tied_to(@b::@p) : tensor<4x8xf32>
  }
}

// -----

nn.model @m class "M" {
  // expected-error @below {{is tied to 'p', which is itself}}
  nn.parameter @p tied_to(@p) : tensor<4x8xf32>
}

// -----

nn.model @m class "M" {
  nn.parameter @p : tensor<8xf32>
  // expected-error @below {{has type 'tensor<4xf32>', 'p' is 'tensor<8xf32>'}}
  nn.parameter @q tied_to(@p) : tensor<4xf32>
}

// -----

nn.model @m class "M" {
  // expected-error @below {{a tied parameter is a symbol, write tied_to(@embed::@"0"::@p) in place of tied_to("embed.0.p")}}
  nn.parameter @q tied_to("embed.0.p") : tensor<4xf32>
}

// -----

// A tie refers to the owner directly, not to another tied parameter.

nn.model @m class "M" {
  nn.parameter @p : tensor<8xf32>
  nn.parameter @q tied_to(@p) : tensor<8xf32>
  // expected-error @below {{is tied to 'q', which is tied to 'p'; expected that one}}
  nn.parameter @r tied_to(@q) : tensor<8xf32>
}
