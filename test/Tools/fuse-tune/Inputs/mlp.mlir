func.func @tuned(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                 %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// The portable path has no schedules to tune.
func.func @portable(%x: tensor<?x64xf32>, %u: tensor<256x64xf32>,
                    %d: tensor<64x256xf32>) -> tensor<?x64xf32> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xf32>, tensor<256x64xf32>, tensor<64x256xf32>)
      -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
