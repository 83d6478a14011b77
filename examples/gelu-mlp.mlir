// The dense MLP block of GPT-2 and of many encoders: layer norm, a projection
// up, GELU, a projection down, all with biases, and the residual add.
//
//   fuse-opt examples/gelu-mlp.mlir --fuse-form-kernels
//     fuses the 5 layers into one fuse.mlp;
//   fuse-opt examples/gelu-mlp.mlir --fuse-form-kernels --fuse-unfuse
//     restores this file;
//   fuse-run examples/gelu-mlp.mlir --entry=block --verify
//     runs both on the CPU and compares every bit.
//
// Two functions show which layers a fused kernel includes. In @block every
// intermediate has one user, so the whole block becomes a kernel. In
// @shared_norm another layer also reads the normalized value, so the norm stays
// a separate layer, and
//
//   fuse-opt examples/gelu-mlp.mlir --fuse-form-kernels --remarks-filter='.*'
//
// reports the reason.

func.func @block(
    %x: tensor<?x768xf32>,
    %norm_weight: tensor<768xf32> {fuse.parameter = "ln_2.weight"},
    %norm_bias: tensor<768xf32> {fuse.parameter = "ln_2.bias"},
    %up_weight: tensor<3072x768xf32> {fuse.parameter = "mlp.c_fc.weight"},
    %up_bias: tensor<3072xf32> {fuse.parameter = "mlp.c_fc.bias"},
    %down_weight: tensor<768x3072xf32> {fuse.parameter = "mlp.c_proj.weight"},
    %down_bias: tensor<768xf32> {fuse.parameter = "mlp.c_proj.bias"})
    -> tensor<?x768xf32> {
  %n = fuse.layer_norm %x weight(%norm_weight) bias(%norm_bias) eps 1.0e-5
    : (tensor<?x768xf32>, tensor<768xf32>, tensor<768xf32>)
      -> tensor<?x768xf32> loc("ln_2")
  %u = fuse.linear %n, %up_weight bias(%up_bias)
    : (tensor<?x768xf32>, tensor<3072x768xf32>, tensor<3072xf32>)
      -> tensor<?x3072xf32> loc("mlp.c_fc")
  // `gelu` is defined by erf, while GPT-2 itself uses `gelu_tanh`. They are
  // different functions, and no pass replaces one by the other.
  %a = fuse.activation gelu %u
    : tensor<?x3072xf32> -> tensor<?x3072xf32> loc("mlp.act")
  %d = fuse.linear %a, %down_weight bias(%down_bias)
    : (tensor<?x3072xf32>, tensor<768x3072xf32>, tensor<768xf32>)
      -> tensor<?x768xf32> loc("mlp.c_proj")
  %y = fuse.residual_add %x, %d
    : (tensor<?x768xf32>, tensor<?x768xf32>) -> tensor<?x768xf32>
  return %y : tensor<?x768xf32>
}

func.func @shared_norm(
    %x: tensor<?x768xf32>,
    %norm_weight: tensor<768xf32> {fuse.parameter = "ln_2.weight"},
    %norm_bias: tensor<768xf32> {fuse.parameter = "ln_2.bias"},
    %up_weight: tensor<3072x768xf32> {fuse.parameter = "mlp.c_fc.weight"},
    %down_weight: tensor<768x3072xf32> {fuse.parameter = "mlp.c_proj.weight"})
    -> (tensor<?x768xf32>, tensor<?x768xf32>) {
  %n = fuse.layer_norm %x weight(%norm_weight) bias(%norm_bias) eps 1.0e-5
    : (tensor<?x768xf32>, tensor<768xf32>, tensor<768xf32>)
      -> tensor<?x768xf32> loc("ln_2")
  %u = fuse.linear %n, %up_weight
    : (tensor<?x768xf32>, tensor<3072x768xf32>) -> tensor<?x3072xf32>
      loc("mlp.c_fc")
  %a = fuse.activation gelu %u
    : tensor<?x3072xf32> -> tensor<?x3072xf32> loc("mlp.act")
  %d = fuse.linear %a, %down_weight
    : (tensor<?x3072xf32>, tensor<768x3072xf32>) -> tensor<?x768xf32>
      loc("mlp.c_proj")
  return %n, %d : tensor<?x768xf32>, tensor<?x768xf32>
}
