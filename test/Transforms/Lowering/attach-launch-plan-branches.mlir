// RUN: fuse-opt %s --fuse-attach-launch-plan --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s

// A launch in a branch has a condition: clauses of comparisons, with negations
// in the comparisons. A buffer of a branch is in the workspace as others are.

// CHECK-DAG:   [[SOME:#.+]] = affine_map<()[s0] -> (s0, 8)>
// CHECK-DAG:   [[SWAPPED:#.+]] = affine_map<()[s0] -> (8, s0)>
// CHECK-DAG:   [[SAME:#.+]] = affine_map<()[s0] -> (s0, 4)>
// CHECK:       func @branches(
// CHECK-SAME:  args = ["arg0", "ws0"]
// CHECK-SAME:  when = {{\[}}[{predicate = "lt", sizes = [[SOME]]}, {predicate = "ne", sizes = [[SAME]]}]]
// CHECK-SAME:  args = ["arg0", "arg1"]
// CHECK-SAME:  when = {{\[}}[{predicate = "le", sizes = [[SWAPPED]]}], [{predicate = "eq", sizes = [[SAME]]}]]
// CHECK-SAME:  args = ["arg1", "arg1"]
// CHECK-NOT:   when
// CHECK-SAME:  workspace = [
module attributes {gpu.container_module} {
  func.func @branches(%x: memref<?xf32>, %y: memref<?xf32>) {
    %true = arith.constant true
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    %few = arith.cmpi slt, %n, %c8 : index
    %four = arith.cmpi eq, %n, %c4 : index
    %other = arith.xori %four, %true : i1
    %both = arith.andi %few, %other : i1
    %p = memref.reinterpret_cast %x to offset: [0], sizes: [], strides: []
      : memref<?xf32> to memref<f32>
    %q = memref.reinterpret_cast %y to offset: [0], sizes: [], strides: []
      : memref<?xf32> to memref<f32>
    scf.if %both {
      %ws = memref.alloc(%n) : memref<?xf32>
      %r = memref.reinterpret_cast %ws to offset: [0], sizes: [], strides: []
        : memref<?xf32> to memref<f32>
      gpu.launch_func @kernels::@k blocks in (%n, %c1, %c1)
        threads in (%c1, %c1, %c1) args(%p : memref<f32>, %r : memref<f32>)
    } else {
      gpu.launch_func @kernels::@k blocks in (%n, %c1, %c1)
        threads in (%c1, %c1, %c1) args(%p : memref<f32>, %q : memref<f32>)
    }
    gpu.launch_func @kernels::@k blocks in (%n, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%q : memref<f32>, %q : memref<f32>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>, %y: memref<f32>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  // expected-error@+1 {{cannot launch kernels whose sizes depend on the value of argument 0}}
  func.func @argument(%n: index, %x: memref<f32>) {
    %c1 = arith.constant 1 : index
    %few = arith.cmpi slt, %n, %c1 : index
    scf.if %few {
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
        threads in (%c1, %c1, %c1) args(%x : memref<f32>)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @unsigned(%x: memref<?xf32>, %y: memref<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    %less = arith.subi %n, %c1 : index
    // expected-error@+1 {{is the condition of a launch and compares numbers without sign that may be negative}}
    %few = arith.cmpi ult, %less, %c1 : index
    scf.if %few {
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
        threads in (%c1, %c1, %c1) args(%y : memref<f32>)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @scalar(%c: i1, %y: memref<f32>) {
    %c1 = arith.constant 1 : index
    // expected-error@-2 {{the condition of a launch is not a comparison of sizes}}
    scf.if %c {
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
        threads in (%c1, %c1, %c1) args(%y : memref<f32>)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @loop(%y: memref<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %c1 step %c1 {
      // expected-error@+1 {{is under control flow, which a plan does not have}}
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
        threads in (%c1, %c1, %c1) args(%y : memref<f32>)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>) kernel {
      gpu.return
    }
  }
}
