// Kernels that the tests of fuse-bind-slots register.

nn.slot_kernel "twice" op "scale" variant "standard"
    description "x + x" aliases ["double"] {
  nn.implementation on <any> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.addf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
}

// The narrower an interval of capabilities is, the better it is known to fit.
nn.slot_kernel "chips" op "scale" variant "standard" {
  nn.implementation on <gpu from 70> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  nn.implementation on <gpu from 80 to 90> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  nn.implementation on <gpu from 90 to 90> mode <training> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
}

nn.slot_kernel "trained" op "scale" variant "standard" {
  nn.implementation on <any> mode <training|compile> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  nn.implementation on <any> mode <inference> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
}

nn.slot_kernel "served" op "scale" variant "standard" {
  nn.implementation on <any> mode <inference> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
}

nn.slot_kernel "shifted" op "scale" variant "offset" {
  nn.implementation on <any> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
}

nn.slot_kernel "wide" op "scale" variant "standard" {
  nn.implementation on <any> {
    func.func @body(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
}
