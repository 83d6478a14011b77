// RUN: fuse-opt %s --split-input-file --verify-diagnostics

// A plan states an axis and a number of ranks.

nn.model @m class "M" {
  nn.module @up class "Linear"
  // expected-error @below {{colwise needs at least 2 ranks, got 1}}
      tensor_parallel(<kind = colwise, axis = "tp", size = 1>) {}
}

// -----

nn.model @m class "M" {
  nn.module @up class "Linear"
  // expected-error @below {{axis of tensor parallelism must have a name}}
      tensor_parallel(<kind = colwise, axis = "", size = 2>) {}
}

// -----

nn.model @m class "M" {
  nn.module @up class "Linear"
  // expected-error @below {{unknown needs size 1, got 2}}
      tensor_parallel(<kind = unknown, axis = "packed", size = 2>) {}
}

// -----

nn.model @m class "M" {
  nn.module @up class "Linear"
  // expected-error @below {{expected ::fuse::TPKind to be one of: colwise, rowwise, unknown}}
  // expected-error @below {{failed to parse Fuse_TPAttr parameter 'kind'}}
      tensor_parallel(<kind = packed, axis = "tp", size = 2>) {}
}

// -----

// Shards are even.

nn.model @m class "M" {
  // expected-error @below {{cuts dimension 0 of 'tensor<9x8xf32>' into 2 uneven parts; expected a multiple of 2}}
  nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
    : tensor<9x8xf32>
}

// -----

nn.model @m class "M" {
  // expected-error @below {{cuts dimension 2 of 'tensor<8x8xf32>', which has 2 dimensions}}
  nn.parameter @weight shard(<dim = 2, axis = "tp", count = 2>)
    : tensor<8x8xf32>
}

// -----

// An axis has one size.

nn.model @m class "M" {
  nn.module @up class "Linear"
      tensor_parallel(<kind = colwise, axis = "tp", size = 2>) {
    nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
      : tensor<8x8xf32>
  }
  // expected-error @below {{has 4 ranks along axis 'tp', module 'up' has 2}}
  nn.module @down class "Linear"
      tensor_parallel(<kind = rowwise, axis = "tp", size = 4>) {
    nn.parameter @weight shard(<dim = 1, axis = "tp", count = 4>)
      : tensor<8x8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @up class "Linear"
      tensor_parallel(<kind = colwise, axis = "tp", size = 2>) {
    // expected-error @below {{is cut along axis 'dp', its colwise module along 'tp'}}
    nn.parameter @weight shard(<dim = 0, axis = "dp", count = 2>)
      : tensor<8x8xf32>
  }
}

// -----

// Parameters are cut where the plan of their module cuts.

nn.model @m class "M" {
  nn.module @up class "Linear"
      tensor_parallel(<kind = colwise, axis = "tp", size = 2>) {
    // expected-error @below {{is cut in dimension 1, expected 0 in a colwise module}}
    nn.parameter @weight shard(<dim = 1, axis = "tp", count = 2>)
      : tensor<8x8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @down class "Linear"
      tensor_parallel(<kind = rowwise, axis = "tp", size = 2>) {
    nn.parameter @weight shard(<dim = 1, axis = "tp", count = 2>)
      : tensor<8x8xf32>
    // expected-error @below {{of a rowwise module must be whole; it is added to the sum}}
    nn.parameter @bias shard(<dim = 0, axis = "tp", count = 2>)
      : tensor<8xf32>
  }
}

// -----

nn.model @m class "M" {
  // expected-error @below {{is rowwise but has no parameter with a shard}}
  nn.module @down class "Linear"
      tensor_parallel(<kind = rowwise, axis = "tp", size = 2>) {
    nn.parameter @weight : tensor<8x8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @up class "Linear" {
    nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
      : tensor<8x8xf32>
  }
  // expected-error @below {{is tied to 'up.weight', which ranks share in another way}}
  nn.parameter @tied tied_to(@up::@weight) : tensor<8x8xf32>
}
