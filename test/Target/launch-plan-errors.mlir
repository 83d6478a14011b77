// RUN: fuse-translate %s --mlir-to-launch-plan --split-input-file \
// RUN:   --verify-diagnostics
// RUN: echo 'gpu.module @m {}' > %t.mlir
// RUN: not fuse-translate %t.mlir --mlir-to-launch-plan --no-implicit-module \
// RUN:   2>&1 | FileCheck %s --check-prefix=MODULE

// What makes no plan that a host could follow.

// MODULE: error: expected a builtin.module

module attributes {gpu.container_module} {
  gpu.binary @good [#gpu.object<#nvvm.target<chip = "sm_90a">, assembly = "text">]
}

// -----

module attributes {gpu.container_module} {
  // expected-error @below {{has 2 objects: expected one}}
  gpu.binary @two [#gpu.object<#nvvm.target, assembly = "a">,
                   #gpu.object<#nvvm.target, assembly = "b">]
}

// -----

module attributes {gpu.container_module} {
  // expected-error @below {{does not hold PTX}}
  gpu.binary @code [#gpu.object<#nvvm.target, bin = "a">]
}

// -----

gpu.module @kernels {
  tile.kernel @k(%x: !tile.buffer<bf16>)
      blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}
func.func @no_plan(%x: tensor<?x4xbf16>) -> tensor<?x4xbf16> {
  // expected-error @below {{has no plan}}
  %y = tile.launch @kernels::@k ins(%x : tensor<?x4xbf16>)
    outs(%x : tensor<?x4xbf16>) -> tensor<?x4xbf16>
  return %y : tensor<?x4xbf16>
}

// -----

module attributes {gpu.container_module} {
  gpu.module @kernels {
    tile.kernel @k(%x: !tile.buffer<bf16>)
        blocks(1) threads(32) shared_bytes(0) {
      tile.return
    }
  }
  func.func @no_code(%x: tensor<?x4xbf16>) -> tensor<?x4xbf16> {
    // expected-error @below {{is of a kernel in @kernels, which is not a binary}}
    %y = tile.launch @kernels::@k ins(%x : tensor<?x4xbf16>)
      outs(%x : tensor<?x4xbf16>)
      plan <blocks = 1, threads = 32, max_tokens = 8, arguments = []>
      -> tensor<?x4xbf16>
    return %y : tensor<?x4xbf16>
  }
}
