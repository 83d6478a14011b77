// RUN: %check_errors %s fuse-opt %s --convert-fuse-to-cpu='{}'

// Options that do not describe a CPU.

// $ lanes=5
// error: expected 'lanes' to be 4, 8 or 16, got 5

// $ registers=8
// error: expected 'registers' to be 16 or 32, got 8

// $ lanes=8 dot
// error: expected 16 'lanes' for 'dot', got 8

// $ tiles
// error: expected 'dot' for 'tiles'

module {}
