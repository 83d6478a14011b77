// RUN: fuse-opt %s --fuse-observe-activations -verify-diagnostics

// expected-error @below {{'blocks' has several blocks, so that observed values may not dominate its return}}
func.func @blocks(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  cf.br ^end
^end:
  return %x : tensor<?x8xf32>
}
