// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=scale=twice,model.b:scale=eager,student@model.a:scale=eager report=%t.txt" \
// RUN:   | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// Both instances of a model have the same slots; each is bound by itself. A
// binding for a model wins over others, an override by path over a binding.

// REPORT:      target: device_type=cpu; mode=inference
// REPORT-NEXT: teacher 'model.a' scale (op=scale, variant=standard): twice, generated, device_type=any, mode=any; by bind scale
// REPORT-NEXT: teacher 'model.b' scale (op=scale, variant=standard): eager, eager body; by override model.b
// REPORT-NEXT: student 'model.a' scale (op=scale, variant=standard): eager, eager body; by model student override model.a
// REPORT-NEXT: student 'model.b' scale (op=scale, variant=standard): eager, eager body; by override model.b
// REPORT-NEXT: 4 calls: 1 of kernels, 3 eager, 0 unbound

// CHECK-LABEL: nn.model @teacher
// CHECK:         nn.slot @scale
// CHECK:           func.func @eager
// CHECK:           nn.bound_kernel @twice on <any> {
// CHECK-NEXT:        func.func @body(%[[X:.*]]: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:          %[[Y:.*]] = arith.addf %[[X]], %[[X]]
// CHECK-NEXT:          return %[[Y]]
// CHECK:         nn.module @a
// CHECK:           nn.call_slot @scale({{.*}}) bound @twice :
// CHECK:         nn.module @b
// CHECK:           nn.call_slot @scale({{.*}}) bound @eager :

// CHECK-LABEL: nn.model @student
// CHECK-NOT:     nn.bound_kernel
// CHECK:         nn.module @a
// CHECK:           nn.call_slot @scale({{.*}}) bound @eager :
// CHECK:         nn.module @b
// CHECK:           nn.call_slot @scale({{.*}}) bound @eager :

nn.model @teacher class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %two = arith.constant dense<2.0> : tensor<4xf32>
      %0 = arith.mulf %x, %two : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  nn.module @model class "Layers" {
    nn.module @a class "Layer" {
      func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    nn.module @b class "Layer" {
      func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
  }
}

nn.model @student class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %two = arith.constant dense<2.0> : tensor<4xf32>
      %0 = arith.mulf %x, %two : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  nn.module @model class "Layers" {
    nn.module @a class "Layer" {
      func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    nn.module @b class "Layer" {
      func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
  }
}
