// RUN: split-file %s %t
// RUN: fuse-opt %t/names.mlir -split-input-file -verify-diagnostics \
// RUN:   --fuse-quantize-linears=scales=%t/up.json
// RUN: fuse-opt %t/stored.mlir -split-input-file -verify-diagnostics \
// RUN:   --fuse-quantize-linears="scales=%t/first.json allow-missing weights=stored"
// RUN: fuse-opt %t/tokens.mlir -verify-diagnostics \
// RUN:   --fuse-quantize-linears="scales=%t/first.json activations=per_token"
// RUN: fuse-opt %t/storage.mlir -verify-diagnostics \
// RUN:   --fuse-quantize-linears=scales=%t/i8.json

// Errors of tables and options are in quantize-linears-options.mlir.

//--- up.json
{"up": {"input_scale": 0.5, "weight_scale": 0.25}}

//--- first.json
{"linear#0": {"input_scale": 0.5, "weight_scale": 0.25}}

//--- i8.json
{"up": {"input_scale": 0.5, "weight_scale": 0.25, "storage": "i8"}}

//--- names.mlir

// An entry without a linear.

// expected-error @below {{scales are given for 'up', which is not a linear; the linears are down, linear#1}}
func.func @no_linear(%x: tensor<?x8xbf16>,
                     %w: tensor<8x8xbf16> {fuse.parameter = "down.weight"},
                     %v: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %1 = fuse.linear %0, %v
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %1 : tensor<?x8xbf16>
}

// -----

// A linear without an entry.

func.func @no_entry(%x: tensor<?x8xbf16>,
                    %w: tensor<8x8xbf16> {fuse.parameter = "up.weight"},
                    %v: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  // expected-error @below {{no scales are given for linear 'linear#1'; allow-missing skips such linears}}
  %1 = fuse.linear %0, %v
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %1 : tensor<?x8xbf16>
}

// -----

func.func @quantized(%x: tensor<?x8xi8>,
                     %w: tensor<8x8xi8> {fuse.parameter = "up.weight"})
    -> tensor<?x8xbf16> {
  // expected-error @below {{'up' is already quantized}}
  %0 = fuse.linear %x, %w scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<8x8xi8>) -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}

//--- stored.mlir

// The caller must be able to pass the stored weight of a linear.

func.func @shared(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>)
    -> tensor<?x8xbf16> {
  // expected-error @below {{'linear#0' shares its weight with another op; weights=stored needs a weight without other users}}
  %0 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %1 = fuse.linear %0, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %1 : tensor<?x8xbf16>
}

// -----

func.func @computed(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>)
    -> tensor<?x8xbf16> {
  %v = fuse.residual_add %w, %w
    : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  // expected-error @below {{'linear#0' has a computed weight; weights=stored needs an argument of the function}}
  %0 = fuse.linear %x, %v
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}

//--- tokens.mlir

func.func @one_token(%x: tensor<8xbf16>, %w: tensor<8x8xbf16>)
    -> tensor<8xbf16> {
  // expected-error @below {{'linear#0' reads one token of type 'tensor<8xbf16>'; use activations=per_tensor}}
  %0 = fuse.linear %x, %w
    : (tensor<8xbf16>, tensor<8x8xbf16>) -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

//--- storage.mlir

func.func @storage(%x: tensor<?x8xbf16>,
                   %w: tensor<8x8xbf16> {fuse.parameter = "up.weight"})
    -> tensor<?x8xbf16> {
  // expected-error @below {{the scales of linear 'up' are for i8, the pass stores f8E4M3FN; calibrate for f8E4M3FN, or set type=i8}}
  %0 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}
