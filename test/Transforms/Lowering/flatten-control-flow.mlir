// RUN: fuse-opt %s --fuse-flatten-control-flow --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s

// A loop over layers becomes a list of layers. The bounds of the inner loop and
// the condition depend on the counter of the outer loop.

// CHECK-LABEL: func @layers(
// CHECK-NOT:     scf
// CHECK-COUNT-3: arith.addf
// CHECK-NEXT:    return
func.func @layers(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    %s = scf.for %j = %c0 to %i step %c1 iter_args(%k = %h) -> tensor<4xf32> {
      %isFirst = arith.cmpi eq, %i, %c0 : index
      %t = scf.if %isFirst -> tensor<4xf32> {
        %e = math.exp %k : tensor<4xf32>
        scf.yield %e : tensor<4xf32>
      } else {
        %e = arith.addf %k, %k : tensor<4xf32>
        scf.yield %e : tensor<4xf32>
      }
      scf.yield %t : tensor<4xf32>
    }
    scf.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// Control flow in a kernel stays.

// CHECK-LABEL: func @in_kernel(
// CHECK:         scf.if
func.func @in_kernel(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.map ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>)
    (%a: f32, %out: f32) {
      %isNegative = arith.cmpf olt, %a, %zero : f32
      %b = scf.if %isNegative -> f32 {
        scf.yield %zero : f32
      } else {
        scf.yield %a : f32
      }
      linalg.yield %b : f32
    }
  return %y : tensor<4xf32>
}

// -----

func.func @dynamic_loop(%n: index, %x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{cannot be in a launch plan, which is a list: its number of iterations is not a constant}}
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    %s = arith.addf %h, %h : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

func.func @long_loop(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c1025 = arith.constant 1025 : index
  // expected-error@+1 {{its loops have 1025 iterations or more, and at most 1024 of a function are unrolled}}
  %r = scf.for %i = %c0 to %c1025 step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    %s = arith.addf %h, %h : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// A host knows sizes before the first launch. Both branches write to one tensor,
// and loops in them are unrolled.

// CHECK-LABEL: func @condition_of_sizes(
// CHECK-SAME:    %[[X:.*]]: tensor<?xf32>)
// CHECK:         %[[SOME:.*]] = arith.cmpi sgt
// CHECK:         %[[OUT:.*]] = bufferization.alloc_tensor(%{{.*}}) : tensor<?xf32>
// CHECK:         %[[R:.*]] = scf.if %[[SOME]] -> (tensor<?xf32>) {
// CHECK-COUNT-2:   linalg.exp
// CHECK:           %[[A:.*]] = bufferization.materialize_in_destination %{{.*}} in %[[OUT]]
// CHECK-NEXT:      scf.yield %[[A]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %[[B:.*]] = bufferization.materialize_in_destination %[[X]] in %[[OUT]]
// CHECK-NEXT:      scf.yield %[[B]]
// CHECK:         return %[[R]]
func.func @condition_of_sizes(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %some = arith.cmpi sgt, %n, %c0 : index
  %r = scf.if %some -> tensor<?xf32> {
    %l = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x)
        -> tensor<?xf32> {
      %s = linalg.exp ins(%h : tensor<?xf32>) outs(%h : tensor<?xf32>)
        -> tensor<?xf32>
      scf.yield %s : tensor<?xf32>
    }
    scf.yield %l : tensor<?xf32>
  } else {
    scf.yield %x : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// -----

// A branch without ops may be a select.

// CHECK-LABEL: func @select(
// CHECK:         scf.if
// CHECK-COUNT-2: bufferization.materialize_in_destination
func.func @select(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<?xf32>)
    -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %z, %c0 : tensor<?xf32>
  %some = arith.cmpi sgt, %n, %c0 : index
  %r = arith.select %some, %x, %y : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @sizes_differ(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %some = arith.cmpi sgt, %n, %c0 : index
  // expected-error@+1 {{its branches give result 0 sizes that are not known to be equal}}
  %r = scf.if %some -> tensor<?xf32> {
    scf.yield %x : tensor<?xf32>
  } else {
    scf.yield %y : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// -----

func.func @result_is_a_size(%x: tensor<?xf32>) -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %some = arith.cmpi sgt, %n, %c1 : index
  // expected-error@+1 {{expected tensors as its results, but got 'index'}}
  %r = scf.if %some -> index {
    %m = arith.addi %n, %c1 : index
    scf.yield %m : index
  } else {
    scf.yield %c1 : index
  }
  return %r : index
}

// -----

func.func @condition_of_argument(%n: index, %x: tensor<4xf32>)
    -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %some = arith.cmpi sgt, %n, %c0 : index
  // expected-error@+1 {{its condition is neither a constant nor a comparison of sizes}}
  %r = scf.if %some -> tensor<4xf32> {
    %s = arith.addf %x, %x : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

func.func @condition_of_values(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = tensor.extract %x[%c0] : tensor<4xf32>
  %isNegative = arith.cmpf olt, %a, %zero : f32
  // expected-error@+1 {{its condition is computed on the GPU}}
  %r = scf.if %isNegative -> tensor<4xf32> {
    %s = arith.addf %x, %x : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

func.func @while(%x: tensor<4xf32>) -> tensor<4xf32> {
  %true = arith.constant true
  // expected-error@+1 {{expected loops with constant bounds, or none}}
  %r = scf.while (%h = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    scf.condition(%true) %h : tensor<4xf32>
  } do {
  ^bb0(%h: tensor<4xf32>):
    scf.yield %h : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

func.func @blocks(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'cf.br' op cannot be in a launch plan, which is a list: expected a function of one block}}
  cf.br ^bb1
^bb1:
  return %x : tensor<4xf32>
}
