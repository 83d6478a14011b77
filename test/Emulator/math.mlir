// RUN: not fuse-run %s --verify --chip=sm_80 --portable --dim=tokens=3 \
// RUN:   | FileCheck %s

// Functions that no GPU has as an instruction and no library provides give what
// the CPU gives. The runs fail at V0, because nothing is fused.

// Remainders are exact, whatever the exponents.

// CHECK-LABEL: @remainders
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok equal (576 values)
func.func @remainders(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf16>) {
  %0 = arith.remf %x, %y : tensor<?x64xf32>
  %factor = arith.constant 1.0e30 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %factors = tensor.splat %factor[%n] : tensor<?x64xf32>
  %large = arith.mulf %x, %factors : tensor<?x64xf32>
  %1 = arith.remf %large, %y : tensor<?x64xf32>
  %x16 = arith.truncf %x : tensor<?x64xf32> to tensor<?x64xf16>
  %y16 = arith.truncf %y : tensor<?x64xf32> to tensor<?x64xf16>
  %2 = arith.remf %x16, %y16 : tensor<?x64xf16>
  return %0, %1, %2 : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf16>
}

// CHECK-LABEL: @extremes
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok equal (72 values)
func.func @extremes(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = arith.maxnumf %x, %y : tensor<?x8xf32>
  %1 = arith.minnumf %x, %y : tensor<?x8xf32>
  %2 = math.copysign %x, %y : tensor<?x8xf32>
  return %0, %1, %2 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// Approximations differ from those of libm by rounding.

// CHECK-LABEL: @functions
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok
func.func @functions(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = math.atan2 %x, %y : tensor<?x8xf32>
  %1 = math.cbrt %x : tensor<?x8xf32>
  %positive = math.absf %x : tensor<?x8xf32>
  %2 = math.log10 %positive : tensor<?x8xf32>
  return %0, %1, %2 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}
