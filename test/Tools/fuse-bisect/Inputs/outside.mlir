nn.model @outside class "Qwen3*" {
  nn.kernel @Outside targets(["cpu"])
}
