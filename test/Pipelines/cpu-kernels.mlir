// RUN: fuse-opt %s --fuse-cpu-kernels-pipeline | FileCheck %s
// RUN: fuse-opt %s \
// RUN:     --fuse-cpu-kernels-pipeline='lanes=16 registers=32 fma dot' \
// RUN:   | FileCheck %s --check-prefix=AVX512

// Kernels are in the LLVM dialect, without calls of a library and without fma,
// which is slow where there is no instruction for it. The function is what it
// was.

// CHECK: func.func @f{{.*}} attributes {fuse.cpu_plan
// CHECK: fuse.gated_mlp
// CHECK: module @cpu_kernels
// CHECK-NOT: unrealized_conversion_cast
// CHECK-NOT: llvm.intr.fma{{.*}} vector<4xf32>
// CHECK-NOT: fastmath
// CHECK-NOT: @exp
// CHECK: llvm.func @f_rows(%{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: !llvm.ptr) attributes
// CHECK-NOT: unrealized_conversion_cast
// CHECK: llvm.func @f_hidden(
// CHECK: llvm.func @f_output0(
// CHECK-NOT: unrealized_conversion_cast

// AVX512: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"({{.*}}) : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>) -> vector<16xf32>
func.func @f(%x: tensor<?x16xbf16>, %w: tensor<16xbf16>,
             %g: tensor<64x16xbf16>, %u: tensor<64x16xbf16>,
             %d: tensor<16x64xbf16>) -> tensor<?x16xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
    : (tensor<?x16xbf16>, tensor<16xbf16>, tensor<64x16xbf16>,
       tensor<64x16xbf16>, tensor<16x64xbf16>) -> tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}
