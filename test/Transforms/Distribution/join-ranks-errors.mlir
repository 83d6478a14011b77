// RUN: fuse-opt %s --fuse-join-ranks --split-input-file --verify-diagnostics

func.func @size(%p: tensor<?x8xf32>) -> tensor<?x8xf32>
    attributes {fuse.ranks = 4} {
  // expected-error @below {{sums over 2 ranks, the function has 4}}
  %y = fuse.all_reduce %p group("tp", 2) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

func.func @region(%p: tensor<?x8xf32>, %n: index)
    attributes {fuse.ranks = 2} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    // expected-error @below {{is in a region, which ranks may not all execute}}
    %y = fuse.all_reduce %p group("tp", 2) order(rank)
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
  }
  return
}

// -----

// expected-error @below {{argument 0 of type 'tensor<8xf32>' is no part for 4 ranks}}
func.func @count(%p: tensor<8xf32>
    {fuse.shard = #fuse.shard<dim = 0, axis = "tp", count = 2>})
    attributes {fuse.ranks = 4} {
  return
}

// -----

// expected-error @below {{needs at least 2 ranks, got 1}}
func.func @one() attributes {fuse.ranks = 1} {
  return
}
