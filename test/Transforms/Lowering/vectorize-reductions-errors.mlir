// RUN: not fuse-opt %s --fuse-vectorize-reductions=lanes=12 2>&1 | FileCheck %s --check-prefix=LANES
// RUN: not fuse-opt %s --fuse-vectorize-reductions=rows=0 2>&1 | FileCheck %s --check-prefix=ROWS

// LANES: error: expected 'lanes' to be a power of two up to 64, got 12
// ROWS: error: expected 'rows' and 'columns' from 1 to 16, got 0 and 4
module {}
