// RUN: fuse-fuzz --seed=8
