// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// Models, modules and calls: one case per message.

// -----

// expected-error @below {{'nn.model' op class name must not be empty}}
nn.model @m class "" {
}

// -----

// expected-error @below {{'fuse.must_fuse' must be an array of path globs, got "mlp"}}
nn.model @m class "M" attributes {fuse.must_fuse = "mlp"} {
}

// -----

// expected-error @below {{'fuse.no_fuse' must be an array of path globs, got [1]}}
nn.model @m class "M" attributes {fuse.no_fuse = [1]} {
}

// -----

// expected-error @below {{has no attribute 'fuse.expect_site'; a model has fuse.must_fuse, fuse.expect_sites, fuse.no_fuse, fuse.refusals}}
nn.model @m class "M" attributes {fuse.expect_site = 36} {
}

// -----

nn.model @m class "M" {
  // expected-error @below {{has no attribute 'fuse.must_fuse'; a model has fuse.must_fuse}}
  nn.module @mlp class "MLP" attributes {fuse.must_fuse = ["mlp"]} {
  }
}

// -----

// expected-error @below {{'fuse.expect_sites' must be a number of sites, got -1 : i64}}
nn.model @m class "M" attributes {fuse.expect_sites = -1} {
}

// -----

nn.model @m class "M" {
  // expected-error @below {{name must not be empty}}
  nn.module @"" class "RMSNorm" {
  }
}

// -----

nn.model @m class "M" {
  // expected-error @below {{name 'layers.0' must not contain '.', which separates the names of a path}}
  nn.module @"layers.0" class "Layer" {
  }
}

// -----

nn.model @m class "M" {
  // expected-error @below {{class name must not be empty}}
  nn.module @norm class "" {
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    // expected-note @below {{see existing symbol definition here}}
    nn.parameter @weight : tensor<8xbf16>
    // expected-error @below {{redefinition of symbol named 'weight'}}
    nn.parameter @weight : tensor<8xbf16>
  }
}

// -----

nn.model @m class "M" {
  // expected-error @below {{name 'norm.weight' must not contain '.'}}
  nn.parameter @"norm.weight" : tensor<8xbf16>
}

// -----

nn.model @m class "M" {
  // expected-error @below {{attribute 'type' failed to satisfy constraint}}
  nn.parameter @weight : tensor<?xbf16>
}

// -----

// expected-error @below {{expects parent op to be one of 'nn.model, nn.module'}}
nn.module @norm class "RMSNorm" {
}

// -----

nn.model @m class "M" {
  // expected-error @below {{function 'helper' in model 'm'; the only function of a module is 'forward'}}
  func.func private @helper()
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    // expected-error @below {{cannot be in an nn.module; expected nn.module, nn.parameter or the forward}}
    arith.constant 1 : i32
  }
}

// -----

nn.model @m class "M" {
  // expected-error @below {{default of argument 0 has type 'f32', the argument 'tensor<8xf32>'}}
  func.func private @forward(tensor<8xf32> {fuse.default = 1.0 : f32})
}

// -----

nn.model @m class "M" {
  // expected-error @below {{default of argument 0 has no type; expected 'f32'}}
  func.func private @forward(f32 {fuse.default = [1]})
}

// -----

func.func @outside() {
  // expected-error @below {{must be in the forward of an nn.module}}
  %w = nn.get_parameter @weight : tensor<8xbf16>
  return
}

// -----

nn.model @m class "M" {
  nn.parameter @weight : tensor<8xbf16>
  func.func @forward() {
    // expected-error @below {{'bias' names no parameter of model 'm'; expected one of weight}}
    %w = nn.get_parameter @bias : tensor<8xbf16>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward() {
      // expected-error @below {{'bias' names no parameter of module 'norm'; it has none}}
      %w = nn.get_parameter @bias : tensor<8xbf16>
      return
    }
  }
}

// -----

nn.model @m class "M" {
  nn.parameter @weight : tensor<8xbf16>
  func.func @forward() {
    // expected-error @below {{has type 'tensor<8xf32>', parameter 'weight' is 'tensor<8xbf16>'}}
    %w = nn.get_parameter @weight : tensor<8xf32>
    return
  }
}

// -----

func.func @outside() {
  // expected-error @below {{must be in the forward of an nn.model or nn.module}}
  nn.call_module @norm() : () -> ()
  return
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{'mlp' names no module in model 'm'; expected one of norm}}
    nn.call_module @mlp() : () -> ()
    return
  }
}

// -----

nn.model @m class "M" {
  func.func @forward() {
    // expected-error @below {{'layers.0' names no module in model 'm'; it has no children}}
    nn.call_module @layers::@"0"() : () -> ()
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @layers class "ModuleList" {
  }
  func.func @forward() {
    // expected-error @below {{module 'layers' has no forward to call}}
    nn.call_module @layers() : () -> ()
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{passes 0 values, 'norm' expects 1}}
    nn.call_module @norm() : () -> tensor<?x8xbf16>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @scale class "Scale" {
    func.func private @forward(f32, f32 {fuse.default = 1.0 : f32})
  }
  func.func @forward() {
    // expected-error @below {{passes 0 values, 'scale' expects 1 to 2}}
    nn.call_module @scale() : () -> ()
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xf32>) {
    // expected-error @below {{passes 'tensor<?x8xf32>' as argument 0, 'norm' expects 'tensor<?x8xbf16>'}}
    %0 = nn.call_module @norm(%x) : (tensor<?x8xf32>) -> tensor<?x8xbf16>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{returns 'tensor<?x8xf32>', 'norm' returns 'tensor<?x8xbf16>'}}
    %0 = nn.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xf32>
    return
  }
}

// -----

// A member cannot read a value that is computed later.

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{operand #0 does not dominate this use}}
    %a = nn.call_module @norm(%b) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    // expected-note @below {{operand defined here}}
    %b = nn.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{needs at least one member}}
    nn.fused_call @K []() site("s") : () -> ()
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{names no module in model 'm'; expected one of norm, mlp}}
    nn.fused_call @K [@up]() site("s") : () -> ()
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{passes 0 values, 'norm' expects 1}}
    nn.fused_call @K [@norm, @mlp]() site("s") : () -> ()
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{returns 'tensor<?x8xbf16>', its members return 'tensor<?x8xf32>'}}
    %f = nn.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{'also' has position 1, there are 1 intermediates}}
    %f = nn.fused_call @K [@norm, @mlp](%x) also [1] site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xf32>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{site 's' has no nn.identity_call of member 'mlp'}}
    %f = nn.fused_call @K [@norm, @mlp](%x) sides(%mask) site("s")
      : (tensor<?x8xbf16>, tensor<?xi1>) -> tensor<?x8xf32>
    return
  }
}

// -----

// Values passed inside of a chain have no other users.

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xf32> {
    // expected-error @below {{site 's' is read by 'func.return' before the nn.identity_call of member 'mlp'; only results of the last call may be read}}
    %f = nn.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xf32>
    %m = nn.identity_call @mlp(%f) interface [-1] site("s")
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return %f : tensor<?x8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xbf16>, %mask: tensor<?xi1>) {
    // expected-error @below {{'sides' must be the values that the identity calls of its site ignore, in their order}}
    %f = nn.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xf32>
    %m = nn.identity_call @mlp(%f) ignores(%mask) interface [-1, 0]
           site("s")
      : (tensor<?x8xf32>, tensor<?xi1>) -> tensor<?x8xf32>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @sink class "Sink" {
    func.func private @forward()
  }
  func.func @forward() {
    // expected-error @below {{last member 'sink' has no results}}
    nn.fused_call @K [@sink]() site("s") : () -> ()
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{inferred type(s) 'tensor<?x8xf32>' are incompatible with return type(s) of operation 'tensor<?x8xbf16>'}}
    // expected-error @below {{failed to infer returned types}}
    %m = nn.identity_call @mlp(%f) interface [-1, -2] site("s")
      : (tensor<?x8xf32>) -> tensor<?x8xbf16>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{'interface' has 1 entries, 'mlp' expects 2 values}}
    %m = nn.identity_call @mlp(%f) interface [-1] site("s")
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{'interface' names ignored value 0, there are 0}}
    %m = nn.identity_call @mlp(%f) interface [-1, 0] site("s")
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{ignores 'tensor<?x8xbf16>' as argument 1, 'mlp' expects 'tensor<?xi1>'}}
    %m = nn.identity_call @mlp(%f) ignores(%x) interface [-1, 0] site("s")
      : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<?x8xf32>
    return
  }
}

// -----

nn.model @m class "M" {
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>, tensor<?xi1>)
        -> tensor<?x8xf32>
  }
  func.func @forward(%f: tensor<?x8xf32>, %mask: tensor<?xi1>, %x: tensor<?x8xbf16>) {
    // expected-error @below {{ignores a value that 'interface' does not name}}
    %m = nn.identity_call @mlp(%f) ignores(%mask) interface [-1, -2]
           site("s")
      : (tensor<?x8xf32>, tensor<?xi1>) -> tensor<?x8xf32>
    return
  }
}

// -----

nn.model @m class "M" {
  // expected-error @below {{needs at least one (class, path) pair}}
  nn.fusion_pattern @p []
}

// -----

nn.model @m class "M" {
  // expected-error @below {{member 1 has an empty path}}
  nn.fusion_pattern @p [("RMSNorm", "norm"), ("MLP", "")]
}

// -----

nn.model @m class "M" {
  // expected-error @below {{has 2 classes and 1 paths}}
  "nn.fusion_pattern"() {sym_name = "p", classes = ["RMSNorm", "MLP"],
                           paths = ["norm"]} : () -> ()
}

// -----

// expected-error @below {{expects parent op 'nn.model'}}
nn.fusion_pattern @p [("RMSNorm", "norm")]

// -----

nn.model @m class "M" {
  // expected-error @below {{needs at least one target, such as cpu or sm_90}}
  nn.kernel @k targets([])
}

// -----

// Unfusing would pass an intermediate that does not exist.

nn.model @interface_out_of_range class "C" {
  nn.kernel @K targets(["cpu"])
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %f = nn.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    // expected-error @below {{'interface' names intermediate 4, there are 1}}
    %m = nn.identity_call @mlp(%f) interface [-5] site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %m : tensor<?x8xbf16>
  }
}

// -----

nn.model @interface_type class "C" {
  nn.kernel @K targets(["cpu"])
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<?x8xf32>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %f = nn.fused_call @K [@norm, @mlp](%x) site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    // expected-error @below {{intermediate 0 is 'tensor<?x8xbf16>', 'mlp' expects 'tensor<?x8xf32>' as argument 0}}
    %m = nn.identity_call @mlp(%f) interface [-1] site("s")
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %m : tensor<?x8xbf16>
  }
}

// -----

// expected-error @below {{'nn.model' op name must not be empty}}
"nn.model"() <{class_name = "M", sym_name = ""}> ({
^bb0:
}) : () -> ()

// -----

nn.model @m class "M" {
  // expected-error @below {{'nn.fusion_pattern' op name must not be empty}}
  "nn.fusion_pattern"() <{classes = ["A"], paths = ["a"], sym_name = ""}>
    : () -> ()
}

// -----

nn.model @m class "M" {
  // expected-error @below {{'nn.kernel' op name must not be empty}}
  "nn.kernel"() <{sym_name = "", targets = ["cpu"]}> : () -> ()
}

// -----

// A forward without a return cannot be inlined.

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    // expected-error @below {{forward of module 'norm' does not end in a return of its results}}
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      llvm.unreachable
    }
  }
}

// -----

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xbf16>) -> tensor<?x8xbf16>
  }
  func.func @forward(%x: tensor<?x8xbf16>) {
    // expected-error @below {{body 'a' is not a function next to the model}}
    nn.fused_call @K [@norm](%x) site("s") body(@a)
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return
  }
}

// -----

// The reference that keeps a private forward names the forward of its module.

nn.model @m class "M" {
  // expected-error @below {{has a private forward and 'nn.forward' @exp::@forward, expected @norm::@forward}}
  "nn.module"() <{sym_name = "norm", class_name = "RMSNorm"}> ({
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }) {nn.forward = @exp::@forward} : () -> ()
}

// -----

nn.model @m class "M" {
  // expected-error @below {{has a private forward and no 'nn.forward', expected @norm::@forward}}
  "nn.module"() <{sym_name = "norm", class_name = "RMSNorm"}> ({
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }) : () -> ()
}

// -----

nn.model @m class "M" {
  // expected-error @below {{has 'nn.forward', but no private forward}}
  nn.module @norm class "RMSNorm" attributes {nn.forward = @norm::@forward} {
  }
}
