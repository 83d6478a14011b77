// The scheduled kernels of a linear without a norm: with a residual add, and
// with static FP8.

// RUN: fuse-run %s --verify --chip=sm_90a --entry=bf16 --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=10432
// RUN: fuse-run %s --verify --chip=sm_90a --entry=f8 --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=10432
// RUN: fuse-run %s --verify --chip=sm_90a --entry=f8_add --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=10432
// RUN: fuse-run %s --verify --chip=sm_90 --entry=bf16 --dim=1,33 \
// RUN:   | FileCheck %s --check-prefix=MMA
// RUN: fuse-run %s --verify --entry=f8_add --dim=5 \
// RUN:   | FileCheck %s --check-prefix=CPU

// CHECK: V2 scheduled on fuse emulator ok [[VALUES]] of [[VALUES]] values checked by contract, the same bits 3 times
// MMA: V2 scheduled on fuse emulator ok 2176 of 2176 values checked by contract
// CPU: V0 {{.*}} ok identical (kernels: 1, refused sites: 0)
// CPU: V1 {{.*}} ok bit-equal

func.func @bf16(%x: tensor<?x128xbf16>, %w: tensor<64x128xbf16>,
                %b: tensor<64xbf16>, %r: tensor<?x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = fuse.fused_linear %x linear(%w bias %b) then_add(%r) rounding(exact)
       : (tensor<?x128xbf16>, tensor<64x128xbf16>, tensor<64xbf16>,
          tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

func.func @f8(%x: tensor<?x128xbf16>, %w: tensor<64x128xf8E4M3FN>)
    -> tensor<?x64xbf16> {
  %y = fuse.fused_linear %x linear(%w)
         scales(f8E4M3FN, input = 2.1e-2, weight0 = 1.3e-3) rounding(exact)
       : (tensor<?x128xbf16>, tensor<64x128xf8E4M3FN>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

func.func @f8_add(%x: tensor<?x128xbf16>, %w: tensor<64x128xf8E4M3FN>,
                  %r: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.fused_linear %x linear(%w) then_add(%r)
         scales(f8E4M3FN, input = 2.1e-2, weight0 = 1.3e-3) rounding(exact)
       : (tensor<?x128xbf16>, tensor<64x128xf8E4M3FN>, tensor<?x64xbf16>)
         -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
