//===- StagePasses.td - Passes on graphs of stages ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_STAGEPASSES_TD
#define FUSE_TRANSFORMS_STAGEPASSES_TD

include "mlir/Pass/PassBase.td"

def FormStagesPass : Pass<"fuse-form-stages"> {
  let summary = "Write fused ops as graphs of stages";
  let description = [{
    Replaces each fused op by a `stage.graph` of the same operands and results.
    The layer ops of its decomposition become the content of stages: linears of
    one input are a `stage.product`, elementwise ops follow in its epilogue, and
    ops on whole rows are a `stage.rows`.

    A `fuse.group` with such members only has a graph, too. The pass refuses
    other ops with a remark of category `codegen`: a member that reads all rows
    or is no layer op, a weight that is dequantized before its product, and
    sums of blocks with scales.

    After this pass every fused op is an unmapped graph or was refused with a
    remark. `fuse-lower-stages` returns the layer ops of a graph.

    Example:

    ```mlir
    func.func @q(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                 %wq: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
      %q = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%wq)
             rounding(exact)
         : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>)
           -> tensor<?x64xbf16>
      return %q : tensor<?x64xbf16>
    }
    ```

    becomes

    ```mlir
    func.func @q(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                 %wq: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
      %q = stage.graph(%x, %w, %wq)
           : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>)
             -> tensor<?x64xbf16> {
      ^bb0(%a: tensor<?x64xbf16>, %b: tensor<64xbf16>, %c: tensor<64x64xbf16>):
        %0 = stage.rows(%a, %b)
             : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16> {
        ^bb0(%d: tensor<?x64xbf16>, %e: tensor<64xbf16>):
          %2 = fuse.rms_norm %d weight(%e) eps 1.0e-6
               : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
          stage.yield %2 : tensor<?x64xbf16>
        }
        %1 = stage.product %0 by(%c)
             : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16> {
        ^bb0(%f: tensor<?x64xf32>):
          %3 = stage.finish %f : (tensor<?x64xf32>) -> tensor<?x64xbf16>
          stage.yield %3 : tensor<?x64xbf16>
        }
        stage.yield %1 : tensor<?x64xbf16>
      }
      return %q : tensor<?x64xbf16>
    }
    ```
  }];
  let statistics = [
    Statistic<"numFormed", "graphs-formed", "Fused ops replaced by a graph">,
    Statistic<"numRefused", "graphs-refused", "Fused ops refused with a remark">
  ];
  let dependentDialects = ["::fuse::FuseDialect", "::stage::StageDialect"];
}

def LowerStagesPass : Pass<"fuse-lower-stages"> {
  let summary = "Replace graphs of stages by their layer ops";
  let description = [{
    Replaces each `stage.graph` by the layer ops of its stages. A product and
    its `stage.finish` become a `fuse.linear`. The result of a graph without
    K-slices is the decomposition of the fused op that it was formed from.

    A product with K-slices becomes one linear for each slice, with a result in
    f32. Residual adds in f32 add them in the order of the reduce, and a
    `stage.finish` scales, adds the bias and rounds. The result therefore has
    the bits that a kernel with this order has, as far as a target sums the
    products of a slice in one order.

    Every graph that verifies is lowered, mapped or not.
    `convert-fuse-to-linalg` does the same and lowers the layer ops as well.

    After this pass there is no graph. A `stage.finish` remains for each total
    of slices, and `convert-fuse-to-linalg` lowers it.

    Example: `fuse-opt block.mlir --fuse-form-stages --fuse-lower-stages`
  }];
  let statistics = [
    Statistic<"numLowered", "graphs-lowered", "Graphs replaced by layer ops">
  ];
  let dependentDialects = [
    "::fuse::FuseDialect", "::mlir::tensor::TensorDialect",
    "::stage::StageDialect"
  ];
}

def MapStagesPass : Pass<"fuse-map-stages"> {
  let summary = "Choose the mapping of each graph of stages";
  let description = [{
    Maps each unmapped `stage.graph` to the mma kernels of a GPU since sm_80:
    tiles, the depth of the pipeline, launches, and the places of results. The
    cost model is that of `fuse-select-schedules`. If it splits the last
    product, the product becomes one of K-slices and a `stage.reduce`. If the
    first product reads an operand, a `stage.rows` that copies rows precedes it,
    because kernels read tokens in packed order.

    A mapping in the text does not change. The pass verifies that its kernels
    exist, and fails otherwise. `convert-fuse-to-tile` emits what a mapping
    states.

    A graph that the mma kernels do not support stays unmapped, with a remark of
    category `codegen`. The portable path lowers it.

    After this pass a graph has a mapping or a remark.

    Example: `fuse-opt block.mlir --fuse-form-stages
    --fuse-map-stages='chip=sm_80 tokens=16 multiprocessors=108'`
  }];
  let options = [
    Option<"tokens", "tokens", "int64_t", /*default=*/"64",
           "Most tokens that a kernel of a graph with a dynamic number of "
           "tokens serves, 1 to 16384">,
    Option<"multiprocessors", "multiprocessors", "int64_t", /*default=*/"132",
           "Multiprocessors of the GPU, one resident block on each">,
    Option<"chip", "chip", "std::string", /*default=*/"\"sm_80\"",
           "GPU in assembler syntax">
  ];
  let statistics = [
    Statistic<"numMapped", "graphs-mapped", "Graphs with a new mapping">,
    Statistic<"numDeclined", "graphs-declined", "Graphs without kernels">
  ];
  let dependentDialects = ["::stage::StageDialect", "::tile::TileDialect"];
}

#endif // FUSE_TRANSFORMS_STAGEPASSES_TD
