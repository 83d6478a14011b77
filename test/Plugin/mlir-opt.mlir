// REQUIRES: plugin

// MLIR's own mlir-opt loads the dialects and the passes as a plugin.

// RUN: mlir-opt %s --load-dialect-plugin=%plugin --load-pass-plugin=%plugin \
// RUN:   --pass-pipeline='builtin.module(func.func(fuse-form-kernels),canonicalize)' \
// RUN:   | FileCheck %s --check-prefix=FORMED
// RUN: mlir-opt %s --load-dialect-plugin=%plugin --load-pass-plugin=%plugin \
// RUN:   --pass-pipeline='builtin.module(fuse-kernel-formation-pipeline,fuse-unfuse)' \
// RUN:   | FileCheck %s --check-prefix=LAYERS

// Bytecode of fuse-opt is that of the plugin, and the other way round.
// RUN: fuse-opt %s --emit-bytecode -o %t.mlirbc
// RUN: mlir-opt %t.mlirbc --load-dialect-plugin=%plugin --emit-bytecode \
// RUN:   | fuse-opt | FileCheck %s --check-prefix=LAYERS

// A tool of MLIR does not upgrade a text, and says what does.
// RUN: echo 'module attributes {fuse.version = 1 : i32} {}' \
// RUN:   | not mlir-opt --load-dialect-plugin=%plugin 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OLDER
// OLDER: the IR has version 1, the current version is {{[0-9]+}}; fuse-opt upgrades a text

// RUN: not mlir-opt %s 2>&1 | FileCheck %s --check-prefix=WITHOUT

// FORMED: fuse.mlp %{{.*}} act(gelu)
// FORMED-NOT: fuse.linear
// LAYERS: fuse.linear
// LAYERS: fuse.activation gelu
// LAYERS: fuse.linear
// WITHOUT: error: Dialect `fuse' not found

func.func @f(%x: tensor<?x8xf32>, %up: tensor<16x8xf32>,
             %down: tensor<8x16xf32>) -> tensor<?x8xf32> {
  %0 = fuse.linear %x, %up
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %1 = fuse.activation gelu %0 : tensor<?x16xf32> -> tensor<?x16xf32>
  %2 = fuse.linear %1, %down
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
