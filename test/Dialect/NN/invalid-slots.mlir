// RUN: fuse-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect

// expected-error@+1 {{'nn.slot' op op 'rms norm' must consist of letters, digits, _ and -}}
nn.slot @s op "rms norm" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}

// -----

// expected-error@+1 {{'nn.slot' op variant '' must consist of letters, digits, _ and -}}
nn.slot @s op "f" variant "" : (tensor<4xf32>) -> tensor<4xf32> {}

// -----

nn.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{function 'eager' has type '(tensor<8xf32>) -> tensor<8xf32>', the slot '(tensor<4xf32>) -> tensor<4xf32>'}}
  func.func @eager(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

nn.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{cannot be here; expected a function 'eager'}}
  func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

nn.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{function 'eager' must have one block}}
  func.func private @eager(tensor<4xf32>) -> tensor<4xf32>
}

// -----

nn.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{@r names no slot; expected one of s}}
  %y = nn.call_slot @r(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{@s names no slot; no slot is visible here}}
  %y = nn.call_slot @s(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

nn.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}
func.func @f(%x: tensor<4xf32>) -> tensor<8xf32> {
// expected-error@+1 {{has type '(tensor<4xf32>) -> tensor<8xf32>', slot 's' (op=f, variant=standard) has '(tensor<4xf32>) -> tensor<4xf32>'}}
  %y = nn.call_slot @s(%x) : (tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

nn.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{is bound to 'fuse', which slot 's' (op=f, variant=standard) does not have}}
  %y = nn.call_slot @s(%x) bound @fuse : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error@+1 {{name 'eager' is reserved for the body of a slot}}
nn.slot_kernel "eager" op "f" variant "standard" {
  nn.implementation on <any> {
    func.func @body() { return }
  }
}

// -----

// expected-error@+1 {{needs at least one nn.implementation}}
nn.slot_kernel "k" op "f" variant "standard" {}

// -----

// expected-error@+1 {{alias 'a b' must consist of letters, digits, _ and -}}
nn.slot_kernel "k" op "f" variant "standard" aliases ["a b"] {
  nn.implementation on <any> {
    func.func @body() { return }
  }
}

// -----

nn.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{needs either a function 'body' or code}}
  nn.implementation on <any> {}
}

// -----

nn.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{has code 1 : i64; expected #nn.gpu_code or #nn.cpu_code}}
  nn.implementation on <any> code 1 {}
}

// -----

nn.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{has code for a cpu but is on gpu}}
  nn.implementation on <gpu> code #nn.cpu_code<library = "l", symbol = "s", sizes = [], args = []> {}
}

// -----

nn.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{has mode compile; expected inference, inference|compile, training, training|compile or any}}
  nn.implementation on <any> mode <compile> { func.func @body() { return } }
}

// -----

nn.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{has mode inference|training; expected}}
  nn.implementation on <any> mode <inference|training> { func.func @body() { return } }
}

// -----

nn.slot_kernel "k" op "f" variant "standard" {
  nn.implementation on <gpu from 80 to 90> { func.func @body() { return } }
// expected-error@+1 {{is for device_type=gpu, compute_capability>=80, compute_capability<=90 and the same mode as another one of kernel 'k'}}
  nn.implementation on <gpu from 80 to 90> { func.func @body() { return } }
}

// -----

nn.slot_kernel "k" op "f" variant "standard" {
// expected-error@+1 {{cannot be in an nn.slot_kernel; expected nn.implementation}}
  "test.x"() : () -> ()
}

// -----

// expected-error@+1 {{device type cpu has no capabilities; only gpu has}}
"test.x"() {a = #nn.hardware<cpu from 80>} : () -> ()

// -----

// expected-error@+1 {{range of capabilities from 90 to 80 is empty}}
"test.x"() {a = #nn.hardware<gpu from 90 to 80>} : () -> ()

// -----

// expected-error@+1 {{expected [operand, dimension] in 'sizes', got [0]}}
"test.x"() {a = #nn.cpu_code<library = "l", symbol = "s", sizes = [[0]], args = []>} : () -> ()

// -----

// expected-error@+1 {{expected "arg<n>", "result<n>", "param.<name>", a map or a number in 'args', got "argument"}}
"test.x"() {a = #nn.cpu_code<library = "l", symbol = "s", sizes = [], args = ["argument"]>} : () -> ()

// -----

// expected-error@+1 {{expected a map with one result and at most 0 symbols in 'args', got affine_map<()[s0] -> (s0)>}}
"test.x"() {a = #nn.cpu_code<library = "l", symbol = "s", sizes = [], args = [affine_map<()[s0] -> (s0)>]>} : () -> ()

// -----

// expected-error@+1 {{expected the names of a library and of a function in it}}
"test.x"() {a = #nn.cpu_code<library = "", symbol = "s", sizes = [], args = []>} : () -> ()

// -----

// expected-error@+1 {{expected the names of a file and of a kernel in it}}
"test.x"() {a = #nn.gpu_code<format = ptx, file = "", entry = "e", grid = affine_map<()[s0] -> (s0, 1, 1)>, block = [32, 1, 1], sizes = [[0, 0]], args = []>} : () -> ()

// -----

// expected-error@+1 {{expected 'grid' to map at most 1 symbols to 3 numbers of blocks}}
"test.x"() {a = #nn.gpu_code<format = ptx, file = "f", entry = "e", grid = affine_map<()[s0] -> (s0)>, block = [32, 1, 1], sizes = [[0, 0]], args = []>} : () -> ()

// -----

// expected-error@+1 {{expected 'block' to be 3 numbers of threads, at most 1024 together}}
"test.x"() {a = #nn.gpu_code<format = ptx, file = "f", entry = "e", grid = affine_map<()[s0] -> (s0, 1, 1)>, block = [1024, 2, 1], sizes = [[0, 0]], args = []>} : () -> ()

// -----

// A model can be verified before a slot outside of it that it calls. Only the
// verifier of the slot reports the missing parts.

nn.model @m class "M" {
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = nn.call_slot @s(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
// expected-error@+1 {{'nn.slot' op requires attribute 'signature'}}
"nn.slot"() <{op = "f", sym_name = "s", variant = "v"}> ({
^bb0:
}) : () -> ()

// -----

nn.model @m class "M" {
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{has type '(tensor<4xf32>) -> tensor<4xf32>', slot 's' (op=f, variant=v) has '(tensor<8xf32>) -> tensor<8xf32>'}}
    %y = nn.call_slot @s(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
"nn.slot"() <{op = "f", sym_name = "s", variant = "v",
                signature = (tensor<8xf32>) -> tensor<8xf32>}> ({
^bb0:
}) : () -> ()

// -----

// expected-error@+1 {{'nn.slot' op name must not be empty}}
"nn.slot"() <{op = "f", sym_name = "", variant = "v",
                signature = (tensor<8xf32>) -> tensor<8xf32>}> ({
^bb0:
}) : () -> ()

// -----

// A body without a return cannot be inlined.

nn.slot @s op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
// expected-error@+1 {{function 'eager' must end in a return of its results}}
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    llvm.unreachable
  }
}
