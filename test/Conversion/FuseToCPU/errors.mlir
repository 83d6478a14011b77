// RUN: not fuse-opt %s --convert-fuse-to-cpu=lanes=5 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LANES
// LANES: error: expected 'lanes' to be 4, 8 or 16, got 5

// RUN: not fuse-opt %s --convert-fuse-to-cpu=registers=8 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REGISTERS
// REGISTERS: error: expected 'registers' to be 16 or 32, got 8

// RUN: not fuse-opt %s --convert-fuse-to-cpu='lanes=8 dot' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DOT
// DOT: error: expected 16 'lanes' for 'dot', got 8

// RUN: not fuse-opt %s --convert-fuse-to-cpu=tiles 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TILES
// TILES: error: expected 'dot' for 'tiles'

// RUN: not fuse-opt %s --convert-fuse-to-cpu 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NAME
// NAME: [[@LINE+2]]:3: error: '@cpu_kernels' is the name of the module of kernels for a CPU
module {
  module @cpu_kernels {}
}
