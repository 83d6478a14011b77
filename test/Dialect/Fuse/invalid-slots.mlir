// RUN: fuse-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect

// expected-error@+1 {{'fuse.slot' op op 'rms norm' must consist of letters, digits, _ and -}}
fuse.slot @s op "rms norm" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}

// -----

// expected-error@+1 {{'fuse.slot' op variant '' must consist of letters, digits, _ and -}}
fuse.slot @s op "f" variant "" : (tensor<4xf32>) -> tensor<4xf32> {}

// -----

fuse.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{function 'eager' has type '(tensor<8xf32>) -> tensor<8xf32>', the slot '(tensor<4xf32>) -> tensor<4xf32>'}}
  func.func @eager(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

fuse.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{cannot be here; expected a function 'eager'}}
  func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

fuse.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{function 'eager' must have one block}}
  func.func private @eager(tensor<4xf32>) -> tensor<4xf32>
}

// -----

fuse.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{@r names no slot; expected one of s}}
  %y = fuse.call_slot @r(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{@s names no slot; no slot is visible here}}
  %y = fuse.call_slot @s(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

fuse.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}
func.func @f(%x: tensor<4xf32>) -> tensor<8xf32> {
// expected-error@+1 {{has type '(tensor<4xf32>) -> tensor<8xf32>', slot 's' (op=f, variant=standard) has '(tensor<4xf32>) -> tensor<4xf32>'}}
  %y = fuse.call_slot @s(%x) : (tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

fuse.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{is bound to 'fuse', which slot 's' (op=f, variant=standard) does not have}}
  %y = fuse.call_slot @s(%x) bound @fuse : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error@+1 {{name 'eager' is reserved for the body of a slot}}
fuse.slot_kernel "eager" op "f" variant "standard" {
  fuse.implementation on <any> {
    func.func @body() { return }
  }
}

// -----

// expected-error@+1 {{needs at least one fuse.implementation}}
fuse.slot_kernel "k" op "f" variant "standard" {}

// -----

// expected-error@+1 {{alias 'a b' must consist of letters, digits, _ and -}}
fuse.slot_kernel "k" op "f" variant "standard" aliases ["a b"] {
  fuse.implementation on <any> {
    func.func @body() { return }
  }
}

// -----

fuse.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{needs either a function 'body' or code}}
  fuse.implementation on <any> {}
}

// -----

fuse.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{has code 1 : i64; expected #fuse.gpu_code or #fuse.cpu_code}}
  fuse.implementation on <any> code 1 {}
}

// -----

fuse.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{has code for a cpu but is on gpu}}
  fuse.implementation on <gpu> code #fuse.cpu_code<library = "l", symbol = "s", sizes = [], args = []> {}
}

// -----

fuse.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{has mode compile; expected inference, inference|compile, training, training|compile or any}}
  fuse.implementation on <any> mode <compile> { func.func @body() { return } }
}

// -----

fuse.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{has mode inference|training; expected}}
  fuse.implementation on <any> mode <inference|training> { func.func @body() { return } }
}

// -----

fuse.slot_kernel "k" op "f" variant "standard" {
  fuse.implementation on <gpu from 80 to 90> { func.func @body() { return } }
// expected-error@+1 {{is for device_type=gpu, compute_capability>=80, compute_capability<=90 and the same mode as another one of kernel 'k'}}
  fuse.implementation on <gpu from 80 to 90> { func.func @body() { return } }
}

// -----

fuse.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{cannot be in a fuse.slot_kernel; expected fuse.implementation}}
  "test.x"() : () -> ()
}

// -----

// expected-error@+1 {{device type cpu has no capabilities; only gpu has}}
"test.x"() {a = #fuse.hardware<cpu from 80>} : () -> ()

// -----

// expected-error@+1 {{range of capabilities from 90 to 80 is empty}}
"test.x"() {a = #fuse.hardware<gpu from 90 to 80>} : () -> ()

// -----

// expected-error@+1 {{expected [operand, dimension] in 'sizes', got [0]}}
"test.x"() {a = #fuse.cpu_code<library = "l", symbol = "s", sizes = [[0]], args = []>} : () -> ()

// -----

// expected-error@+1 {{expected "arg<n>", "result<n>", "param.<name>", a map or a number in 'args', got "argument"}}
"test.x"() {a = #fuse.cpu_code<library = "l", symbol = "s", sizes = [], args = ["argument"]>} : () -> ()

// -----

// expected-error@+1 {{expected a map with one result and at most 0 symbols in 'args', got affine_map<()[s0] -> (s0)>}}
"test.x"() {a = #fuse.cpu_code<library = "l", symbol = "s", sizes = [], args = [affine_map<()[s0] -> (s0)>]>} : () -> ()

// -----

// expected-error@+1 {{expected the names of a library and of a function in it}}
"test.x"() {a = #fuse.cpu_code<library = "", symbol = "s", sizes = [], args = []>} : () -> ()

// -----

// expected-error@+1 {{expected the names of a file and of a kernel in it}}
"test.x"() {a = #fuse.gpu_code<format = ptx, file = "", entry = "e", grid = affine_map<()[s0] -> (s0, 1, 1)>, block = [32, 1, 1], sizes = [[0, 0]], args = []>} : () -> ()

// -----

// expected-error@+1 {{expected 'grid' to map at most 1 symbols to 3 numbers of blocks}}
"test.x"() {a = #fuse.gpu_code<format = ptx, file = "f", entry = "e", grid = affine_map<()[s0] -> (s0)>, block = [32, 1, 1], sizes = [[0, 0]], args = []>} : () -> ()

// -----

// expected-error@+1 {{expected 'block' to be 3 numbers of threads, at most 1024 together}}
"test.x"() {a = #fuse.gpu_code<format = ptx, file = "f", entry = "e", grid = affine_map<()[s0] -> (s0, 1, 1)>, block = [1024, 2, 1], sizes = [[0, 0]], args = []>} : () -> ()

// -----

// A model can be verified before a slot outside of it that it calls. Only the
// verifier of the slot reports the missing parts.

fuse.model @m class "M" {
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = fuse.call_slot @s(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
// expected-error@+1 {{'fuse.slot' op requires attribute 'signature'}}
"fuse.slot"() <{op = "f", sym_name = "s", variant = "v"}> ({
^bb0:
}) : () -> ()

// -----

fuse.model @m class "M" {
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{has type '(tensor<4xf32>) -> tensor<4xf32>', slot 's' (op=f, variant=v) has '(tensor<8xf32>) -> tensor<8xf32>'}}
    %y = fuse.call_slot @s(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
"fuse.slot"() <{op = "f", sym_name = "s", variant = "v",
                signature = (tensor<8xf32>) -> tensor<8xf32>}> ({
^bb0:
}) : () -> ()

// -----

// expected-error@+1 {{'fuse.slot' op name must not be empty}}
"fuse.slot"() <{op = "f", sym_name = "", variant = "v",
                signature = (tensor<8xf32>) -> tensor<8xf32>}> ({
^bb0:
}) : () -> ()

// -----

// A body without a return cannot be inlined.

fuse.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{function 'eager' must end in a return of its results}}
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    llvm.unreachable
  }
}
