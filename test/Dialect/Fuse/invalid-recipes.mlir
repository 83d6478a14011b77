// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{unknown recipe 'glue'; expected one of concat, interleave, fold, quantize}}
func.func private @kind() attributes {a = #fuse.recipe<"w" = glue(@a, @b)>}

// -----

// expected-error @below {{expected the name of a parameter}}
func.func private @source() attributes {a = #fuse.recipe<"w" = concat(@a, b)>}

// -----

// expected-error @below {{recipe 'w' needs at least two parameters, got 1}}
func.func private @one() attributes {a = #fuse.recipe<"w" = concat(@a)>}

// -----

// expected-error @below {{recipe 'w' reads parameter 'a' twice}}
func.func private @twice() attributes {a = #fuse.recipe<"w" = concat(@a, @a)>}

// -----

// expected-error @+2 {{recipe 'w' reads '1:'; expected position:name, such as 1:gate.weight}}
func.func private @unnamed()
    attributes {a = #fuse.recipe<"w" = concat("0:a", "1:")>}

// -----

// expected-error @+2 {{recipe 'w' reads parameter '1:a' twice}}
func.func private @twice_in_member()
    attributes {a = #fuse.recipe<"w" = concat("1:a", "1:a")>}

// -----

// expected-error @below {{recipe has no name}}
func.func private @result() attributes {a = #fuse.recipe<"" = concat(@a, @b)>}

// -----

// expected-error @+2 {{recipe 'w' cannot interleave blocks of 0 rows}}
func.func private @block()
    attributes {a = #fuse.recipe<"w" = interleave(@a, @b block 0)>}

// -----

// expected-error @below {{recipe 'w' needs 2 parameters, got 1}}
func.func private @fold() attributes {a = #fuse.recipe<"w" = fold(@a) keep>}

// -----

// expected-error @below {{recipe 'w' needs a type and a scale}}
func.func private @noscale() attributes {a = #fuse.recipe<"w" = quantize(@a)>}

// -----

// expected-error @+2 {{recipe 'w' stores 'bf16'; expected f8E4M3FN, f8E5M2 or i8}}
func.func private @storage()
    attributes {a = #fuse.recipe<"w" = quantize(@a, bf16 scale 1.0)>}

// -----

// expected-error @+2 {{recipe 'w' has a scale that is negative}}
func.func private @scale()
    attributes {a = #fuse.recipe<"w" = quantize(@a, i8 scale -1.0)>}

// -----

fuse.model @m class "M" {
  fuse.kernel @K targets(["cpu"])
    // expected-error @below {{recipe 'w' reads 'gate.weight'; expected position:name, such as 1:gate.weight}}
    weights [#fuse.recipe<"w" = concat("gate.weight", "1:up")>]
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{recipe 'w' reads @gate::@weight; expected position:name, such as 1:gate.weight}}
  fuse.kernel @K targets(["cpu"])
    weights [#fuse.recipe<"w" = concat(@gate::@weight, "1:up")>]
}

// -----

// Recipes of a call name parameters by symbols.

fuse.model @m class "M" {
  fuse.module @a class "A" {
    fuse.parameter @p : tensor<4x8xf32>
    fuse.parameter @q : tensor<4x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' reads #fuse.member_parameter<0, "p">; expected the symbol of a parameter}}
    %y = fuse.fused_call @K [@a](%x) site("a#0")
           weights [#fuse.recipe<"w" = concat("0:p", "0:q")>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// Recipes of a call are invertible and read parameters of its members.

fuse.model @m class "M" {
  fuse.module @a class "A" {
    fuse.parameter @p : tensor<4x8xf32>
    fuse.parameter @n : tensor<8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' rounds without 'keep'; its parameters cannot be restored}}
    %y = fuse.fused_call @K [@a](%x) site("a#0")
           weights [#fuse.recipe<"w" = fold(@a::@p, @a::@n)>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @a class "A" {
    fuse.parameter @p : tensor<4x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  fuse.module @b class "B" {
    fuse.parameter @p : tensor<4x8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' reads 'b.p', which is not a parameter of a member}}
    %y = fuse.fused_call @K [@a](%x) site("a#0")
           weights [#fuse.recipe<"w" = concat(@a::@p, @b::@p)>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @a class "A" {
    fuse.parameter @p : tensor<4x8xf32>
    fuse.parameter @q : tensor<4x6xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{recipe 'w' combines 'a.p' of type 'tensor<4x8xf32>' with 'a.q' of type 'tensor<4x6xf32>'}}
    %y = fuse.fused_call @K [@a](%x) site("a#0")
           weights [#fuse.recipe<"w" = concat(@a::@p, @a::@q)>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @a class "A" {
    // expected-error @below {{is tied to 'b.p', which is not a parameter of the model}}
    fuse.parameter @p tied_to(@b::@p) : tensor<4x8xf32>
  }
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{is tied to 'p', which is itself}}
  fuse.parameter @p tied_to(@p) : tensor<4x8xf32>
}

// -----

fuse.model @m class "M" {
  fuse.parameter @p : tensor<8xf32>
  // expected-error @below {{has type 'tensor<4xf32>', 'p' is 'tensor<8xf32>'}}
  fuse.parameter @q tied_to(@p) : tensor<4xf32>
}

// -----

// A tie refers to the owner directly, not to another tied parameter.

fuse.model @m class "M" {
  fuse.parameter @p : tensor<8xf32>
  fuse.parameter @q tied_to(@p) : tensor<8xf32>
  // expected-error @below {{is tied to 'q', which is tied to 'p'; expected that one}}
  fuse.parameter @r tied_to(@q) : tensor<8xf32>
}
