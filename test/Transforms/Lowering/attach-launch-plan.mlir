// RUN: fuse-opt %s --fuse-attach-launch-plan --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s

// Sizes are expressions of the sizes of arguments, whatever computed them.

// CHECK-DAG: [[ROWS:#.+]] = affine_map<()[s0, s1] -> (s0 * s1)>
// CHECK-DAG: [[BYTES:#.+]] = affine_map<()[s0, s1] -> ((s0 * s1) * 32)>
// CHECK-DAG: [[GRID:#.+]] = affine_map<()[s0, s1] -> ((s0 * s1) ceildiv 64, 3, 1)>
// CHECK:     func @plan(
// CHECK-SAME: fuse.launch_plan = {
// CHECK-SAME:   launches = [{args = ["arg1", "ws0", [[ROWS]], 5.0{{.*}} : f32, "arg2"], block = array<i64: 256, 1, 1>, grid = [[GRID]], kernel = @kernels::@k}]
// CHECK-SAME:   symbols = [array<i64: 1, 0>, array<i64: 1, 1>]
// CHECK-SAME:   workspace = [[[BYTES]]]
module attributes {gpu.container_module} {
  func.func @plan(%unused: memref<?xf32>, %x: memref<?x?x8xf32>, %s: f32) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c256 = arith.constant 256 : index
    %half = arith.constant 5.0 : f32
    %d0 = memref.dim %x, %c0 : memref<?x?x8xf32>
    %d1 = memref.dim %x, %c1 : memref<?x?x8xf32>
    %rows = arith.muli %d0, %d1 : index
    %ws = memref.alloc(%rows) : memref<?x8xf32>
    %tiles = affine.apply affine_map<()[s] -> (s ceildiv 64)>()[%rows]
    %view = memref.collapse_shape %x [[0, 1], [2]]
      : memref<?x?x8xf32> into memref<?x8xf32>
    %p = memref.reinterpret_cast %view to offset: [0], sizes: [], strides: []
      : memref<?x8xf32> to memref<f32>
    %q = memref.reinterpret_cast %ws to offset: [0], sizes: [], strides: []
      : memref<?x8xf32> to memref<f32>
    gpu.launch_func @kernels::@k blocks in (%tiles, %c3, %c1)
      threads in (%c256, %c1, %c1)
      args(%p : memref<f32>, %q : memref<f32>, %rows : index, %half : f32,
           %s : f32)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>, %y: memref<f32>, %n: index, %c: f32, %s: f32)
        kernel {
      gpu.return
    }
  }
}

// -----

// Launches that read a constant share it.

// CHECK:       memref.global "private" constant @table
// CHECK:       func @constants(
// CHECK-SAME:  constants = [@table], launches = [
// CHECK-SAME:  args = ["const0", "arg0"]
// CHECK-SAME:  args = ["const0", "arg0"]
module attributes {gpu.container_module} {
  memref.global "private" constant @table : memref<2xf32> = dense<[1.0, 2.0]>
  func.func @constants(%y: memref<f32>) {
    %c1 = arith.constant 1 : index
    %table = memref.get_global @table : memref<2xf32>
    %p = memref.reinterpret_cast %table to offset: [0], sizes: [], strides: []
      : memref<2xf32> to memref<f32>
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%p : memref<f32>, %y : memref<f32>)
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%p : memref<f32>, %y : memref<f32>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>, %y: memref<f32>) kernel {
      gpu.return
    }
  }
}

// -----

// A public function without launches has an empty plan. Others have none.

// CHECK-LABEL: func @nothing()
// CHECK-SAME:  launches = []
// CHECK:       func private @helper() {
func.func @nothing() {
  return
}
func.func private @helper() {
  return
}

// -----

module attributes {gpu.container_module} {
  // expected-error@+1 {{cannot launch kernels whose sizes depend on the value of argument 0}}
  func.func @value(%n: index) {
    %c1 = arith.constant 1 : index
    gpu.launch_func @kernels::@k blocks in (%n, %c1, %c1)
      threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @threads(%x: memref<?xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    // expected-error@+1 {{expected constant numbers of threads}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%n, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  memref.global "private" @table : memref<2xf32> = dense<[1.0, 2.0]>
  func.func @variable() {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{reads a global that is not a constant}}
    %t = memref.get_global @table : memref<2xf32>
    %p = memref.reinterpret_cast %t to offset: [0], sizes: [], strides: []
      : memref<2xf32> to memref<f32>
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%p : memref<f32>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>) kernel {
      gpu.return
    }
  }
}

// -----

// Each launch gets its own buffers, and the shared memory that it asks for.

// CHECK:     func @buffers(
// CHECK-SAME: {args = ["arg0", "ws1", "ws0"],
// CHECK-SAME: shared = 1024 : i64
// CHECK-SAME: workspace = [{{.*}}, {{.*}}]
module attributes {gpu.container_module} {
  func.func @buffers(%x: memref<8xf32>) {
    %c1 = arith.constant 1 : index
    %bytes = arith.constant 1024 : i32
    %first = memref.alloc() : memref<8xf32>
    %second = memref.alloc() : memref<16xf32>
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) dynamic_shared_memory_size %bytes
      args(%x : memref<8xf32>, %second : memref<16xf32>,
           %first : memref<8xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<8xf32>, %y: memref<16xf32>, %z: memref<8xf32>)
        kernel {
      gpu.return
    }
  }
}

// -----

// Where a view begins is an expression of sizes as well, and of a view of a
// view it is the sum of both.

// CHECK-DAG: [[OFFSET:#.+]] = affine_map<()[s0] -> (s0 * 32 + 3)>
// CHECK-DAG: [[STRIDE:#.+]] = affine_map<()[s0] -> (s0 * 16)>
// CHECK:     func @view(
// CHECK-SAME: {args = ["arg0", [[OFFSET]], [[STRIDE]]]
module attributes {gpu.container_module} {
  func.func @view(%x: memref<6x?x8xf32>) {
    %c1 = arith.constant 1 : index
    %n = memref.dim %x, %c1 : memref<6x?x8xf32>
    %v = memref.subview %x[3, 0, 1] [3, %n, 7] [1, 1, 1] : memref<6x?x8xf32>
      to memref<3x?x7xf32, strided<[?, 8, 1], offset: ?>>
    %w = memref.subview %v[1, 0, 2] [1, %n, 2] [2, 1, 2]
      : memref<3x?x7xf32, strided<[?, 8, 1], offset: ?>>
      to memref<1x?x2xf32, strided<[?, 8, 2], offset: ?>>
    %base, %offset, %sizes:3, %strides:3 =
      memref.extract_strided_metadata %w
      : memref<1x?x2xf32, strided<[?, 8, 2], offset: ?>>
      -> memref<f32>, index, index, index, index, index, index, index
    gpu.launch_func @kernels::@k blocks in (%sizes#1, %c1, %c1)
      threads in (%c1, %c1, %c1)
      args(%base : memref<f32>, %offset : index, %strides#0 : index)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>, %offset: index, %stride: index) kernel {
      gpu.return
    }
  }
}

// -----

// Another shape of a view begins where the view does.

// CHECK-DAG: [[OFFSET:#.+]] = affine_map<()[s0] -> (s0 * 24)>
// CHECK-DAG: [[STRIDE:#.+]] = affine_map<()[s0] -> (s0 * 8)>
// CHECK-DAG: [[SIZE:#.+]] = affine_map<()[s0] -> (s0 * 2)>
// CHECK:     func @shapes(
// CHECK-SAME: {args = ["arg0", [[OFFSET]], [[STRIDE]], [[STRIDE]], [[OFFSET]], [[STRIDE]], [[SIZE]]]
module attributes {gpu.container_module} {
  func.func @shapes(%x: memref<6x?x8xf32>) {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %n = memref.dim %x, %c1 : memref<6x?x8xf32>
    %twice = arith.muli %n, %c2 : index
    %v = memref.subview %x[3, 0, 0] [2, %n, 8] [1, 1, 1] : memref<6x?x8xf32>
      to memref<2x?x8xf32, strided<[?, 8, 1], offset: ?>>
    %rows = memref.collapse_shape %v [[0], [1, 2]]
      : memref<2x?x8xf32, strided<[?, 8, 1], offset: ?>>
      into memref<2x?xf32, strided<[?, 1], offset: ?>>
    %parts = memref.expand_shape %rows [[0], [1, 2]] output_shape [2, %twice, 4]
      : memref<2x?xf32, strided<[?, 1], offset: ?>>
      into memref<2x?x4xf32, strided<[?, 4, 1], offset: ?>>
    %base, %offset, %sizes:2, %strides:2 =
      memref.extract_strided_metadata %rows
      : memref<2x?xf32, strided<[?, 1], offset: ?>>
      -> memref<f32>, index, index, index, index, index
    %base2, %offset2, %sizes2:3, %strides2:3 =
      memref.extract_strided_metadata %parts
      : memref<2x?x4xf32, strided<[?, 4, 1], offset: ?>>
      -> memref<f32>, index, index, index, index, index, index, index
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1)
      args(%base : memref<f32>, %offset : index, %strides#0 : index,
           %sizes#1 : index, %offset2 : index, %strides2#0 : index,
           %sizes2#1 : index)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>, %a: index, %b: index, %c: index, %d: index,
                %e: index, %f: index) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @row(%x: memref<6x?x8xf32>) {
    %c1 = arith.constant 1 : index
    %n = memref.dim %x, %c1 : memref<6x?x8xf32>
    // expected-error@+1 {{hides an offset that a launch depends on}}
    %v = memref.subview %x[3, 0, 0] [1, %n, 8] [1, 1, 1] : memref<6x?x8xf32>
      to memref<?x8xf32, strided<[8, 1], offset: ?>>
    %base, %offset, %sizes:2, %strides:2 =
      memref.extract_strided_metadata %v
      : memref<?x8xf32, strided<[8, 1], offset: ?>>
      -> memref<f32>, index, index, index, index, index
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%base : memref<f32>, %offset : index)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>, %offset: index) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  // expected-error@+1 {{cannot launch kernels whose sizes depend on the offset of argument 0}}
  func.func @offset(%x: memref<?x4xf32, strided<[?, 1], offset: ?>>) {
    %c1 = arith.constant 1 : index
    %base, %offset, %sizes:2, %strides:2 =
      memref.extract_strided_metadata %x
      : memref<?x4xf32, strided<[?, 1], offset: ?>>
      -> memref<f32>, index, index, index, index, index
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%base : memref<f32>, %offset : index)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>, %offset: index) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  // expected-error@+1 {{cannot launch kernels whose sizes depend on the strides of argument 0}}
  func.func @stride(%x: memref<?x4xf32, strided<[?, 1]>>) {
    %c1 = arith.constant 1 : index
    %base, %offset, %sizes:2, %strides:2 =
      memref.extract_strided_metadata %x : memref<?x4xf32, strided<[?, 1]>>
      -> memref<f32>, index, index, index, index, index
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%base : memref<f32>, %strides#0 : index)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<f32>, %stride: index) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @loop(%x: memref<f32>, %n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      // expected-error@+1 {{is under control flow, which a plan does not have}}
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
  func.func private @make() -> memref<?xf32>
  func.func @size() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{'func.call' op hides a size that a launch depends on}}
    %x = func.call @make() : () -> memref<?xf32>
    %n = memref.dim %x, %c0 : memref<?xf32>
    gpu.launch_func @kernels::@k blocks in (%n, %c1, %c1)
      threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @transposed(%x: memref<4x?xf32>) {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{'memref.transpose' op hides a stride that a launch depends on}}
    %t = memref.transpose %x (i, j) -> (j, i)
      : memref<4x?xf32> to memref<?x4xf32, strided<[1, ?]>>
    %base, %offset, %sizes:2, %strides:2 =
      memref.extract_strided_metadata %t : memref<?x4xf32, strided<[1, ?]>>
      -> memref<f32>, index, index, index, index, index
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%strides#1 : index)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%stride: index) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @largest(%x: memref<?x?xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = memref.dim %x, %c0 : memref<?x?xf32>
    %m = memref.dim %x, %c1 : memref<?x?xf32>
    // expected-error@+1 {{'arith.maxui' op computes a size of a launch and is not an expression of sizes of arguments}}
    %most = arith.maxui %n, %m : index
    gpu.launch_func @kernels::@k blocks in (%most, %c1, %c1)
      threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @complex() {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{cannot be a workspace buffer}}
    %x = memref.alloc() : memref<complex<f32>>
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%x : memref<complex<f32>>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<complex<f32>>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @shared(%bytes: i32) {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{expected a constant amount of shared memory}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) dynamic_shared_memory_size %bytes
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @other(%n: f32) {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{makes an argument of a kernel that a host cannot know}}
    %m = arith.negf %n : f32
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1)
      threads in (%c1, %c1, %c1) args(%m : f32)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: f32) kernel {
      gpu.return
    }
  }
}
