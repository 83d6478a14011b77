// RUN: fuse-opt %s --fuse-repair-scales | FileCheck %s --check-prefix=KEEP
// RUN: fuse-opt %s --fuse-repair-scales --remarks-filter=quant \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KEEP-REMARK
// RUN: fuse-opt %s --fuse-repair-scales=unequal=requantize \
// RUN:   | FileCheck %s --check-prefix=REQUANTIZE
// RUN: fuse-opt %s --fuse-repair-scales=unequal=requantize \
// RUN:   --fuse-form-kernels | FileCheck %s --check-prefix=FORMED
// RUN: fuse-opt %s --fuse-repair-scales=unequal=requantize \
// RUN:   --remarks-filter=quant --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: not fuse-opt %s --fuse-repair-scales=unequal=refuse 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REFUSE
// RUN: not fuse-opt %s --fuse-repair-scales=unequal=guess 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN
// RUN: not fuse-opt %s --fuse-repair-scales=inputs=guess 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN-INPUTS
// RUN: fuse-opt %s --fuse-repair-scales=inputs=largest \
// RUN:   | FileCheck %s --check-prefix=LARGEST
// RUN: fuse-opt %s --fuse-repair-scales=inputs=largest \
// RUN:   --remarks-filter=quant --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=INPUT-REMARK
// RUN: not fuse-opt %s --fuse-repair-scales=inputs=refuse 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REFUSE-INPUTS

// UNKNOWN-INPUTS: error: unknown value 'guess' of inputs; expected one of
// UNKNOWN-INPUTS-SAME: keep, largest, refuse

// UNKNOWN: error: unknown value 'guess' of unequal; expected one of keep,
// UNKNOWN-SAME: requantize, refuse

// KEEP-REMARK: [Analysis] unequal-scales | Category:quant
// KEEP-REMARK-SAME: gate and up keep their own scales; ratio 2.00
// REMARK: [Passed] unequal-scales | Category:quant
// REMARK-SAME: AbsoluteErrorBound=4.882812e-04
// REMARK-SAME: Projection=up
// REMARK-SAME: Ratio=2.000000e+00
// REMARK-SAME: RelativeErrorBound=6.250000e-02
// REFUSE: error: 'fuse.gated_mul' op gate has scale 5.000000e-01, up has
// REFUSE-SAME: 2.500000e-01; unequal=keep or unequal=requantize

// KEEP-REMARK: [Analysis] unequal-input-scales | Category:quant
// KEEP-REMARK-SAME: gate and up quantize their input differently; ratio 1.5
// INPUT-REMARK: [Passed] unequal-input-scales | Category:quant
// INPUT-REMARK-SAME: AbsoluteErrorBound=3.750000e-01
// INPUT-REMARK-SAME: Projection=gate
// INPUT-REMARK-SAME: Ratio=1.500000e+00
// INPUT-REMARK-SAME: RelativeErrorBound=0.0
// REFUSE-INPUTS: error: 'fuse.gated_mul' op for its input gate has scale
// REFUSE-INPUTS-SAME: 5.000000e-01, up has 7.500000e-01; inputs=keep or
// REFUSE-INPUTS-SAME: inputs=largest would accept them

// KEEP-LABEL: func @unequal
// KEEP-NOT: fuse.dequantize
// REQUANTIZE-LABEL: func @unequal
// REQUANTIZE: fuse.linear %{{.*}}, %arg1 scales(1.0, 0.5)
// REQUANTIZE: %[[REAL:.*]] = fuse.dequantize %arg2 scale 0.25
// REQUANTIZE-SAME: tensor<16x8xf32>
// REQUANTIZE: %[[STORED:.*]] = fuse.quantize %[[REAL]] scale 0.5
// REQUANTIZE: fuse.linear %{{.*}}, %[[STORED]] scales(1.0, 0.5)
// FORMED-LABEL: func @unequal
// FORMED: fuse.gated_mlp %arg0 gate(%arg1) up(%{{.*}}) down(%arg3)
// FORMED-SAME: gate = 0.5, up = 0.5
func.func @unequal(%x: tensor<?x8xbf16>, %wg: tensor<16x8xf8E4M3FN>,
                   %wu: tensor<16x8xf8E4M3FN>, %wd: tensor<8x16xf8E4M3FN>)
    -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 1.0
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %g = fuse.linear %q, %wg scales(1.0, 0.5)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %q, %wu scales(1.0, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 1.0
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %d = fuse.linear %h, %wd scales(1.0, 0.5)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// Equal scales, in either operand order, need nothing.

// REQUANTIZE-LABEL: func @no_equal
// REQUANTIZE-NOT: fuse.dequantize
func.func @no_equal(%q: tensor<?x8xi8>, %w: tensor<16x8xi8>)
    -> tensor<?x16xbf16> {
  %g = fuse.linear %q, %w scales(1.0, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %q, %w scales(1.0, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %u, %a
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  return %p : tensor<?x16xbf16>
}

// Each projection quantizes the input for itself: the one with the larger
// scale serves both, and stands where the first of them stood.

// LARGEST-LABEL: func @unequal_inputs
// LARGEST-SAME: %[[X:.*]]: tensor<?x8xbf16>
// LARGEST-NEXT: %[[Q:.*]] = fuse.quantize %[[X]] scale 0.75
// LARGEST-NEXT: fuse.linear %[[Q]], %{{.*}} scales(0.75, 0.5)
// LARGEST-NOT: fuse.quantize
// LARGEST: fuse.linear %[[Q]], %{{.*}} scales(0.75, 0.5)
func.func @unequal_inputs(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>)
    -> tensor<?x16xbf16> {
  %q1 = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %g = fuse.linear %q1, %w scales(0.5, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %q2 = fuse.quantize %x scale 0.75 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q2, %w scales(0.75, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  return %p : tensor<?x16xbf16>
}
