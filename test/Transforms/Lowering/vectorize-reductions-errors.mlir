// RUN: %option_errors %s fuse-opt %s --fuse-vectorize-reductions='{}'

// Options outside of their range.

// OPTIONS: lanes=12
// ERROR: expected 'lanes' to be a power of two up to 64, got 12

// OPTIONS: rows=0
// ERROR: expected 'rows' and 'columns' from 1 to 16, got 0 and 4

module {}
