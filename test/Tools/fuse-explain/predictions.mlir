// RUN: fuse-explain %s --tokens=4 --patterns='@pair->mlp' | FileCheck %s
// RUN: fuse-explain %s --tokens=4 --patterns='@pair->mlp' --format=json \
// RUN:   | FileCheck %s --check-prefix=JSON
// RUN: fuse-explain %s --tokens=4 --patterns='@pair->Stores' \
// RUN:   | FileCheck %s --check-prefix=STORES

// The kernel at a refused site with bodies would have the layers that it forms:
// those of layer `a` are those of layer `b`. Tied parameters are named. The
// kernel of a refused norm would have the layers around it.

// CHECK: a.norm+mlp#0 modules fused mlp 4 1280 2048
// CHECK-NEXT: tied: a.mlp.down = b.mlp.down
// CHECK: b.norm+mlp#0 modules refused FUSE-N209 tensor-parallel (4) (1280) (2048)
// CHECK: alone#0 ops refused FUSE-N012 no-consumer (2) (256) -
// CHECK: kernels: 1, of layers: 4

// JSON:      "fused": false,
// JSON:      "predicted_chain": {
// JSON-NEXT:   "bytes": 1280,
// JSON-NEXT:   "flops": 2048,
// JSON-NEXT:   "layers": 4

// STORES: a.norm+mlp#0 modules fused Stores
// STORES-NEXT: stores "a.norm+mlp.both" = concat(@mlp::@up, @mlp::@again)

func.func @alone(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %s = fuse.residual_add %x, %x
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = fuse.rms_norm %s eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

nn.model @m class "M" {
  nn.fusion_pattern @pair [("RMSNorm", "*.norm"), ("MLP", "*.mlp")]
  nn.kernel @Stores targets(["cpu"])
    weights [#nn.recipe<"both" = concat("1:up", "1:again")>]
  nn.module @a class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
        %y = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
        return %y : tensor<?x8xf32>
      }
    }
    nn.module @mlp class "MLP" {
      nn.parameter @up : tensor<16x8xf32>
      nn.parameter @again : tensor<16x8xf32>
      nn.parameter @down tied_to(@b::@mlp::@down) : tensor<8x16xf32>
      func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
        %wu = nn.get_parameter @up : tensor<16x8xf32>
        %wd = nn.get_parameter @down : tensor<8x16xf32>
        %u = fuse.linear %x, %wu
          : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
        %a = fuse.activation gelu %u : tensor<?x16xf32> -> tensor<?x16xf32>
        %d = fuse.linear %a, %wd
          : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
        return %d : tensor<?x8xf32>
      }
    }
    func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<?x8xf32>) -> tensor<?x8xf32>
      return %m : tensor<?x8xf32>
    }
  }
  nn.module @b class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
        %y = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
        return %y : tensor<?x8xf32>
      }
    }
    nn.module @mlp class "MLP" 
        tensor_parallel(<kind = unknown, axis = "colwise", size = 1>) {
      nn.parameter @up : tensor<16x8xf32>
      nn.parameter @down : tensor<8x16xf32>
      func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
        %wu = nn.get_parameter @up : tensor<16x8xf32>
        %wd = nn.get_parameter @down : tensor<8x16xf32>
        %u = fuse.linear %x, %wu
          : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
        %a = fuse.activation gelu %u : tensor<?x16xf32> -> tensor<?x16xf32>
        %d = fuse.linear %a, %wd
          : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
        return %d : tensor<?x8xf32>
      }
    }
    func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<?x8xf32>) -> tensor<?x8xf32>
      return %m : tensor<?x8xf32>
    }
  }
}
