fuse.model @more class "*" {
  fuse.kernel @NormMLP targets(["sm_80"])
}
