// RUN: %option_errors %s fuse-opt %s --fuse-select-schedules='{}'

// Options outside of their range.

// OPTIONS: tokens=0
// ERROR: fuse-select-schedules: tokens = 0 is not from 1 to 16384

// OPTIONS: multiprocessors=0
// ERROR: fuse-select-schedules: multiprocessors = 0 is not from 1 to 65535

module {}
