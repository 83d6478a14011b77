func.func @mlp(%x: tensor<?x128xbf16>, %g: tensor<128x128xf8E4M3FN>,
    %u: tensor<128x128xf8E4M3FN>, %d: tensor<128x128xf8E4M3FN>)
    -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
    scales(f8E4M3FN, input = 0.5, gate = 0.25, up = 0.75, hidden = 0.125,
           down = 2.0) rounding(exact)
    : (tensor<?x128xbf16>, tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN>,
       tensor<128x128xf8E4M3FN>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
