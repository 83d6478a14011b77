// Patterns and kernels for every model whose class begins with Qwen.
nn.model @qwen class "Qwen*" {
  nn.fusion_pattern @norm_mlp [("*RMSNorm", "**.norm"), ("*MLP", "**.mlp")]
  nn.kernel @NormMLP targets(["sm_90"])
    weights [#nn.recipe<"w" = concat("1:gate", "1:up")>]
}
