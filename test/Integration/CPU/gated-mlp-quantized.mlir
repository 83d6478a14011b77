// RUN: fuse-run %s --verify --dim=0,1,3,17 | FileCheck %s

// Stored values of every type, in both forms, with a scale or one per channel.

// CHECK-NOT: FAILED
// CHECK-COUNT-4: bit-equal
// CHECK-NOT: FAILED

func.func @e4m3(
    %x: tensor<?x20xbf16>, %r: tensor<?x20xbf16>, %nw: tensor<20xbf16>,
    %g: tensor<37x20xf8E4M3FN>, %u: tensor<37x20xf8E4M3FN>,
    %d: tensor<20x37xf8E4M3FN>) -> tensor<?x20xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %nw eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(silu) add_stream
         scales(f8E4M3FN, input = 0.02, gate = 1.3e-3, up = 1.1e-3,
                hidden = 0.04, down = 9.0e-4)
         rounding(exact)
     : (tensor<?x20xbf16>, tensor<?x20xbf16>, tensor<20xbf16>,
        tensor<37x20xf8E4M3FN>, tensor<37x20xf8E4M3FN>, tensor<20x37xf8E4M3FN>)
       -> tensor<?x20xbf16>
  return %y : tensor<?x20xbf16>
}

func.func @e4m3_qdq(
    %x: tensor<?x20xbf16>, %r: tensor<?x20xbf16>, %nw: tensor<20xbf16>,
    %g: tensor<37x20xf8E4M3FN>, %u: tensor<37x20xf8E4M3FN>,
    %d: tensor<20x37xf8E4M3FN>) -> tensor<?x20xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %nw eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(gelu) add_stream
         scales(f8E4M3FN, input = 0.02, gate = 1.3e-3, up = 1.1e-3,
                hidden = 0.04, down = 9.0e-4, form = qdq)
         rounding(exact)
     : (tensor<?x20xbf16>, tensor<?x20xbf16>, tensor<20xbf16>,
        tensor<37x20xf8E4M3FN>, tensor<37x20xf8E4M3FN>, tensor<20x37xf8E4M3FN>)
       -> tensor<?x20xbf16>
  return %y : tensor<?x20xbf16>
}

func.func @e5m2(
    %x: tensor<?x20xf16>, %r: tensor<?x20xf16>, %nw: tensor<20xf16>,
    %g: tensor<37x20xf8E5M2>, %u: tensor<37x20xf8E5M2>,
    %d: tensor<20x37xf8E5M2>) -> tensor<?x20xf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %nw eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(silu) add_stream
         scales(f8E5M2, input = 0.02, gate = 1.3e-3, up = 1.1e-3,
                hidden = 0.04, down = 9.0e-4, order = divide)
         rounding(exact)
     : (tensor<?x20xf16>, tensor<?x20xf16>, tensor<20xf16>,
        tensor<37x20xf8E5M2>, tensor<37x20xf8E5M2>, tensor<20x37xf8E5M2>)
       -> tensor<?x20xf16>
  return %y : tensor<?x20xf16>
}

func.func @i8_per_channel(
    %x: tensor<?x20xbf16>, %r: tensor<?x20xbf16>, %nw: tensor<20xbf16>,
    %g: tensor<37x20xi8>, %u: tensor<37x20xi8>,
    %d: tensor<20x37xi8>, %s: tensor<37xf32>) -> tensor<?x20xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %nw eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(silu) add_stream
         channel_scales(%s)
         scales(i8, input = 0.02, gate = 1.3e-3, up = per_channel,
                hidden = 0.04, down = 9.0e-4)
         rounding(exact)
     : (tensor<?x20xbf16>, tensor<?x20xbf16>, tensor<20xbf16>,
        tensor<37x20xi8>, tensor<37x20xi8>, tensor<20x37xi8>,
        tensor<37xf32>)
       -> tensor<?x20xbf16>
  return %y : tensor<?x20xbf16>
}
