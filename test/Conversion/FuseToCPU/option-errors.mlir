// RUN: %option_errors %s fuse-opt %s --convert-fuse-to-cpu='{}'

// Options that do not describe a CPU.

// OPTIONS: lanes=5
// ERROR: expected 'lanes' to be 4, 8 or 16, got 5

// OPTIONS: registers=8
// ERROR: expected 'registers' to be 16 or 32, got 8

// OPTIONS: lanes=8 dot
// ERROR: expected 16 'lanes' for 'dot', got 8

// OPTIONS: tiles
// ERROR: expected 'dot' for 'tiles'

module {}
