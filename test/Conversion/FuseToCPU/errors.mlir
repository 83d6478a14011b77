// RUN: fuse-opt %s --convert-fuse-to-host -verify-diagnostics

// The pass needs a symbol for the module of its kernels.

module {
  // expected-error @below {{'@host_kernels' is the name of the module of kernels for a CPU}}
  module @host_kernels {}
}
