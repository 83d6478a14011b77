// RUN: fuse-opt %s --split-input-file --verify-diagnostics
// RUN: not fuse-opt %s --split-input-file --convert-fuse-to-linalg \
// RUN:   --fuse-check-calls 2>&1 | FileCheck %s --check-prefix=CODE

func.func @one(%p: tensor<?x8xf32>) {
  // expected-error @below {{needs at least 2 ranks, got 1}}
  fuse.all_reduce %p group("tp", 1) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @unnamed(%p: tensor<?x8xf32>) {
  // expected-error @below {{needs the name of an axis in 'group'}}
  fuse.all_reduce %p group("", 2) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @place(%p: tensor<?x8xf32>) {
  // expected-error @below {{has no bias to add after rounding}}
  fuse.all_reduce %p added after_rounding group("tp", 2) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @bias(%p: tensor<?x8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{'bias' must have one entry per feature (8), got 'tensor<4xf32>'}}
  fuse.all_reduce %p bias(%b) group("tp", 2) order(rank)
    : (tensor<?x8xf32>, tensor<4xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @shape(%p: tensor<?x8xf32>) {
  // expected-error @below {{'x'}}
  fuse.all_reduce %p group("tp", 2) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @order(%p: tensor<?x8xf32>) {
  // expected-error @below {{expected 'rank'}}
  fuse.all_reduce %p group("tp", 2) order(any)
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

// CODE: error: 'fuse.all_reduce' op sums over 2 ranks, which has no code; expected one rank, or fuse-join-ranks before
func.func @code(%p: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.all_reduce %p group("tp", 2) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// A shard names an axis, a dimension and at least two ranks.

func.func private @shard(tensor<8xf32>
// expected-error @below {{a shard needs at least 2 ranks, got 1}}
    {fuse.shard = #fuse.shard<dim = 0, axis = "tp", count = 1>})

// -----

func.func private @shard(tensor<8xf32>
// expected-error @below {{dimension of a shard must not be negative, got -1}}
    {fuse.shard = #fuse.shard<dim = -1, axis = "tp", count = 2>})

// -----

func.func private @shard(tensor<8xf32>
// expected-error @below {{axis of a shard must have a name}}
    {fuse.shard = #fuse.shard<dim = 0, axis = "", count = 2>})

// -----

func.func private @shard(tensor<8xf32>
// expected-error @below {{a shard needs at least 1 piece, got 0}}
    {fuse.shard = #fuse.shard<dim = 0, axis = "tp", count = 2, pieces = 0>})

// -----

// expected-error @below {{argument 0 'fuse.shard' must be a #fuse.shard, got 2 : i64}}
func.func private @shard(tensor<8xf32> {fuse.shard = 2})
