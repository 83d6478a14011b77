// RUN: %check_errors %s fuse-opt %s --fuse-vectorize-reductions='{}'

// Options outside of their range.

// $ lanes=12
// error: expected 'lanes' to be a power of two up to 64, got 12

// $ rows=0
// error: expected 'rows' and 'columns' from 1 to 16, got 0 and 4

module {}
