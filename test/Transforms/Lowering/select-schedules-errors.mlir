// RUN: %check_errors %s fuse-opt %s --fuse-select-schedules='{}'

// Options outside of their range.

// $ tokens=0
// <unknown>:0: error: fuse-select-schedules: tokens = 0 is not from 1 to 16384

// $ multiprocessors=0
// <unknown>:0: error: fuse-select-schedules: multiprocessors = 0 is not from 1 to 65535

module {}
