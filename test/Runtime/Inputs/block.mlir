func.func @block(%x: tensor<?x64xbf16>,
    %norm: tensor<64xbf16> {fuse.parameter = "norm.weight"},
    %gate: tensor<128x64xbf16> {fuse.parameter = "gate.weight"},
    %up: tensor<128x64xbf16> {fuse.parameter = "up.weight"},
    %down: tensor<64x128xbf16> {fuse.parameter = "down.weight"})
    -> tensor<?x64xbf16> {
  %n = fuse.rms_norm %x weight(%norm) eps 1.0e-6
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  %g = fuse.linear %n, %gate
    : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xbf16>
  %a = fuse.activation silu %g : tensor<?x128xbf16> -> tensor<?x128xbf16>
  %u = fuse.linear %n, %up
    : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xbf16>
  %h = fuse.gated_mul %a, %u
    : (tensor<?x128xbf16>, tensor<?x128xbf16>) -> tensor<?x128xbf16>
  %y = fuse.linear %h, %down
    : (tensor<?x128xbf16>, tensor<64x128xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
