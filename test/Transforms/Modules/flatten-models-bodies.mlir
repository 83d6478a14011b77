// RUN: fuse-opt %s -split-input-file -verify-diagnostics --fuse-flatten-models

// Bodies of sites are functions that anybody can edit. What does not fit its
// call any more is an error; parameters behind the values of the call are named.

nn.model @m class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.fused_call group [@a](%x) site("a#0") body(@body) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
func.func @body(%x: tensor<8xf32>, %w: tensor<8xf32> {fuse.parameter = "a.w"}) -> tensor<8xf32> {
  return %w : tensor<8xf32>
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.fused_call group [@a](%x) site("a#0") body(@body) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
// expected-error @below {{body of site 'a#0' has 2 blocks; expected one}}
func.func @body(%x: tensor<8xf32>) -> tensor<8xf32> {
  cf.br ^next
^next:
  return %x : tensor<8xf32>
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.fused_call group [@a](%x) site("a#0") body(@body) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
// expected-error @below {{body of site 'a#0' takes 0 values, the call has 1}}
func.func @body() -> tensor<8xf32> {
  %x = tensor.empty() : tensor<8xf32>
  return %x : tensor<8xf32>
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.fused_call group [@a](%x) site("a#0") body(@body) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
// expected-error @below {{body of site 'a#0' takes another type as argument 0 than the call has}}
func.func @body(%x: tensor<4xf32>) -> tensor<8xf32> {
  %y = tensor.empty() : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.fused_call group [@a](%x) site("a#0") body(@body) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
// expected-error @below {{body of site 'a#0' takes more values than the call has}}
func.func @body(%x: tensor<8xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.fused_call group [@a](%x) site("a#0") body(@body) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
// expected-error @below {{body of site 'a#0' gives other types than the call}}
func.func @body(%x: tensor<8xf32>) -> tensor<4xf32> {
  %y = tensor.empty() : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.fused_call group [@a](%x) site("a#0") body(@body) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
// expected-error @below {{body of site 'a#0' does not end in a return of its results}}
func.func @body(%x: tensor<8xf32>) -> tensor<8xf32> {
  llvm.unreachable
}

// -----

// A symbol that no longer names a parameter, or names one of another type.

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @w : tensor<4xf32>
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.fused_call group [@a](%x) site("a#0") body(@body) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
// expected-error @below {{body of site 'a#0' reads @m::@a::@w, which is not a parameter of type 'tensor<8xf32>'}}
func.func @body(%x: tensor<8xf32>, %w: tensor<8xf32> {fuse.parameter = @m::@a::@w}) -> tensor<8xf32> {
  return %w : tensor<8xf32>
}

// -----

nn.model @m class "M" {
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
// expected-error @below {{argument 0 is @m::@a::@w, which is not a parameter of model 'm'}}
func.func private @other(tensor<8xf32> {fuse.parameter = @m::@a::@w})
