// RUN: fuse-opt %s --fuse-localize-shards --split-input-file \
// RUN:   --verify-diagnostics
// RUN: not fuse-opt %s --fuse-localize-shards='size=8' --split-input-file \
// RUN:   2>&1 | FileCheck %s --check-prefix=SIZE

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>
#other = #fuse.shard<dim = 0, axis = "dp", count = 2>

// expected-error @below {{argument 1 is cut for 2 ranks along axis 'dp', an argument before it for 2 along axis 'tp'}}
func.func @axes(%u: tensor<32x8xf32> {fuse.shard = #rows},
                %g: tensor<32x8xf32> {fuse.shard = #other}) {
  return
}

// -----

// SIZE: error: argument 0 is cut for 2 ranks, expected 8
#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>
#four = #fuse.shard<dim = 0, axis = "tp", count = 4>

// expected-error @below {{argument 1 is cut for 4 ranks along axis 'tp', an argument before it for 2 along axis 'tp'}}
func.func @counts(%u: tensor<32x8xf32> {fuse.shard = #rows},
                  %g: tensor<32x8xf32> {fuse.shard = #four}) {
  return
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

// expected-error @below {{argument 0 cuts dimension 0 of 'tensor<33x8xf32>' into 2 uneven parts; expected a multiple of 2}}
func.func @uneven(%u: tensor<33x8xf32> {fuse.shard = #rows}) {
  return
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

// expected-error @below {{argument 0 cuts dimension 0 of 'tensor<?x8xf32>', which is dynamic}}
func.func @dynamic(%u: tensor<?x8xf32> {fuse.shard = #rows}) {
  return
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

// expected-error @below {{argument 0 is cut but is a 'index'; expected a ranked tensor}}
func.func @scalar(%u: index {fuse.shard = #rows}) {
  return
}

// -----

// expected-error @below {{has the types of one rank already}}
func.func @again(%u: tensor<8xf32>) attributes {fuse.ranks = 2} {
  return
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

// Down is colwise as well: its input is a part and must be whole.
func.func @colwise(%x: tensor<?x8xf32>,
                   %u: tensor<32x8xf32> {fuse.shard = #rows},
                   %d: tensor<8x32xf32> {fuse.shard = #rows})
    -> tensor<?x8xf32> {
  %h = fuse.linear %x, %u
    : (tensor<?x8xf32>, tensor<32x8xf32>) -> tensor<?x32xf32>
  // expected-error @below {{operand 'x' is cut in dimension 1, expected one that is whole}}
  %y = fuse.linear %h, %d
    : (tensor<?x32xf32>, tensor<8x32xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

func.func @bias(%x: tensor<?x8xf32>,
                %u: tensor<32x8xf32> {fuse.shard = #rows}, %b: tensor<32xf32>)
    -> tensor<?x32xf32> {
  // expected-error @below {{operand 'weight bias' is whole, expected one that is cut in dimension 0}}
  %h = fuse.linear %x, %u bias(%b)
    : (tensor<?x8xf32>, tensor<32x8xf32>, tensor<32xf32>) -> tensor<?x32xf32>
  return %h : tensor<?x32xf32>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

func.func @gate(%x: tensor<?x8xf32>, %g: tensor<32x8xf32>,
                %u: tensor<32x8xf32> {fuse.shard = #rows},
                %d: tensor<8x32xf32>) -> tensor<?x8xf32> {
  // expected-error @below {{operand 'gate' is whole, expected one that is cut in dimension 0}}
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>, tensor<8x32xf32>)
      -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// 24 rows are a block of 16 rows and one of 8, and a rank has 12 of them.

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

func.func @blocks(%x: tensor<?x8xf8E4M3FN>, %t: tensor<?x1xf32>,
                  %u: tensor<24x8xf8E4M3FN> {fuse.shard = #rows},
                  %s: tensor<2x1xf32> {fuse.shard = #rows})
    -> tensor<?x24xbf16> {
  // expected-error @below {{a part of 'weight' has 12 rows, which cuts a block of 16 with one scale}}
  %y = fuse.linear %x, %u channel_scale(%s) dynamic_scale(%t)
         quant(f8E4M3FN, weights = block<16x8>, activations = per_group<8>,
               sums = block<8>)
    : (tensor<?x8xf8E4M3FN>, tensor<24x8xf8E4M3FN>, tensor<2x1xf32>,
       tensor<?x1xf32>) -> tensor<?x24xbf16>
  return %y : tensor<?x24xbf16>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

func.func @norm(%x: tensor<?x8xf32>,
                %u: tensor<32x8xf32> {fuse.shard = #rows})
    -> tensor<?x32xf32> {
  %h = fuse.linear %x, %u
    : (tensor<?x8xf32>, tensor<32x8xf32>) -> tensor<?x32xf32>
  // expected-error @below {{has no rule for a tensor that is cut}}
  %y = fuse.rms_norm %h eps 1.0e-6 : (tensor<?x32xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

func.func @residual(%x: tensor<?x8xf32>, %r: tensor<?x32xf32>,
                    %u: tensor<32x8xf32> {fuse.shard = #rows})
    -> tensor<?x32xf32> {
  %h = fuse.linear %x, %u
    : (tensor<?x8xf32>, tensor<32x8xf32>) -> tensor<?x32xf32>
  // expected-error @below {{operand '1' is whole, expected one that is cut in dimension 1}}
  %y = fuse.residual_add %h, %r
    : (tensor<?x32xf32>, tensor<?x32xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

func.func @per_tensor(%x: tensor<?x8xf32>,
                      %u: tensor<32x8xf32> {fuse.shard = #rows})
    -> tensor<?x32xi8> {
  %h = fuse.linear %x, %u
    : (tensor<?x8xf32>, tensor<32x8xf32>) -> tensor<?x32xf32>
  // expected-error @below {{measures one scale for a tensor that is cut; expected per_token or per_group}}
  %q, %s = fuse.dynamic_quantize per_tensor %h
    : (tensor<?x32xf32>) -> (tensor<?x32xi8>, tensor<1xf32>)
  return %q : tensor<?x32xi8>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2, pieces = 2>

func.func @slice(%w: tensor<32x8xf32> {fuse.shard = #rows})
    -> tensor<5x8xf32> {
  // expected-error @below {{takes a slice that is not the same part of each rank}}
  %u = tensor.extract_slice %w[0, 0] [5, 8] [1, 1]
    : tensor<32x8xf32> to tensor<5x8xf32>
  return %u : tensor<5x8xf32>
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

func.func @region(%u: tensor<32x8xf32> {fuse.shard = #rows}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{has a region that reads a tensor that is cut}}
  scf.for %i = %c0 to %n step %c1 {
    %a = fuse.activation relu %u : tensor<32x8xf32> -> tensor<32x8xf32>
  }
  return
}

// -----

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>

// The input of a projection must be whole.
func.func @input(%x: tensor<?x8xf32>,
                 %u: tensor<8x8xf32> {fuse.shard = #rows}, %q: tensor<4x8xf32>)
    -> tensor<?x4xf32> {
  %h = fuse.linear %x, %u
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  // expected-error @below {{operand 'x' is cut in dimension 1, expected one that is whole}}
  %y = fuse.norm_linear %h norm(rms eps 1.0e-6) linear(%q) rounding(exact)
    : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
