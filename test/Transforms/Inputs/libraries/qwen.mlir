// Patterns and kernels for every model whose class begins with Qwen.
fuse.model @qwen class "Qwen*" {
  fuse.fusion_pattern @norm_mlp [("*RMSNorm", "**.norm"), ("*MLP", "**.mlp")]
  fuse.kernel @NormMLP targets(["sm_90"])
    weights [#fuse.recipe<"w" = concat("1:gate", "1:up")>]
}
