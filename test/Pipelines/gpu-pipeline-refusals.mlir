// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_80 --split-input-file \
// RUN:   --verify-diagnostics -o /dev/null

// What no launch plan or kernel can hold is refused by op and line, before LLVM
// sees it.

func.func @branch(%n: index, %x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %some = arith.cmpi ne, %n, %c0 : index
  // expected-error@+1 {{'scf.if' op cannot be in a launch plan}}
  %r = scf.if %some -> tensor<?x8xf32> {
    %s = arith.addf %x, %x : tensor<?x8xf32>
    scf.yield %s : tensor<?x8xf32>
  } else {
    scf.yield %x : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}

// -----

func.func @assert(%x: tensor<4xi64>) -> tensor<4xi64> {
  %c0 = arith.constant 0 : index
  %c9 = arith.constant 9 : i64
  // expected-note@+1 {{'tensor.extract' is not an expression of sizes}}
  %a = tensor.extract %x[%c0] : tensor<4xi64>
  %less = arith.cmpi slt, %a, %c9 : i64
  // expected-error@+1 {{'cf.assert' op cannot be checked before the call}}
  cf.assert %less, "index out of range"
  return %x : tensor<4xi64>
}

// -----

func.func @function(%x: tensor<?x8xf64>) -> tensor<?x8xf64> {
  // expected-error@+1 {{'math.exp' op has no expansion for operands of type 'f64'}}
  %0 = math.exp %x : tensor<?x8xf64>
  return %0 : tensor<?x8xf64>
}
