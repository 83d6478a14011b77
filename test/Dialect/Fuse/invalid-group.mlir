// RUN: fuse-opt %s -split-input-file -verify-diagnostics

func.func @input_types(%x: tensor<4xf32>) {
  // expected-error @below {{'fuse.group' op body expects 'tensor<5xf32>', inputs are 'tensor<4xf32>'}}
  "fuse.group"(%x) <{rounding = #fuse.rounding<exact>}> ({
  ^bb0(%a: tensor<5xf32>):
    fuse.yield
  }) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @input_count(%x: tensor<4xf32>) {
  // expected-error @below {{'fuse.group' op body expects , inputs are 'tensor<4xf32>'}}
  "fuse.group"(%x) <{rounding = #fuse.rounding<exact>}> ({
    fuse.yield
  }) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @yielded_types(%x: tensor<4xf32>) {
  // expected-error @below {{'fuse.group' op body yields 'tensor<4xf32>', results are 'tensor<5xf32>'}}
  %0 = fuse.group(%a = %x : tensor<4xf32>) -> tensor<5xf32> rounding(exact) {
    fuse.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @yielded_count(%x: tensor<4xf32>) {
  // expected-error @below {{'fuse.group' op body yields , results are 'tensor<4xf32>'}}
  %0 = fuse.group(%a = %x : tensor<4xf32>) -> tensor<4xf32> rounding(exact) {
    fuse.yield
  }
  return
}

// -----

func.func @no_yield(%x: tensor<?x64xf32>) {
  fuse.group(%a = %x : tensor<?x64xf32>) rounding(exact) {
    // expected-error @below {{block with no terminator}}
    %1 = fuse.activation silu %a : tensor<?x64xf32> -> tensor<?x64xf32>
  }
  return
}

// -----

func.func @other_terminator() {
  // expected-error @below {{'fuse.group' op body must end with fuse.yield}}
  fuse.group() rounding(exact) {
    llvm.unreachable
  }
  return
}

// -----

func.func @yield_outside() {
  // expected-error @below {{'fuse.yield' op expects parent op 'fuse.group'}}
  fuse.yield
}

// -----

func.func @captured_value(%x: tensor<4xf32>) {
  // expected-note @below {{required by region isolation constraints}}
  %0 = fuse.group() -> tensor<4xf32> rounding(exact) {
    // expected-error @below {{'fuse.yield' op using value defined outside the region}}
    fuse.yield %x : tensor<4xf32>
  }
  return
}

// -----

// A kernel has no effects, so its members must not have any.
func.func @effects(%x: memref<4xf32>, %v: f32, %i: index) {
  // expected-error @below {{'fuse.group' op member 'memref.store' must be free of memory effects}}
  fuse.group(%m = %x : memref<4xf32>, %w = %v : f32, %j = %i : index)
      rounding(exact) {
    memref.store %w, %m[%j] : memref<4xf32>
    fuse.yield
  }
  return
}

// -----

func.func @nested_effects(%x: memref<4xf32>, %v: f32, %i: index) {
  // expected-error @below {{'fuse.group' op member 'scf.execute_region' must be free of memory effects}}
  fuse.group(%m = %x : memref<4xf32>, %w = %v : f32, %j = %i : index)
      rounding(exact) {
    scf.execute_region {
      memref.store %w, %m[%j] : memref<4xf32>
      scf.yield
    }
    fuse.yield
  }
  return
}

// -----

// A kernel cannot contain another kernel.
func.func @nested(%x: tensor<?x64xf32>) {
  // expected-error @below {{'fuse.group' op must not contain another fused op}}
  fuse.group(%a = %x : tensor<?x64xf32>) rounding(exact) {
    fuse.group(%b = %a : tensor<?x64xf32>) rounding(exact) {
      fuse.yield
    }
    fuse.yield
  }
  return
}

// -----

func.func @extras() {
  // expected-error @below {{a group supports neither 'also' nor 'scales'}}
  fuse.group() also([act]) rounding(exact) {
    fuse.yield
  }
  return
}

// -----

func.func @scales() {
  // expected-error @below {{a group supports neither 'also' nor 'scales'}}
  fuse.group() scales(i8, input = 1.0) rounding(exact) {
    fuse.yield
  }
  return
}

// -----

func.func @no_rounding() {
  // expected-error @below {{expected 'rounding(exact)' or 'rounding(relaxed skip [...])'}}
  fuse.group() {
    fuse.yield
  }
  return
}

// -----

func.func @places(%x: tensor<?x64xf32>) {
  // expected-error @below {{provenance has 2 places for 1 members}}
  fuse.group(%a = %x : tensor<?x64xf32>) rounding(exact)
      provenance(places = [0, 1]) {
    %1 = fuse.activation silu %a : tensor<?x64xf32> -> tensor<?x64xf32>
    fuse.yield
  }
  return
}

// -----

func.func @commuted(%x: tensor<?x64xf32>) {
  // expected-error @below {{keeps its members whole, so provenance has places only}}
  fuse.group(%a = %x : tensor<?x64xf32>) rounding(exact)
      provenance(commuted = [product]) {
    %1 = fuse.gated_mul %a, %a
      : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
    fuse.yield
  }
  return
}

// -----

func.func @empty_body() {
  // expected-error @below {{'fuse.group' op region #0 ('body') failed to verify constraint: region with 1 blocks}}
  fuse.group() rounding(exact) {
  }
  return
}

// -----

func.func @two_blocks() {
  // expected-error @below {{'fuse.group' op expects region #0 to have 0 or 1 blocks}}
  fuse.group() rounding(exact) {
    cf.br ^bb1
  ^bb1:
    fuse.yield
  }
  return
}

// -----

func.func @types(%x: tensor<4xf32>) {
  // expected-error @below {{'fuse.group' op keeps its members whole, so 'rounding' has no types and no bias}}
  %0 = fuse.group(%a = %x : tensor<4xf32>) -> tensor<4xf32>
         rounding(exact types {act = bf16}) {
    fuse.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @bias(%x: tensor<4xf32>) {
  // expected-error @below {{'fuse.group' op keeps its members whole, so 'rounding' has no types and no bias}}
  %0 = fuse.group(%a = %x : tensor<4xf32>) -> tensor<4xf32>
         rounding(exact bias after_rounding) {
    fuse.yield %a : tensor<4xf32>
  }
  return
}
