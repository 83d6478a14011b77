// RUN: fuse-opt %s --convert-fuse-to-cpu=lanes=16,registers=32,fma=true,dot=true | FileCheck %s

// A word of a panel has 8 codes of one output. A task dequantizes a block of
// its panel to pairs of bf16, and multiplies them like other weights.
