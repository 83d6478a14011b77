// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   --canonicalize | FileCheck %s

gpu.module @kernels {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// Launches of one op write to the buffer of the first one.

// CHECK-LABEL: func @chain(
// CHECK-SAME:    %[[X:.*]]: memref<4x8xf32>)
// CHECK:         %[[Y:.*]] = memref.alloc() {{.*}} : memref<4x8xf32>
// CHECK-NEXT:    tile.launch @kernels::@k ins(%[[X]] : memref<4x8xf32>) outs(%[[Y]] : memref<4x8xf32>)
// CHECK-NEXT:    tile.launch @kernels::@k ins(%[[X]] : memref<4x8xf32>) outs(%[[Y]] : memref<4x8xf32>)
// CHECK-NEXT:    return %[[Y]]
func.func @chain(%x: tensor<4x8xf32> {bufferization.writable = false})
    -> tensor<4x8xf32> {
  %init = tensor.empty() : tensor<4x8xf32>
  %0 = tile.launch @kernels::@k ins(%x : tensor<4x8xf32>)
    outs(%init : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = tile.launch @kernels::@k ins(%x : tensor<4x8xf32>)
    outs(%0 : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// A tensor that is read later keeps its buffer.

// CHECK-LABEL: func @read_later(
// CHECK-SAME:    %[[X:.*]]: memref<4x8xf32>)
// CHECK:         %[[Y:.*]] = memref.alloc()
// CHECK:         tile.launch @kernels::@k ins(%[[X]] : {{.*}}) outs(%[[Y]] :
// CHECK:         %[[Z:.*]] = memref.alloc()
// CHECK:         memref.copy %[[Y]], %[[Z]]
// CHECK:         tile.launch @kernels::@k ins(%[[X]] : {{.*}}) outs(%[[Z]] :
// CHECK:         return %[[Y]], %[[Z]]
func.func @read_later(%x: tensor<4x8xf32> {bufferization.writable = false})
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %init = tensor.empty() : tensor<4x8xf32>
  %0 = tile.launch @kernels::@k ins(%x : tensor<4x8xf32>)
    outs(%init : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = tile.launch @kernels::@k ins(%x : tensor<4x8xf32>)
    outs(%0 : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// A kernel gets buffers without strides, so that slices are copied.

// CHECK-LABEL: func @slices(
// CHECK:         %[[IN:.*]] = memref.subview
// CHECK:         %[[IN2:.*]] = memref.alloc() {{.*}} : memref<4x4xf32>
// CHECK:         memref.copy %[[IN]], %[[IN2]]
// CHECK:         tile.launch @kernels::@k ins(%[[IN2]] : memref<4x4xf32>) outs(%[[OUT:.*]] : memref<4x4xf32>)
// CHECK:         memref.copy %[[OUT]], %{{.*}} : memref<4x4xf32> to memref<4x4xf32, strided<
func.func @slices(%x: tensor<4x8xf32> {bufferization.writable = false},
    %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %in = tensor.extract_slice %x[0, 4] [4, 4] [1, 1]
    : tensor<4x8xf32> to tensor<4x4xf32>
  %out = tensor.extract_slice %y[0, 4] [4, 4] [1, 1]
    : tensor<4x8xf32> to tensor<4x4xf32>
  %0 = tile.launch @kernels::@k ins(%in : tensor<4x4xf32>)
    outs(%out : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = tensor.insert_slice %0 into %y[0, 4] [4, 4] [1, 1]
    : tensor<4x4xf32> into tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// The launches of all ranges write to the output of the dispatch.

// CHECK-LABEL: func @ranges(
// CHECK-SAME:    %[[X:.*]]: memref<?x8xf32>, %[[Y:.*]]: memref<?x8xf32>)
// CHECK:         tile.dispatch %[[X]] outs(%[[Y]]) : (memref<?x8xf32>, memref<?x8xf32>) -> () {
// CHECK-NEXT:      upto 8 {
// CHECK-NEXT:        tile.launch @kernels::@k ins(%[[X]] : {{.*}}) outs(%[[Y]] :
// CHECK-NEXT:        tile.yield
// CHECK:           upto 16 {
// CHECK-NEXT:        tile.launch @kernels::@k ins(%[[X]] : {{.*}}) outs(%[[Y]] :
// CHECK:         return %[[Y]]
func.func @ranges(%x: tensor<?x8xf32> {bufferization.writable = false},
    %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = tile.dispatch %x outs(%y)
      : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32> {
    upto 8 {
    ^bb0(%out: tensor<?x8xf32>):
      %1 = tile.launch @kernels::@k ins(%x : tensor<?x8xf32>)
        outs(%out : tensor<?x8xf32>) -> tensor<?x8xf32>
      tile.yield %1 : tensor<?x8xf32>
    }
    upto 16 {
    ^bb0(%out: tensor<?x8xf32>):
      %1 = tile.launch @kernels::@k ins(%x : tensor<?x8xf32>)
        outs(%out : tensor<?x8xf32>) -> tensor<?x8xf32>
      tile.yield %1 : tensor<?x8xf32>
    }
  }
  return %0 : tensor<?x8xf32>
}

// A dispatch whose launches read its output has a copy of it.

// CHECK-LABEL: func @reads_output(
// CHECK-SAME:    %[[X:.*]]: memref<?x8xf32>)
// CHECK:         %[[Y:.*]] = memref.alloc
// CHECK:         memref.copy %[[X]], %[[Y]]
// CHECK:         tile.dispatch %[[X]] outs(%[[Y]])
// CHECK:           tile.launch @kernels::@k ins(%[[X]] : {{.*}}) outs(%[[Y]] :
func.func @reads_output(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = tile.dispatch %x outs(%x)
      : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32> {
    upto 8 {
    ^bb0(%out: tensor<?x8xf32>):
      %1 = tile.launch @kernels::@k ins(%x : tensor<?x8xf32>)
        outs(%out : tensor<?x8xf32>) -> tensor<?x8xf32>
      tile.yield %1 : tensor<?x8xf32>
    }
  }
  return %0 : tensor<?x8xf32>
}

// -----

func.func @other(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = tile.dispatch %x outs(%y)
      : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32> {
    upto 8 {
    ^bb0(%out: tensor<?x8xf32>):
      // expected-error@+1 {{yields another buffer than the output of the dispatch}}
      tile.yield %x : tensor<?x8xf32>
    }
  }
  return %0 : tensor<?x8xf32>
}
