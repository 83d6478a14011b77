// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,norm))->group' \
// RUN:   -verify-diagnostics

// A glob in `fuse.no_fuse` that matches no module is a typing error.

// expected-error @below {{'fuse.no_fuse': no module matches path glob 'nrm'}}
nn.model @m class "M" attributes {fuse.no_fuse = ["nrm"]} {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}
