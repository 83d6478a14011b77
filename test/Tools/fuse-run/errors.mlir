// RUN: not fuse-run %t.none.mlir 2>&1 | FileCheck %s --check-prefix=NO-FILE
// RUN: not fuse-run %s 2>&1 | FileCheck %s --check-prefix=SEVERAL
// RUN: not fuse-run %s --entry=h 2>&1 | FileCheck %s --check-prefix=NO-ENTRY
// RUN: not fuse-run %s --entry=pair 2>&1 | FileCheck %s --check-prefix=PAIR
// RUN: not fuse-run %s --entry=called 2>&1 | FileCheck %s --check-prefix=CALLED
// RUN: not fuse-run %s --entry=f --shape=2:4x8 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not fuse-run %s --entry=f --shape=0:4x9 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not fuse-run %s --entry=f --shape=0:4xa 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not fuse-run %s --entry=f --shape=0:3x8 --shape=1:4x8 2>&1 | FileCheck %s --check-prefix=AGREE
// RUN: not fuse-run %s --entry=f --dim=rows=4 2>&1 | FileCheck %s --check-prefix=DIM
// RUN: not fuse-run %s --entry=f --dim=1,2 2>&1 | FileCheck %s --check-prefix=LIST
// RUN: not fuse-run %s --entry=f --dim=281474976710656 2>&1 | FileCheck %s --check-prefix=MEMORY
// RUN: not fuse-run %s --entry=f --input=%t.none.npy 2>&1 | FileCheck %s --check-prefix=NO-ARRAY
// RUN: not fuse-run %s --entry=f --output=a --output=b 2>&1 | FileCheck %s --check-prefix=OUTPUTS
// RUN: not fuse-run %s --entry=refined --dim=2 2>&1 | FileCheck %s --check-prefix=REFINED
// RUN: not fuse-run %s --entry=f --bench --iterations=0 2>&1 | FileCheck %s --check-prefix=ITERATIONS
// RUN: not fuse-run %s --entry=f -o %t 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: not fuse-run %s --entry=f --emit=llvm --output=%t 2>&1 | FileCheck %s --check-prefix=EMIT
// RUN: not fuse-run %s --verify --print 2>&1 | FileCheck %s --check-prefix=SEVERAL
// RUN: not fuse-run %s --entry=wide --emit=ptx --chip=sm_80 2>&1 | FileCheck %s --check-prefix=CHIP
// RUN: not fuse-run %s --entry=f --verify 2>&1 | FileCheck %s --check-prefix=NO-KERNEL
// RUN: not fuse-run %s --entry=f --chip=sm_90a 2>&1 | FileCheck %s --check-prefix=NO-CHECK
// RUN: not fuse-run %s --entry=f --verify --portable 2>&1 | FileCheck %s --check-prefix=NO-CHIP
// RUN: not fuse-run %s --entry=f --verify --chip=sm_90a --orders=0 2>&1 | FileCheck %s --check-prefix=ORDERS
// RUN: env FUSE_CUDA_LIBRARY=%t.none.so not fuse-run %s --entry=f --verify --chip=sm_90a 2>&1 | FileCheck %s --check-prefix=NO-LIBRARY
// RUN: env FUSE_EMULATOR_SEED=x not fuse-run %s --entry=f --verify --chip=sm_90a 2>&1 | FileCheck %s --check-prefix=SEED

// NO-CHECK: error: --chip needs --emit or --verify
// NO-CHIP: error: --portable needs --verify and --chip
// ORDERS: error: --orders: expected at least 1, got 0
// NO-LIBRARY: {{error: there is no usable CUDA driver: .*none.so: cannot open shared object file}}
// SEED: error: there is no usable CUDA driver: cuInit: invalid argument: FUSE_EMULATOR_SEED is 'x', expected a number from 0 to 18446744073709551615 (1)
// ITERATIONS: error: --iterations: expected at least 1, got 0
// PLACE: error: -o is for what --emit prints; results go to --output
// EMIT: error: --output needs a run, --emit prints code
// CHIP: error: 'math.erf' op has no expansion for operands of type
// CHIP: fuse-run: error: lowering for sm_80 failed
// NO-FILE: {{error: cannot open input file .*none.mlir}}
// SEVERAL: error: the module has several functions, choose one with --entry: f, refined, pair, called, caller, wide
// NO-ENTRY: error: no public function 'h'; there are f, refined, pair, called, caller, wide
// PAIR: error: argument 0 is complex<f32>, expected a ranked tensor or a scalar
// CALLED: error: @called has scalars and is called in the module; run a function that calls it
// ARGUMENT: error: --shape: expected an argument from 0 to 1, got '2'
// SHAPE: error: --shape: argument 0 is ?x8xf32, got 4x9xf32
// SIZE: error: --shape: expected a size, got 'a'
// AGREE: error: dynamic sizes differ: argument 0 is 3x8xf32, argument 1 is 4x8xf32
// DIM: error: --dim: unknown dimension 'rows'; there are tokens, batch
// LIST: error: --dim: a list of sizes needs --verify
// MEMORY: error: no memory for tensor 281474976710656x8xf32
// NO-ARRAY: {{error: .*none.npy: No such file or directory}}
// OUTPUTS: error: --output: @f has 1 results, got 2 files
// REFINED: error: @refined needs size 4 in dimension 0 of argument 0, got 2x8xf32
// NO-KERNEL: V0 {{.*}} FAILED {{.*}}no kernel was formed
func.func @f(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %z = fuse.residual_add %x, %y
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}

// The result says what the type of the argument leaves open.
func.func @refined(%x: tensor<?x8xf32>) -> tensor<4x8xf32> {
  %y = fuse.activation relu %x : tensor<?x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

func.func @pair(%x: complex<f32>) -> complex<f32> {
  return %x : complex<f32>
}

func.func @called(%x: f32) -> f32 {
  return %x : f32
}
func.func @caller(%x: tensor<2xf32>, %s: f32) -> tensor<2xf32> {
  %0 = call @called(%s) : (f32) -> f32
  return %x : tensor<2xf32>
}
func.func @wide(%x: tensor<4xf64>) -> tensor<4xf64> {
  %0 = math.erf %x : tensor<4xf64>
  return %0 : tensor<4xf64>
}
