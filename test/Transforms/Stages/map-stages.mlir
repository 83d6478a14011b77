// RUN: fuse-opt %s --fuse-form-stages \
// RUN:   --fuse-map-stages='chip=sm_80 tokens=16 multiprocessors=4' \
// RUN:   > %t.mapped
// RUN: FileCheck %s --input-file=%t.mapped
// RUN: fuse-opt %t.mapped --fuse-map-stages | diff %t.mapped -
// RUN: fuse-opt %s --fuse-form-stages -o /dev/null \
// RUN:   --fuse-map-stages='chip=sm_80 tokens=16 multiprocessors=4' \
// RUN:   --remarks-filter=codegen --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: not fuse-opt %s --fuse-map-stages=chip=sm_1 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CHIP
// RUN: %check_errors %s fuse-opt %s --fuse-map-stages='{}'

// CHIP: fuse-map-stages: unknown chip 'sm_1', expected one of sm_80,

// $ tokens=0
// <unknown>:0: error: fuse-map-stages: tokens = 0 is not from 1 to 16384

// $ multiprocessors=0
// <unknown>:0: error: fuse-map-stages: multiprocessors = 0 is not from 1 to 65535

// A mapping in the text does not change.

// The last product has K-slices and a reduce, which has its epilogue.

// CHECK-LABEL: func.func @gated
// CHECK:       stage.graph({{.*}}) map <mma, tokens = 16, blocks = 4>
// CHECK:       %[[N:.*]] = stage.rows({{.*}}) map <launch = 0, results = [workspace]>
// CHECK:       %[[H:.*]] = stage.product %[[N]] by({{.*}}) map <launch = 0, results = [workspace], weight_tile = {{[0-9]+}}, token_tile = 16, pipeline = {{[0-9]}}>
// CHECK:       %[[P:.*]] = stage.product %[[H]] by({{.*}}) slices {{[0-9]+}} map <launch = 0, results = [workspace], weight_tile = {{[0-9]+}}, token_tile = 16, pipeline = {{[0-9]}}> : {{.*}} -> tensor<{{[2-4]}}x?x64xf32>
// CHECK-NEXT:  stage.reduce(%[[P]]) with({{.*}}) order ascending map <launch = 0, results = [output]>
// CHECK:         stage.finish
// CHECK-NEXT:    fuse.residual_add
func.func @gated(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
                 %g: tensor<2048x64xbf16>, %u: tensor<2048x64xbf16>,
                 %d: tensor<64x2048xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) then_add(%x) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<2048x64xbf16>,
        tensor<2048x64xbf16>, tensor<64x2048xbf16>, tensor<?x64xbf16>)
       -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Without a norm, a stage of rows copies tokens. More tokens than one tile use
// one launch for each stage.

// CHECK-LABEL: func.func @dense
// CHECK:       %[[C:.*]] = stage.rows(%{{.*}}) map <launch = 0, results = [launch]>
// CHECK-NEXT:  ^bb0(%[[A:.*]]: tensor<200x64xf16>):
// CHECK-NEXT:    stage.yield %[[A]]
// CHECK:       %[[H:.*]] = stage.product %[[C]] by({{.*}}) map <launch = 1, results = [launch]
// CHECK:       stage.product %[[H]] {{.*}} map <launch = 2,
func.func @dense(%x: tensor<200x64xf16>, %u: tensor<128x64xf16>,
                 %d: tensor<64x128xf16>) -> tensor<200x64xf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) rounding(exact)
     : (tensor<200x64xf16>, tensor<128x64xf16>, tensor<64x128xf16>)
       -> tensor<200x64xf16>
  return %y : tensor<200x64xf16>
}

// REMARK: remark: {{.*}}mapping{{.*}}the input is f32, not bf16

// CHECK-LABEL: func.func @wide
// CHECK:       stage.graph(%{{.*}}) :
func.func @wide(%x: tensor<?x64xf32>, %q: tensor<32x64xf32>)
    -> tensor<?x32xf32> {
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
     : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}
