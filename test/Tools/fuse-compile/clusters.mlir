// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never -o %t.fuse
// RUN: fuse-artifact info --json %t.fuse | FileCheck %s

// A host has to know which launches have clusters: these cannot begin in parts
// when places come free one by one.

// CHECK:     "block": [
// CHECK-NOT: "cluster"
// CHECK:     "kernel": "mlp_prefill_0"
// CHECK:     "cluster": [
// CHECK-NEXT:  2,
// CHECK-NEXT:  1,
// CHECK-NEXT:  1
// CHECK:     "kernel": "mlp_prefill_1"
func.func @mlp(%x: tensor<?x64xbf16>, %u: tensor<2048x64xbf16>,
               %d: tensor<64x2048xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 4,
          split_k = 1, stages = 2, group = 4, cluster = 2, launches = 1,
          stream_k = true, dependent = true>}
    : (tensor<?x64xbf16>, tensor<2048x64xbf16>, tensor<64x2048xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
