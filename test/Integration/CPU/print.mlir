// RUN: fuse-run %s --entry=relu2 --print --shape 0:1x4 --seed 1 | FileCheck %s --check-prefix=SEED
// RUN: fuse-run %s --entry=identity --print --shape 0:2x0x4 | FileCheck %s --check-prefix=EMPTY

// Random arguments depend on the seed alone, on any machine.

// SEED: 1x4xf32
// SEED-NEXT: [6.29964876, 0.107455052, 0.521076441, 0]
func.func @relu2(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = fuse.activation relu2 %x : tensor<?x4xf32> -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// A function may return what it was given.

// EMPTY: 2x0x4xf32
func.func @identity(%x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  return %x : tensor<?x?x4xf32>
}
