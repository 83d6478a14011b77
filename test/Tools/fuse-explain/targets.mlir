// Savings are counted in the plans of a target. All have kernels for the fused
// op. Of f32, GPUs have none: there the op becomes its layers again.

// RUN: fuse-explain %s --chip=sm_90a | FileCheck %s --check-prefix=HOPPER
// RUN: fuse-explain %s --chip=sm_80 | FileCheck %s --check-prefix=AMPERE
// RUN: sed 's/bf16/f32/g' %s > %t.f32.mlir
// RUN: fuse-explain %t.f32.mlir --chip=sm_80 | FileCheck %s --check-prefix=WIDE
// RUN: fuse-explain %s --cpu=native | FileCheck %s --check-prefix=CPU
// RUN: fuse-explain %t.f32.mlir --chip=sm_80 --format=json \
// RUN:   | FileCheck %s --check-prefix=JSON
// RUN: fuse-explain %s --chip=sm_80 --format=html \
// RUN:   | FileCheck %s --check-prefix=HTML
// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never -o %t.fuse
// RUN: fuse-artifact info %t.fuse | FileCheck %s --check-prefix=ARTIFACT

// The artifact has the launches that the report counts.

// HOPPER:      site level state kernel or reason layers bytes between flop launches saved bytes saved
// HOPPER-NEXT: mlp#1 ops fused gated_mlp 6 {{[0-9]+}} {{[0-9]+}} 6 {{-?[0-9]+$}}
// HOPPER-NEXT: @mlp on sm_90a: launches unfused 7, fused 1; bytes unfused {{[0-9]+}}, fused {{[0-9]+$}}
// HOPPER-NEXT: 1 site fused, 0 refused; kernels: 1, of layers: 6; on sm_90a they save 6 of 7 launches and {{-?[0-9]+}} of {{[0-9]+}} bytes

// ARTIFACT:     tokens 1 to 8
// ARTIFACT:     workspace
// ARTIFACT:     launch gated_mlp_decode_0
// ARTIFACT-NOT: launch
// ARTIFACT:     tokens 9 to

// AMPERE: @mlp on sm_80: launches unfused 7, fused 1;
// AMPERE: 1 site fused, 0 refused; kernels: 1, of layers: 6; on sm_80 they save 6 of 7 launches

// WIDE:      mlp#1 ops fused gated_mlp 6 {{[0-9]+}} {{[0-9]+}} 0 0
// WIDE-NEXT: @mlp on sm_80: launches unfused [[ALL:[0-9]+]], fused [[ALL]]; bytes unfused [[BYTES:[0-9]+]], fused [[BYTES]]{{$}}
// WIDE-NEXT: 1 site fused, 0 refused; kernels: 1, of layers: 6; nothing is saved on sm_80

// CPU: @mlp on the CPU: launches unfused {{[1-9][0-9]+}}, fused {{[1-9];}}
// CPU: on the CPU they save {{[1-9][0-9]*}} of

// JSON:      "functions": [
// JSON:          "fused": {
// JSON-NEXT:       "bytes": [[BYTES:[0-9]+]],
// JSON-NEXT:       "launches": [[LAUNCHES:[0-9]+]]
// JSON:          "name": "mlp",
// JSON-NEXT:     "unfused": {
// JSON-NEXT:       "bytes": [[BYTES]],
// JSON-NEXT:       "launches": [[LAUNCHES]]
// JSON:      "saved": {
// JSON-NEXT:   "bytes": 0,
// JSON-NEXT:   "launches": 0
// JSON:      "target": "sm_80"

// HTML: <th>launches saved</th><th>bytes saved</th>
// HTML: <p>@mlp on sm_80: launches unfused

func.func @mlp(%x: tensor<?x128xbf16>,
    %norm: tensor<128xbf16> {fuse.parameter = "norm"},
    %gate: tensor<256x128xbf16> {fuse.parameter = "gate"},
    %up: tensor<256x128xbf16> {fuse.parameter = "up"},
    %down: tensor<128x256xbf16> {fuse.parameter = "down"})
    -> tensor<?x128xbf16> {
  %n = fuse.rms_norm %x weight(%norm) eps 1.0e-6
    : (tensor<?x128xbf16>, tensor<128xbf16>) -> tensor<?x128xbf16>
  %g = fuse.linear %n, %gate
    : (tensor<?x128xbf16>, tensor<256x128xbf16>) -> tensor<?x256xbf16>
  %u = fuse.linear %n, %up
    : (tensor<?x128xbf16>, tensor<256x128xbf16>) -> tensor<?x256xbf16>
  %a = fuse.activation silu %g : tensor<?x256xbf16> -> tensor<?x256xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x256xbf16>, tensor<?x256xbf16>) -> tensor<?x256xbf16>
  %d = fuse.linear %p, %down
    : (tensor<?x256xbf16>, tensor<128x256xbf16>) -> tensor<?x128xbf16>
  return %d : tensor<?x128xbf16>
}
