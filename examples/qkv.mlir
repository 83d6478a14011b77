// The head of an attention block with grouped-query attention, at the widths of
// Qwen2.5 0.5B: residual add, norm, and the three projections, with biases.
//
//   fuse-opt examples/qkv.mlir --fuse-form-kernels
//     fuses the layers into one fuse.norm_linear with four results;
//   fuse-opt examples/qkv.mlir --fuse-check-unfuse
//     forms the kernel, undoes it, and fails if anything differs;
//   fuse-run examples/qkv.mlir --verify
//     runs both on the CPU and compares every bit.
//
// The projections need not be one matrix: a fused op supports any number of
// weights, whose parameters keep their names. The end of the block also reads
// the sum of the residual add, so the kernel returns it as an extra result:
// `also([stream])`.

func.func @qkv(
    %x: tensor<?x896xbf16>,
    %residual: tensor<?x896xbf16>,
    %norm: tensor<896xbf16> {fuse.parameter = "input_layernorm.weight"},
    %wq: tensor<896x896xbf16> {fuse.parameter = "self_attn.q_proj.weight"},
    %bq: tensor<896xbf16> {fuse.parameter = "self_attn.q_proj.bias"},
    %wk: tensor<128x896xbf16> {fuse.parameter = "self_attn.k_proj.weight"},
    %bk: tensor<128xbf16> {fuse.parameter = "self_attn.k_proj.bias"},
    %wv: tensor<128x896xbf16> {fuse.parameter = "self_attn.v_proj.weight"},
    %bv: tensor<128xbf16> {fuse.parameter = "self_attn.v_proj.bias"})
    -> (tensor<?x896xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>,
        tensor<?x896xbf16>) {
  %s = fuse.residual_add %x, %residual
    : (tensor<?x896xbf16>, tensor<?x896xbf16>) -> tensor<?x896xbf16>
  // The norm of Llama and Qwen: rounded, then multiplied by the weight.
  %n = fuse.rms_norm %s weight(%norm) eps 1.0e-6
    : (tensor<?x896xbf16>, tensor<896xbf16>) -> tensor<?x896xbf16>
      loc("input_layernorm")
  %q = fuse.linear %n, %wq bias(%bq)
    : (tensor<?x896xbf16>, tensor<896x896xbf16>, tensor<896xbf16>)
      -> tensor<?x896xbf16> loc("self_attn.q_proj")
  %k = fuse.linear %n, %wk bias(%bk)
    : (tensor<?x896xbf16>, tensor<128x896xbf16>, tensor<128xbf16>)
      -> tensor<?x128xbf16> loc("self_attn.k_proj")
  %v = fuse.linear %n, %wv bias(%bv)
    : (tensor<?x896xbf16>, tensor<128x896xbf16>, tensor<128xbf16>)
      -> tensor<?x128xbf16> loc("self_attn.v_proj")
  return %q, %k, %v, %s
    : tensor<?x896xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>,
      tensor<?x896xbf16>
}
