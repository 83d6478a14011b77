// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// Models, modules and calls: one case per message.

// -----

// expected-error @below {{'fuse.model' op class name must not be empty}}
fuse.model @m class "" {
}

// -----

// expected-error @below {{'fuse.must_fuse' must be an array of path globs, got "mlp"}}
fuse.model @m class "M" attributes {fuse.must_fuse = "mlp"} {
}

// -----

// expected-error @below {{'fuse.no_fuse' must be an array of path globs, got [1]}}
fuse.model @m class "M" attributes {fuse.no_fuse = [1]} {
}

// -----

// expected-error @below {{has no attribute 'fuse.expect_site'; a model has fuse.must_fuse, fuse.expect_sites, fuse.no_fuse, fuse.refusals}}
fuse.model @m class "M" attributes {fuse.expect_site = 36} {
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{has no attribute 'fuse.must_fuse'; a model has fuse.must_fuse}}
  fuse.module @mlp class "MLP" attributes {fuse.must_fuse = ["mlp"]} {
  }
}

// -----

// expected-error @below {{'fuse.expect_sites' must be a number of sites, got -1 : i64}}
fuse.model @m class "M" attributes {fuse.expect_sites = -1} {
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{name must not be empty}}
  fuse.module @"" class "RMSNorm" {
  }
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{name 'layers.0' must not contain '.', which separates the names of a path}}
  fuse.module @"layers.0" class "Layer" {
  }
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{class name must not be empty}}
  fuse.module @norm class "" {
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    // expected-note @below {{see existing symbol definition here}}
    fuse.parameter @weight : tensor<8xbf16>
    // expected-error @below {{redefinition of symbol named 'weight'}}
    fuse.parameter @weight : tensor<8xbf16>
  }
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{name 'norm.weight' must not contain '.'}}
  fuse.parameter @"norm.weight" : tensor<8xbf16>
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{attribute 'type' failed to satisfy constraint}}
  fuse.parameter @weight : tensor<?xbf16>
}

// -----

// expected-error @below {{expects parent op to be one of 'fuse.model, fuse.module'}}
fuse.module @norm class "RMSNorm" {
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{function 'helper' in model 'm'; the only function of a module is 'forward'}}
  func.func private @helper()
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    // expected-error @below {{cannot be in a fuse.module; expected fuse.module, fuse.parameter or the forward}}
    arith.constant 1 : i32
  }
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{default of argument 0 has type 'f32', the argument 'tensor<8xf32>'}}
  func.func private @forward(tensor<8xf32> {fuse.default = 1.0 : f32})
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{default of argument 0 has no type; expected 'f32'}}
  func.func private @forward(f32 {fuse.default = [1]})
}

// -----

func.func @outside() {
  // expected-error @below {{must be in the forward of a fuse.module}}
  %w = fuse.get_parameter @weight : tensor<8xbf16>
  return
}

// -----

fuse.model @m class "M" {
  fuse.parameter @weight : tensor<8xbf16>
  func.func @forward() {
    // expected-error @below {{'bias' names no parameter of model 'm'; expected one of weight}}
    %w = fuse.get_parameter @bias : tensor<8xbf16>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward() {
      // expected-error @below {{'bias' names no parameter of module 'norm'; it has none}}
      %w = fuse.get_parameter @bias : tensor<8xbf16>
      return
    }
  }
}

// -----

fuse.model @m class "M" {
  fuse.parameter @weight : tensor<8xbf16>
  func.func @forward() {
    // expected-error @below {{has type 'tensor<8xf32>', parameter 'weight' is 'tensor<8xbf16>'}}
    %w = fuse.get_parameter @weight : tensor<8xf32>
    return
  }
}

// -----

func.func @outside() {
  // expected-error @below {{must be in the forward of a fuse.model or fuse.module}}
  fuse.call_module @norm() : () -> ()
  return
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{'mlp' names no module in model 'm'; expected one of norm}}
    fuse.call_module @mlp() : () -> ()
    return
  }
}

// -----

fuse.model @m class "M" {
  func.func @forward() {
    // expected-error @below {{'layers.0' names no module in model 'm'; it has no children}}
    fuse.call_module @layers::@"0"() : () -> ()
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @layers class "ModuleList" {
  }
  func.func @forward() {
    // expected-error @below {{module 'layers' has no forward to call}}
    fuse.call_module @layers() : () -> ()
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{passes 0 values, 'norm' expects 1}}
    fuse.call_module @norm() : () -> tensor<?x8xbf16>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @scale class "Scale" {
    func.func private @forward(f32, f32 {fuse.default = 1.0 : f32})
  }
  func.func @forward() {
    // expected-error @below {{passes 0 values, 'scale' expects 1 to 2}}
    fuse.call_module @scale() : () -> ()
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xf32>) {
    // expected-error @below {{passes 'tensor<?x8xf32>' as argument 0, 'norm' expects 'tensor<?x8xbf16>'}}
    %0 = fuse.call_module @norm(%x) : (tensor<?x8xf32>) -> tensor<?x8xbf16>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{returns 'tensor<?x8xf32>', 'norm' returns 'tensor<?x8xbf16>'}}
    %0 = fuse.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xf32>
    return
  }
}

// -----

// A member cannot read a value that is computed later.

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{operand #0 does not dominate this use}}
    %a = fuse.call_module @norm(%b) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    // expected-note @below {{operand defined here}}
    %b = fuse.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{needs at least one member}}
    fuse.fused_call @K []() site("s") : () -> ()
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{names no module in model 'm'; expected one of norm, mlp}}
    fuse.fused_call @K [@up]() site("s") : () -> ()
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{passes 0 values, 'norm' expects 1}}
    fuse.fused_call @K [@norm, @mlp]() site("s") : () -> ()
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{returns 'tensor<?x8xbf16>', its members return 'tensor<?x8xf32>'}}
    %f = fuse.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{'also' has position 1, there are 1 intermediates}}
    %f = fuse.fused_call @K [@norm, @mlp](%x) also [1] site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xf32>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{site 's' has no fuse.identity_call of member 'mlp'}}
    %f = fuse.fused_call @K [@norm, @mlp](%x) sides(%mask) site("s")
      : (tensor<?x8xbf16>, tensor<?xi1>) -> tensor<?x8xf32>
    return
  }
}

// -----

// Values passed inside of a chain have no other users.

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xf32> {
    // expected-error @below {{site 's' is read by 'func.return' before the fuse.identity_call of member 'mlp'; only results of the last call may be read}}
    %f = fuse.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xf32>
    %m = fuse.identity_call @mlp(%f) interface [-1] site("s")
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return %f : tensor<?x8xf32>
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{'sides' must be the values that the identity calls of its site ignore, in their order}}
    %f = fuse.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xf32>
    %m = fuse.identity_call @mlp(%f) ignores(%mask) interface [-1, 0]
           site("s")
      : (tensor<?x8xf32>, tensor<?xi1>) -> tensor<?x8xf32>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @sink class "Sink" {
    func.func private @forward()
  }
  func.func @forward() {
    // expected-error @below {{last member 'sink' has no results}}
    fuse.fused_call @K [@sink]() site("s") : () -> ()
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{inferred type(s) 'tensor<?x8xf32>' are incompatible with return type(s) of operation 'tensor<?x8xbf16>'}}
    // expected-error @below {{failed to infer returned types}}
    %m = fuse.identity_call @mlp(%f) interface [-1, -2] site("s")
      : (tensor<?x8xf32>) -> tensor<?x8xbf16>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{'interface' has 1 entries, 'mlp' expects 2 values}}
    %m = fuse.identity_call @mlp(%f) interface [-1] site("s")
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{'interface' names ignored value 0, there are 0}}
    %m = fuse.identity_call @mlp(%f) interface [-1, 0] site("s")
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{ignores 'tensor<?x8xbf16>' as argument 1, 'mlp' expects 'tensor<?xi1>'}}
    %m = fuse.identity_call @mlp(%f) ignores(%x) interface [-1, 0] site("s")
      : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<?x8xf32>
    return
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{ignores a value that 'interface' does not name}}
    %m = fuse.identity_call @mlp(%f) ignores(%mask) interface [-1, -2]
           site("s")
      : (tensor<?x8xf32>, tensor<?xi1>) -> tensor<?x8xf32>
    return
  }
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{needs at least one (class, path) pair}}
  fuse.fusion_pattern @p []
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{member 1 has an empty path}}
  fuse.fusion_pattern @p [("RMSNorm", "norm"), ("MLP", "")]
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{has 2 classes and 1 paths}}
  "fuse.fusion_pattern"() {sym_name = "p", classes = ["RMSNorm", "MLP"],
                           paths = ["norm"]} : () -> ()
}

// -----

// expected-error @below {{expects parent op 'fuse.model'}}
fuse.fusion_pattern @p [("RMSNorm", "norm")]

// -----

fuse.model @m class "M" {
  // expected-error @below {{needs at least one target, such as cpu or sm_90}}
  fuse.kernel @k targets([])
}

// -----

// Unfusing would pass an intermediate that does not exist.

fuse.model @interface_out_of_range class "C" {
  fuse.kernel @K targets(["cpu"])
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %f = fuse.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    // expected-error @below {{'interface' names intermediate 4, there are 1}}
    %m = fuse.identity_call @mlp(%f) interface [-5] site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %m : tensor<?x8xbf16>
  }
}

// -----

fuse.model @interface_type class "C" {
  fuse.kernel @K targets(["cpu"])
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  fuse.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xf32>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %f = fuse.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    // expected-error @below {{intermediate 0 is 'tensor<?x8xbf16>', 'mlp' expects 'tensor<?x8xf32>' as argument 0}}
    %m = fuse.identity_call @mlp(%f) interface [-1] site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %m : tensor<?x8xbf16>
  }
}

// -----

// expected-error @below {{'fuse.model' op name must not be empty}}
"fuse.model"() <{class_name = "M", sym_name = ""}> ({
^bb0:
}) : () -> ()

// -----

fuse.model @m class "M" {
  // expected-error @below {{'fuse.fusion_pattern' op name must not be empty}}
  "fuse.fusion_pattern"() <{classes = ["A"], paths = ["a"], sym_name = ""}>
    : () -> ()
}

// -----

fuse.model @m class "M" {
  // expected-error @below {{'fuse.kernel' op name must not be empty}}
  "fuse.kernel"() <{sym_name = "", targets = ["cpu"]}> : () -> ()
}

// -----

// A forward without a return cannot be inlined.

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    // expected-error @below {{forward of module 'norm' does not end in a return of its results}}
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      llvm.unreachable
    }
  }
}

// -----

fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{body 'a' is not a function next to the model}}
    fuse.fused_call "K" [@norm](%x) site("s") body(@a)
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return
  }
}
