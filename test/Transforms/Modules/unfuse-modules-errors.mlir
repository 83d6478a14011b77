// RUN: %check_errors %s fuse-opt %s \
// RUN:   --fuse-match-modules='patterns=((*,a),(*,b))->Kernel,((*,c))->Kernel' \
// RUN:   --fuse-unfuse='{}'

// A site or path that is not fused is an error that lists the fused sites.

// $ sites=b#0
// error: no fused op has site 'b#0'; expected one of a+b#0, c#0

// $ paths=**.e
// error: no member of a fused site matches path glob '**.e'; expected one of a+b#0, c#0

// $ paths=a.**b
// error: path glob 'a.**b': '**' must be a whole segment, got '**b'

nn.model @m class "M" {
  nn.kernel @Kernel targets(["cpu"])
  nn.module @a class "A" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @b class "B" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @c class "C" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %a = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %b = nn.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
    %c = nn.call_module @c(%b) : (tensor<8xf32>) -> tensor<8xf32>
    return %c : tensor<8xf32>
  }
}
