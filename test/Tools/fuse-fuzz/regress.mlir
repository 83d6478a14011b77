// RUN: rm -rf %t
// RUN: not fuse-fuzz %s --run --seed=3 --regress=%t --reduce-seconds=100 \
// RUN:   | FileCheck %s
// RUN: FileCheck %s --check-prefix=TEST --input-file=%t/interpreter-3.mlir
// RUN: not fuse-fuzz %t/interpreter-3.mlir --run --seed=3 \
// RUN:   | FileCheck %s --check-prefix=AGAIN
// RUN: not fuse-fuzz %t.missing.mlir --run | FileCheck %s --check-prefix=PARSE

// A failure becomes a test: as little as fails in the same way, with the command
// that repeats it. Modules are checked from files as they are from seeds. What
// the interpreter has no meaning for is such a failure.

// CHECK:      seed 3: check 'interpreter' failed
// CHECK-NEXT: the interpreter does not know 'math.absf'
// CHECK-NEXT: repeat: fuse-fuzz {{.*}}regress.mlir --seed=3 --run
// CHECK-NEXT: reduced: {{.*}}interpreter-3.mlir
// CHECK-NEXT: seeds 3 to 3: {{.*}} 1 failures

// TEST:      // {{R}}UN: fuse-fuzz %s --seed=3 --run | FileCheck %s
// TEST-NEXT: // {{C}}HECK: no failure
// TEST:      // Check 'interpreter' failed:
// TEST-NEXT: // the interpreter does not know 'math.absf'
// TEST:        func.func @f(%[[X:.*]]: tensor<1x1xf32>) -> tensor<1x1xf32> {
// TEST-NEXT:     %[[Y:.*]] = math.absf %[[X]]
// TEST-NEXT:     return %[[Y]]

// AGAIN: check 'interpreter' failed
// PARSE: check 'parse' failed
func.func @f(%x: tensor<2x8xf32>, %r: tensor<2x8xf32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %s = fuse.residual_add %x, %r
    : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %a = math.absf %s : tensor<2x8xf32>
  %y = fuse.activation relu %a : tensor<2x8xf32> -> tensor<2x8xf32>
  return %s, %y : tensor<2x8xf32>, tensor<2x8xf32>
}
