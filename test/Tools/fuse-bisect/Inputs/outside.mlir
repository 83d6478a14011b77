fuse.model @outside class "Qwen3*" {
  fuse.kernel @Outside targets(["cpu"])
}
