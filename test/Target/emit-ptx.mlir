// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_80 \
// RUN:   --fuse-emit-ptx="plan=%t.json" -o /dev/null | FileCheck %s
// RUN: FileCheck %s --check-prefix=PLAN --input-file=%t.json
// RUN: fuse-opt %s --fuse-gpu-pipeline="stage=nvvm chip=sm_80" \
// RUN:   --fuse-emit-ptx -o /dev/null | FileCheck %s

// CHECK:      .version 7.0
// CHECK-NEXT: .target sm_80
// CHECK-NEXT: .address_size 64
// CHECK:      .visible .entry map_f32_bf16(
// CHECK:        .param .u64 .ptr {{.*}}map_f32_bf16_param_0
// CHECK:        .param .u64 .ptr {{.*}}map_f32_bf16_param_1
// CHECK:        .param .u64 map_f32_bf16_param_2
// CHECK:      .maxntid 256
// CHECK:      cvt.rn.bf16.f32

// PLAN-DAG: "chip": "sm_80"
// PLAN:     "functions": [
// PLAN:       "arguments": [
// PLAN:         "result": false
// PLAN:         "shape": [
// PLAN-NEXT:      -1,
// PLAN-NEXT:      8
// PLAN:         "type": "f32"
// PLAN:         "result": true
// PLAN:         "type": "bf16"
// PLAN:       "launches": [
// PLAN:           "arg": 0
// PLAN:           "arg": 1
// PLAN:           "size": [
// PLAN-NEXT:        "mul",
// PLAN-NEXT:        "s0",
// PLAN-NEXT:        8
// PLAN:         "block": [
// PLAN-NEXT:      256,
// PLAN:         "grid": [
// PLAN-NEXT:      [
// PLAN-NEXT:        "ceildiv",
// PLAN-NEXT:        "s0",
// PLAN-NEXT:        32
// PLAN:         "kernel": "map_f32_bf16"
// PLAN:       "name": "relu"
// PLAN:       "symbols": [
// PLAN-NEXT:    [
// PLAN-NEXT:      0,
// PLAN-NEXT:      0
// PLAN:       "workspace": []
func.func @relu(%x: tensor<?x8xf32>) -> tensor<?x8xbf16> {
  %0 = fuse.activation relu %x : tensor<?x8xf32> -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}
