// RUN: fuse-opt %s | fuse-opt | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// A slot belongs to a model. Its calls can be in forwards at any depth and
// bound to different kernels.

// CHECK-LABEL: nn.model @m class "M"
nn.model @m class "M" {
  // CHECK: nn.slot @norm op "rms_norm" variant "standard" params {eps = 5.000000e-01 : f32} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32> {
  nn.slot @norm op "rms_norm" variant "standard" params {eps = 0.5 : f32}
      : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32> {
    // CHECK: func.func @eager
    func.func @eager(%x: tensor<?x8xf32>, %w: tensor<8xf32>) -> tensor<?x8xf32> {
      %y = fuse.rms_norm %x weight(%w) eps 0.5
        : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
      return %y : tensor<?x8xf32>
    }
    // CHECK: nn.bound_kernel @mine on <gpu from 80 to 90> mode <inference|compile> code #nn.gpu_code<format = ptx, file = "norm.ptx", entry = "norm", grid = #map{{[0-9]*}}, block = [32, 1, 1],
    // CHECK-SAME: sizes = {{\[}}[0, 0]], args = ["arg0", "arg1", "result0", "param.eps", #map{{[0-9]*}}, 1 : i32]> {
    nn.bound_kernel @mine on <gpu from 80 to 90> mode <inference|compile>
      code #nn.gpu_code<format = ptx, file = "norm.ptx", entry = "norm",
        grid = affine_map<()[s0] -> (s0, 1, 1)>, block = [32, 1, 1],
        sizes = [[0, 0]], args = ["arg0", "arg1", "result0", "param.eps",
                                  affine_map<()[s0] -> (s0)>, 1 : i32]> {}
  }
  nn.module @layer class "Layer" {
    nn.parameter @weight : tensor<8xf32>
    func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
      %w = nn.get_parameter @weight : tensor<8xf32>
      // CHECK: nn.call_slot @norm(%{{.*}}, %{{.*}}) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
      %0 = nn.call_slot @norm(%x, %w)
        : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
      // CHECK: nn.call_slot @norm({{.*}}) bound @eager :
      %1 = nn.call_slot @norm(%0, %w) bound @eager
        : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
      // CHECK: nn.call_slot @norm({{.*}}) bound @mine :
      %2 = nn.call_slot @norm(%1, %w) bound @mine
        : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
      return %2 : tensor<?x8xf32>
    }
  }
}

// A slot of a registered op needs no body.

// CHECK: nn.slot @rope op "apply_rotary_pos_emb" variant "full" : (tensor<4x8xf32>) -> tensor<4x8xf32> {
nn.slot @rope op "apply_rotary_pos_emb" variant "full"
    : (tensor<4x8xf32>) -> tensor<4x8xf32> {}

// CHECK-LABEL: func.func @function
func.func @function(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: nn.call_slot @rope
  %0 = nn.call_slot @rope(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A kernel has implementations for different hardware and modes.

// CHECK: nn.slot_kernel "mine" op "apply_rotary_pos_emb" variant "full" description "Two ways" aliases ["old", "older"] {
nn.slot_kernel "mine" op "apply_rotary_pos_emb" variant "full"
    description "Two ways" aliases ["old", "older"] {
  // CHECK: nn.implementation on <any> mode <training> {
  nn.implementation on <any> mode <training> {
    func.func @body(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      return %x : tensor<4x8xf32>
    }
  }
  // CHECK: nn.implementation on <cpu> code #nn.cpu_code<library = "libmine.so", symbol = "rope", sizes = [], args = ["arg0", "result0"]> {
  nn.implementation on <cpu>
    code #nn.cpu_code<library = "libmine.so", symbol = "rope", sizes = [],
      args = ["arg0", "result0"]> {}
}
