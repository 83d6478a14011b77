// The number of stages in flight beside a release is tried alone, too.

// RUN: fuse-tune candidates %s -o %t --pipeline= --candidates=12 \
// RUN:   --no-assemble && FileCheck %s < %t

// CHECK-DAG: max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 4, publish_in_flight = 1, partials = f32, tagged_partials = true, swap_ab
// CHECK-DAG: max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 4, partials = f32, tagged_partials = true, swap_ab

func.func @most(%x: tensor<128x1344xbf16>, %g: tensor<768x1344xbf16>,
                %u: tensor<768x1344xbf16>, %d: tensor<1344x768xbf16>)
    -> tensor<128x1344xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<128x1344xbf16>, tensor<768x1344xbf16>, tensor<768x1344xbf16>,
       tensor<1344x768xbf16>) -> tensor<128x1344xbf16>
  return %y : tensor<128x1344xbf16>
}
