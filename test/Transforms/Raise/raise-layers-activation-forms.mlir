// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// The forms of activations that front ends write: each is raised to one layer
// op, or refused by its name.

// CHECK-LABEL: func @relu_maximum(
// CHECK-NEXT:    fuse.activation relu %arg0
// CHECK-NEXT:    return
func.func @relu_maximum(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %y = arith.maximumf %x, %zero : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// The maximum of a number and NaN is the number.

// CHECK-LABEL: func @relu_maxnum(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @relu_maxnum(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}FUSE-N118 nan}}
  %y = arith.maxnumf %x, %zero : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// An ordered comparison with NaN is false.

// CHECK-LABEL: func @relu_select(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @relu_select(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %p = arith.cmpf ogt, %x, %zero : tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}FUSE-N118 nan}}
  %y = arith.select %p, %x, %zero : tensor<4x8xi1>, tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @relu_select_unordered(
// CHECK-NEXT:    fuse.activation relu %arg0
// CHECK-NEXT:    return
func.func @relu_select_unordered(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %p = arith.cmpf ugt, %x, %zero : tensor<4x8xf32>
  %y = arith.select %p, %x, %zero : tensor<4x8xi1>, tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @relu_squared(
// CHECK-NEXT:    fuse.activation relu2 %arg0
// CHECK-NEXT:    return
func.func @relu_squared(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %m = arith.maximumf %x, %zero : tensor<4x8xf32>
  %y = arith.mulf %m, %m : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @silu_divided(
// CHECK-NEXT:    fuse.activation silu %arg0
// CHECK-NEXT:    return
func.func @silu_divided(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %n = arith.negf %x : tensor<4x8xf32>
  %e = math.exp %n : tensor<4x8xf32>
  %s = arith.addf %e, %one : tensor<4x8xf32>
  %y = arith.divf %x, %s : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @silu_sigmoid(
// CHECK-NEXT:    fuse.activation silu %arg0
// CHECK-NEXT:    return
func.func @silu_sigmoid(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %n = arith.negf %x : tensor<4x8xf32>
  %e = math.exp %n : tensor<4x8xf32>
  %s = arith.addf %one, %e : tensor<4x8xf32>
  %g = arith.divf %one, %s : tensor<4x8xf32>
  %y = arith.mulf %x, %g : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @silu_tanh(
// CHECK-NEXT:    fuse.activation silu %arg0
// CHECK-NEXT:    return
func.func @silu_tanh(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %h = arith.mulf %x, %half : tensor<4x8xf32>
  %t = math.tanh %h : tensor<4x8xf32>
  %m = arith.mulf %t, %half : tensor<4x8xf32>
  %s = arith.addf %m, %half : tensor<4x8xf32>
  %y = arith.mulf %s, %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @quick_gelu(
// CHECK-NEXT:    fuse.activation quick_gelu %arg0
// CHECK-NEXT:    return
func.func @quick_gelu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %k = arith.constant dense<-1.702> : tensor<4x8xf32>
  %m = arith.mulf %x, %k : tensor<4x8xf32>
  %e = math.exp %m : tensor<4x8xf32>
  %s = arith.addf %e, %one : tensor<4x8xf32>
  %y = arith.divf %x, %s : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @gelu_erf(
// CHECK-NEXT:    fuse.activation gelu %arg0
// CHECK-NEXT:    return
func.func @gelu_erf(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %k = arith.constant dense<0.707106769> : tensor<4x8xf32>
  %m = arith.mulf %x, %k : tensor<4x8xf32>
  %e = math.erf %m : tensor<4x8xf32>
  %s = arith.addf %e, %one : tensor<4x8xf32>
  %h = arith.mulf %x, %half : tensor<4x8xf32>
  %y = arith.mulf %h, %s : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @gelu_erf_divided(
// CHECK-NEXT:    fuse.activation gelu %arg0
// CHECK-NEXT:    return
func.func @gelu_erf_divided(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %k = arith.constant dense<1.41421354> : tensor<4x8xf32>
  %m = arith.divf %x, %k : tensor<4x8xf32>
  %e = math.erf %m : tensor<4x8xf32>
  %h = arith.mulf %x, %half : tensor<4x8xf32>
  %p = arith.mulf %h, %e : tensor<4x8xf32>
  %y = arith.addf %h, %p : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @gelu_erfc(
// CHECK-NEXT:    fuse.activation gelu %arg0
// CHECK-NEXT:    return
func.func @gelu_erfc(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %k = arith.constant dense<-0.707106769> : tensor<4x8xf32>
  %m = arith.mulf %x, %k : tensor<4x8xf32>
  %e = math.erfc %m : tensor<4x8xf32>
  %h = arith.mulf %x, %half : tensor<4x8xf32>
  %y = arith.mulf %h, %e : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @gelu_tanh_power(
// CHECK-NEXT:    fuse.activation gelu_tanh %arg0
// CHECK-NEXT:    return
func.func @gelu_tanh_power(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %c = arith.constant dense<0.044715> : tensor<4x8xf32>
  %r = arith.constant dense<0.797884583> : tensor<4x8xf32>
  %three = arith.constant dense<3.0> : tensor<4x8xf32>
  %p = math.powf %x, %three : tensor<4x8xf32>
  %q = arith.mulf %p, %c : tensor<4x8xf32>
  %a = arith.addf %x, %q : tensor<4x8xf32>
  %u = arith.mulf %a, %r : tensor<4x8xf32>
  %t = math.tanh %u : tensor<4x8xf32>
  %s = arith.addf %t, %one : tensor<4x8xf32>
  %h = arith.mulf %x, %half : tensor<4x8xf32>
  %y = arith.mulf %h, %s : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// x * (1 + c * x^2)

// CHECK-LABEL: func @gelu_tanh_factored(
// CHECK-NEXT:    fuse.activation gelu_tanh %arg0
// CHECK-NEXT:    return
func.func @gelu_tanh_factored(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %c = arith.constant dense<0.044715> : tensor<4x8xf32>
  %r = arith.constant dense<0.797884583> : tensor<4x8xf32>
  %q = arith.mulf %x, %x : tensor<4x8xf32>
  %p = arith.mulf %q, %c : tensor<4x8xf32>
  %a = arith.addf %p, %one : tensor<4x8xf32>
  %v = arith.mulf %x, %r : tensor<4x8xf32>
  %u = arith.mulf %v, %a : tensor<4x8xf32>
  %t = math.tanh %u : tensor<4x8xf32>
  %s = arith.addf %t, %one : tensor<4x8xf32>
  %m = arith.mulf %s, %half : tensor<4x8xf32>
  %y = arith.mulf %m, %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @gelu_tanh_distributed(
// CHECK-NEXT:    fuse.activation gelu_tanh %arg0
// CHECK-NEXT:    return
func.func @gelu_tanh_distributed(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %r = arith.constant dense<0.797884583> : tensor<4x8xf32>
  %d = arith.constant dense<0.0356774081> : tensor<4x8xf32>
  %q = arith.mulf %x, %x : tensor<4x8xf32>
  %p = arith.mulf %q, %x : tensor<4x8xf32>
  %a = arith.mulf %p, %d : tensor<4x8xf32>
  %v = arith.mulf %x, %r : tensor<4x8xf32>
  %u = arith.addf %v, %a : tensor<4x8xf32>
  %t = math.tanh %u : tensor<4x8xf32>
  %h = arith.mulf %x, %half : tensor<4x8xf32>
  %g = arith.mulf %h, %t : tensor<4x8xf32>
  %y = arith.addf %h, %g : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// (1 + tanh(u)) / 2 is the logistic function of 2 * u.

// CHECK-LABEL: func @gelu_tanh_sigmoid(
// CHECK-NEXT:    fuse.activation gelu_tanh %arg0
// CHECK-NEXT:    return
func.func @gelu_tanh_sigmoid(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %c = arith.constant dense<0.044715> : tensor<4x8xf32>
  %k = arith.constant dense<-1.59576917> : tensor<4x8xf32>
  %q = arith.mulf %x, %x : tensor<4x8xf32>
  %p = arith.mulf %q, %x : tensor<4x8xf32>
  %a = arith.mulf %p, %c : tensor<4x8xf32>
  %v = arith.addf %x, %a : tensor<4x8xf32>
  %u = arith.mulf %v, %k : tensor<4x8xf32>
  %e = math.exp %u : tensor<4x8xf32>
  %s = arith.addf %e, %one : tensor<4x8xf32>
  %y = arith.divf %x, %s : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @leaky_relu(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @leaky_relu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %k = arith.constant dense<0.01> : tensor<4x8xf32>
  %p = arith.cmpf ogt, %x, %zero : tensor<4x8xf32>
  %m = arith.mulf %x, %k : tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}Detail="leaky_relu with slope 0.01"{{.*}}FUSE-N133 other-activation}}
  %y = arith.select %p, %x, %m : tensor<4x8xi1>, tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @hardswish(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @hardswish(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %three = arith.constant dense<3.0> : tensor<4x8xf32>
  %six = arith.constant dense<6.0> : tensor<4x8xf32>
  %a = arith.addf %x, %three : tensor<4x8xf32>
  %m = arith.maximumf %a, %zero : tensor<4x8xf32>
  %n = arith.minimumf %m, %six : tensor<4x8xf32>
  %p = arith.mulf %x, %n : tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}Detail=hardswish{{.*}}FUSE-N133 other-activation}}
  %y = arith.divf %p, %six : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @mish(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @mish(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = math.exp %x : tensor<4x8xf32>
  %l = math.log1p %e : tensor<4x8xf32>
  %t = math.tanh %l : tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}Detail=mish{{.*}}FUSE-N133 other-activation}}
  %y = arith.mulf %x, %t : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Other ways to write the refused activations.

// CHECK-LABEL: func @leaky_relu_maximum(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @leaky_relu_maximum(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %k = arith.constant dense<0.2> : tensor<4x8xf32>
  %m = arith.mulf %x, %k : tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}leaky_relu with slope 0.2}}
  %y = arith.maximumf %x, %m : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @leaky_relu_select_less(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @leaky_relu_select_less(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %k = arith.constant dense<0.1> : tensor<4x8xf32>
  %p = arith.cmpf olt, %zero, %x : tensor<4x8xf32>
  %m = arith.mulf %x, %k : tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}leaky_relu with slope 0.1}}
  %y = arith.select %p, %x, %m : tensor<4x8xi1>, tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @hardswish_scaled(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @hardswish_scaled(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %k = arith.constant dense<0.166666672> : tensor<4x8xf32>
  %a = arith.mulf %x, %k : tensor<4x8xf32>
  %b = arith.addf %a, %half : tensor<4x8xf32>
  %m = arith.minimumf %b, %one : tensor<4x8xf32>
  %n = arith.maximumf %m, %zero : tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}hardswish}}
  %y = arith.mulf %x, %n : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A softplus that is the identity for large inputs, as in PyTorch.

// CHECK-LABEL: func @mish_threshold(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @mish_threshold(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %k = arith.constant dense<20.0> : tensor<4x8xf32>
  %e = math.exp %x : tensor<4x8xf32>
  %s = arith.addf %e, %one : tensor<4x8xf32>
  %l = math.log %s : tensor<4x8xf32>
  %p = arith.cmpf ogt, %x, %k : tensor<4x8xf32>
  %m = arith.select %p, %x, %l : tensor<4x8xi1>, tensor<4x8xf32>
  %t = math.tanh %m : tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}mish}}
  %y = arith.mulf %x, %t : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Not a leaky relu: the slope is above zero.

// CHECK-LABEL: func @select_above(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @select_above(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %k = arith.constant dense<0.01> : tensor<4x8xf32>
  %p = arith.cmpf ogt, %x, %zero : tensor<4x8xf32>
  %m = arith.mulf %x, %k : tensor<4x8xf32>
  %y = arith.select %p, %m, %x : tensor<4x8xi1>, tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
