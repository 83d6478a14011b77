// A report of what is fused and what is refused, as text, JSON and HTML.

// RUN: fuse-explain %s --tokens=4 \
// RUN:   --patterns='((RMSNorm,*.norm),(MLP,*.mlp))->mlp' | FileCheck %s
// RUN: fuse-explain %s --tokens=4 --format=json \
// RUN:   --patterns='((RMSNorm,*.norm),(MLP,*.mlp))->mlp' \
// RUN:   | python3 -m json.tool | FileCheck %s --check-prefix=JSON
// RUN: fuse-explain %s --format=html -o %t.html \
// RUN:   --patterns='((RMSNorm,*.norm),(MLP,*.mlp))->mlp'
// RUN: FileCheck %s --check-prefix=HTML --implicit-check-not=http \
// RUN:   --input-file=%t.html
// RUN: fuse-explain %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: fuse-explain %s --tokens=1048576 -o /dev/null
// RUN: fuse-explain %s --target=sm_80 -o /dev/null \
// RUN:   --patterns='((RMSNorm,*.norm),(MLP,*.mlp))->mlp'

// Layer `a` is fused: the norm and three ops of the MLP are one kernel. The
// intermediates are the normalized value (written once, read once, 4 x 8 x 4
// bytes) and the hidden values before and after the activation (4 x 16 x 4).
// Each linear has 2 x 4 x 8 x 16 operations. Layer `b` is refused. The numbers
// in brackets are what a kernel would have there at least: two members and the
// normalized value between them. Without a target, nothing is called saved.

// CHECK-NOT:  saved
// CHECK:      site level state kernel or reason layers bytes between flop
// CHECK-NEXT: a.norm+mlp#0 modules fused mlp 4 1280 2048
// CHECK-NEXT: a.norm+mlp#0#1 ops fused mlp 4 1280 2048
// CHECK-NEXT: b.norm+mlp#0 modules refused FUSE-N208 has-hooks (2) (256) -
// CHECK-NEXT:   at nn.module,
// CHECK-NEXT:   'b.mlp' has hooks accelerate
// CHECK-NEXT:   do: remove the hooks before fusing
// CHECK-NEXT: 2 sites fused, 1 refused; kernels: 1, of layers: 4{{$}}

// JSON:      "sites": [
// JSON:      "chain": {
// JSON-NEXT:   "bytes": 1280,
// JSON-NEXT:   "flops": 2048,
// JSON-NEXT:   "layers": 4
// JSON:      "kernel": "mlp"
// JSON:      "location": "\"{{.*}}explain.mlir\":{{[0-9]+}}:{{[0-9]+}}"
// JSON:      "fused": false,
// JSON:      "id": "FUSE-N208"
// JSON:      "suggestion": "remove the hooks before fusing"

// HTML:      <!DOCTYPE html>
// HTML:      <td>a.norm+mlp#0</td>
// HTML:      <td>FUSE-N208 has-hooks</td>
// HTML:      <summary>Before fusion</summary>
// HTML:      %{{.*}} = nn.call_module @norm
// HTML:      <summary>After fusion</summary>
// HTML:      nn.fused_call mlp

// NONE: note: without --patterns, modules of models are not sites

nn.model @m class "M" {
  nn.module @a class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
        %y = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
        return %y : tensor<?x8xf32>
      }
    }
    nn.module @mlp class "MLP" {
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
  nn.module @b class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<?x8xf32>) -> tensor<?x8xf32>
    }
    nn.module @mlp class "MLP" hooks(["accelerate"]) {
      func.func private @forward(tensor<?x8xf32>) -> tensor<?x8xf32>
    }
    func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<?x8xf32>) -> tensor<?x8xf32>
      return %m : tensor<?x8xf32>
    }
  }
}
