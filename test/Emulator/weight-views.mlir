// RUN: fuse-run %s --verify --chip=sm_90a --entry=merged --dim=1,9,200 \
// RUN:   | FileCheck %s
// RUN: fuse-run %s --verify --chip=sm_90a --entry=flax --dim=1,9,200 \
// RUN:   | FileCheck %s
// RUN: fuse-run %s --verify --chip=sm_90a --entry=parts --dim=9 \
// RUN:   | FileCheck %s
// RUN: fuse-run %s --verify --chip=sm_90a --entry=f8 --dim=9 | FileCheck %s
// RUN: fuse-compile %s --chip=sm_90a --cpu=none --tokens=16 --assemble=never \
// RUN:   -o %t.fuse
// RUN: fuse-artifact info %t.fuse | FileCheck %s --check-prefix=INFO

// The runtime packs slices, transposes and concatenations of arguments when
// they are bound.

// CHECK: V2 scheduled on fuse emulator ok {{.*}} values checked by contract, the same bits 3 times

// INFO:       format 8
// INFO-LABEL: @merged
// INFO:       packed gate_up_256 of parts of arguments [1],
// INFO-NEXT:  packed rows_256 of arguments [2],
func.func @merged(%x: tensor<?x128xbf16>, %w: tensor<384x128xbf16>,
                  %d: tensor<128x192xbf16>) -> tensor<?x128xbf16> {
  %g = tensor.extract_slice %w[0, 0] [192, 128] [1, 1]
    : tensor<384x128xbf16> to tensor<192x128xbf16>
  %u = tensor.extract_slice %w[192, 0] [192, 128] [1, 1]
    : tensor<384x128xbf16> to tensor<192x128xbf16>
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
       : (tensor<?x128xbf16>, tensor<192x128xbf16>, tensor<192x128xbf16>,
          tensor<128x192xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// Weights are stored as [in, out].

func.func @flax(%x: tensor<?x128xbf16>, %w1: tensor<128x192xbf16>,
                %b1: tensor<192xbf16>, %w2: tensor<192x128xbf16>,
                %b2: tensor<128xbf16>) -> tensor<?x128xbf16> {
  %e1 = tensor.empty() : tensor<192x128xbf16>
  %t1 = linalg.transpose ins(%w1 : tensor<128x192xbf16>)
    outs(%e1 : tensor<192x128xbf16>) permutation = [1, 0]
  %e2 = tensor.empty() : tensor<128x192xbf16>
  %t2 = linalg.transpose ins(%w2 : tensor<192x128xbf16>)
    outs(%e2 : tensor<128x192xbf16>) permutation = [1, 0]
  %y = fuse.mlp %x up(%t1 bias %b1) down(%t2 bias %b2) act(gelu_tanh)
         rounding(exact)
       : (tensor<?x128xbf16>, tensor<192x128xbf16>, tensor<192xbf16>,
          tensor<128x192xbf16>, tensor<128xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// Projections from every other row of one weight, and from two weights.

func.func @parts(%x: tensor<?x128xbf16>, %w: tensor<96x128xbf16>,
                 %b: tensor<96xbf16>, %k: tensor<32x128xbf16>)
    -> (tensor<?x48xbf16>, tensor<?x64xbf16>) {
  %q = tensor.extract_slice %w[1, 0] [48, 128] [2, 1]
    : tensor<96x128xbf16> to tensor<48x128xbf16>
  %bq = tensor.extract_slice %b[1] [48] [2]
    : tensor<96xbf16> to tensor<48xbf16>
  %first = tensor.extract_slice %w[0, 0] [32, 128] [1, 1]
    : tensor<96x128xbf16> to tensor<32x128xbf16>
  %kv = tensor.concat dim(0) %first, %k
    : (tensor<32x128xbf16>, tensor<32x128xbf16>) -> tensor<64x128xbf16>
  %y:2 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q bias %bq, %kv)
           rounding(exact)
         : (tensor<?x128xbf16>, tensor<48x128xbf16>, tensor<64x128xbf16>,
            tensor<48xbf16>) -> (tensor<?x48xbf16>, tensor<?x64xbf16>)
  return %y#0, %y#1 : tensor<?x48xbf16>, tensor<?x64xbf16>
}

func.func @f8(%x: tensor<?x128xbf16>, %w: tensor<128x384xf8E4M3FN>,
              %d: tensor<128x192xf8E4M3FN>) -> tensor<?x128xbf16> {
  %e = tensor.empty() : tensor<384x128xf8E4M3FN>
  %t = linalg.transpose ins(%w : tensor<128x384xf8E4M3FN>)
    outs(%e : tensor<384x128xf8E4M3FN>) permutation = [1, 0]
  %g = tensor.extract_slice %t[0, 0] [192, 128] [1, 1]
    : tensor<384x128xf8E4M3FN> to tensor<192x128xf8E4M3FN>
  %u = tensor.extract_slice %t[192, 0] [192, 128] [1, 1]
    : tensor<384x128xf8E4M3FN> to tensor<192x128xf8E4M3FN>
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
       : (tensor<?x128xbf16>, tensor<192x128xf8E4M3FN>,
          tensor<192x128xf8E4M3FN>, tensor<128x192xf8E4M3FN>)
         -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
