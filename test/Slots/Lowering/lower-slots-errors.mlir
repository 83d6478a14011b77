// RUN: split-file %s %t
// RUN: fuse-opt %t/device.mlir --fuse-lower-slots=device=tpu -verify-diagnostics
// RUN: fuse-opt %t/slots.mlir --fuse-lower-slots -split-input-file \
// RUN:   -verify-diagnostics

// Slots that cannot be lowered. Every error names the slot and the path of the
// call.

//--- device.mlir

// expected-error @below {{unknown device 'tpu', expected cpu or gpu}}
module {}

//--- slots.mlir

// A call that is not bound does not use the eager body.

nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
func.func @unbound(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{slot 'scale' (op=scale, variant=standard) at 'unbound' has no kernel bound; bind it with fuse-bind-slots, to eager for the slot's own body}}
  %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
  nn.bound_kernel @fast on <gpu from 80> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
}
func.func @device(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{slot 'scale' (op=scale, variant=standard) at 'device' is bound to 'fast', which is for a gpu; this lowers for a cpu}}
  %0 = nn.call_slot @scale(%x) bound @fast : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @scale(%x) bound @eager : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
func.func @recursive(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{slot 'scale' (op=scale, variant=standard) at 'recursive': the body of 'eager' calls itself}}
  %0 = nn.call_slot @scale(%x) bound @eager : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Two kernels cannot use one symbol for different functions.

nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
  nn.bound_kernel @mine on <cpu> code #nn.cpu_code<library = "libmine.so",
    symbol = "taken", sizes = [], args = ["arg0", "result0"]> {}
}
func.func @taken(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{slot 'scale' (op=scale, variant=standard) at 'taken': symbol 'taken' is already a function of type '(tensor<4xf32>) -> tensor<4xf32>', the kernel has type '(i64, i64) -> ()'}}
  %0 = nn.call_slot @scale(%x) bound @mine : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Two kernels cannot use one symbol of different libraries. In the same
// library, it is the same function.

nn.slot @first op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
  nn.bound_kernel @mine on <cpu> code #nn.cpu_code<library = "liba.so",
    symbol = "run", sizes = [], args = ["arg0", "result0"]> {}
}
nn.slot @again op "scale" variant "shifted" : (tensor<4xf32>) -> tensor<4xf32> {
  nn.bound_kernel @mine on <cpu> code #nn.cpu_code<library = "liba.so",
    symbol = "run", sizes = [], args = ["arg0", "result0"]> {}
}
nn.slot @other op "scale" variant "turned" : (tensor<4xf32>) -> tensor<4xf32> {
  nn.bound_kernel @mine on <cpu> code #nn.cpu_code<library = "libb.so",
    symbol = "run", sizes = [], args = ["arg0", "result0"]> {}
}
func.func @libraries(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{slot 'other' (op=scale, variant=turned) at 'libraries': symbol 'run' is already a function of library 'liba.so', the kernel is in library 'libb.so'}}
  %0 = nn.call_slot @other(%x) bound @mine : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.call_slot @again(%0) bound @mine : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.call_slot @first(%1) bound @mine : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

func.func private @run(i64, i64)
nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
  nn.bound_kernel @mine on <cpu> code #nn.cpu_code<library = "liba.so",
    symbol = "run", sizes = [], args = ["arg0", "result0"]> {}
}
func.func @declared(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{symbol 'run' is already a function of the module, the kernel is in library 'liba.so'}}
  %0 = nn.call_slot @scale(%x) bound @mine : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
