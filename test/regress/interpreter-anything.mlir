// RUN: fuse-fuzz %s --seed=2200005 --stratum=boundary --run | FileCheck %s
// CHECK: no failure

// As fuse-fuzz reduced it. The interpreter was wrong: what NaN and infinities
// leave open is stored as some integer, and a sum of such integers is not 0.

module {
  func.func @f(%arg0: tensor<?x1xbf16>, %arg1: tensor<1xf16>, %arg2: tensor<1x1xi8>) -> tensor<?x1xbf16> {
    %0 = fuse.rms_norm %arg0 weight(%arg1) eps 0.0 offset 1 cast after_weight : (tensor<?x1xbf16>, tensor<1xf16>) -> tensor<?x1xbf16>
    %1 = fuse.quantize %0 scale 0.13 order divide : (tensor<?x1xbf16>) -> tensor<?x1xi8>
    %2 = fuse.linear %1, %arg2 scales(0.13, 0.021) : (tensor<?x1xi8>, tensor<1x1xi8>) -> tensor<?x1xbf16>
    return %2 : tensor<?x1xbf16>
  }
}

