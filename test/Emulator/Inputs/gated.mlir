func.func @gated(%x: tensor<9x512xbf16>, %w: tensor<512xbf16>,
                 %g: tensor<640x512xbf16>, %u: tensor<640x512xbf16>,
                 %d: tensor<512x640xbf16>) -> tensor<9x512xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
       : (tensor<9x512xbf16>, tensor<512xbf16>, tensor<640x512xbf16>,
          tensor<640x512xbf16>, tensor<512x640xbf16>) -> tensor<9x512xbf16>
  return %y : tensor<9x512xbf16>
}
