fuse.model @whole class "*" {
  fuse.module @norm class "RMSNorm" {
  }
}
