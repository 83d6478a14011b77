// RUN: fuse-opt %s --convert-fuse-to-cpu -verify-diagnostics

// The pass needs a symbol for the module of its kernels.

module {
  // expected-error @below {{'@cpu_kernels' is the name of the module of kernels for a CPU}}
  module @cpu_kernels {}
}
