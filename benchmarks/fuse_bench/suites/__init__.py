# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measurements: one program for each, `python3 -m fuse_bench.suites.NAME`."""
