//===- TileLaunchOps.td - Launches in host code ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILELAUNCHOPS_TD
#define TILE_IR_TILELAUNCHOPS_TD

include "tile/IR/TileAttrs.td"
include "tile/IR/TileKernelOps.td"
include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"

/// The methods that bufferization of a destination-style op needs.
def Tile_BufferizableDestination : DeclareOpInterfaceMethods<
    BufferizableOpInterface, [
      "bufferize", "bufferizesToMemoryRead", "bufferizesToMemoryWrite",
      "getAliasingValues"]>;

def Tile_TensorOrBuffer : AnyTypeOf<[AnyRankedTensor, AnyMemRef]>;

def Tile_LaunchOp : Tile_Op<"launch", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    Tile_BufferizableDestination]> {
  let summary = "Launch of a kernel, in host code";
  let description = [{
    Writes to `outs`, which are tensors or buffers without strides. The first
    input has one row per token. `plan` is the data that a host needs to launch
    the kernel. The launches of one op follow each other: the first one has the
    workspace that the others share, each takes the outputs of the previous one,
    and the results are those of the last one.

    Bufferization replaces a launch on tensors by one on buffers.
    `fuse-attach-launch-plan` then writes it into the plan of its function.

    Example:

    ```mlir
    %y = tile.launch @kernels::@scale
      ins(%x : tensor<?x64xbf16>) outs(%init : tensor<?x64xbf16>)
      plan <blocks = 4, threads = 256, max_tokens = 1024,
            arguments = [#tile.operand<0>, #tile.result<0>, #tile.tokens]>
      -> tensor<?x64xbf16>
    ```
  }];
  let arguments = (ins
    SymbolRefAttr:$kernel,
    Variadic<Tile_TensorOrBuffer>:$inputs,
    Variadic<Tile_TensorOrBuffer>:$inits,
    OptionalAttr<Tile_PlanAttr>:$plan
  );
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $kernel `ins` `(` ($inputs^ `:` type($inputs))? `)`
    `outs` `(` ($inits^ `:` type($inits))? `)` (`plan` $plan^)? attr-dict
    (`->` type($outputs)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getInitsMutable();
    }
    /// Whether the launch belongs to the op of the previous launch.
    bool sharesWorkspace() {
      return getPlan() && getPlan()->getSharesWorkspace();
    }
  }];
}

def Tile_DispatchOp : Tile_Op<"dispatch", [
    DestinationStyleOpInterface, RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<BufferizableOpInterface, [
      "bufferize", "bufferizesToMemoryRead", "bufferizesToMemoryWrite",
      "getAliasingValues", "getBufferType", "isWritable", "verifyAnalysis"]>]> {
  let summary = "Launches for ranges of the number of tokens";
  let description = [{
    The host runs the first region whose bound is not less than the number of
    tokens. That is the number of rows of the first operand: the product of all
    sizes except the last. Each range begins after the bound of the previous
    one, so ranges have neither gaps nor overlaps. The caller must not pass more
    tokens than the last bound. A region contains the launches of its range. On
    tensors it has an argument for each output, which its launches write to, and
    yields the results. On buffers it has none, and its launches write to the
    buffers outside.

    Example:

    ```mlir
    %y = tile.dispatch %x outs(%init)
        : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16> {
      upto 8 {
      ^bb0(%out: tensor<?x64xbf16>):
        %0 = tile.launch @kernels::@few
          ins(%x, %w : tensor<?x64xbf16>, tensor<64x64xbf16>)
          outs(%out : tensor<?x64xbf16>) -> tensor<?x64xbf16>
        tile.yield %0 : tensor<?x64xbf16>
      }
      upto 16384 {
      ^bb0(%out: tensor<?x64xbf16>):
        %0 = tile.launch @kernels::@many
          ins(%x, %w : tensor<?x64xbf16>, tensor<64x64xbf16>)
          outs(%out : tensor<?x64xbf16>) -> tensor<?x64xbf16>
        tile.yield %0 : tensor<?x64xbf16>
      }
    }
    ```
  }];
  let arguments = (ins
    Tile_TensorOrBuffer:$tokens,
    Variadic<Tile_TensorOrBuffer>:$inits,
    DenseI64ArrayAttr:$bounds
  );
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region VariadicRegion<SizedRegion<1>>:$ranges);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getInitsMutable();
    }
  }];
}

def Tile_YieldOp : Tile_Op<"yield", [
    Pure, Terminator, ReturnLike, HasParent<"DispatchOp">,
    DeclareOpInterfaceMethods<BufferizableOpInterface, [
      "bufferize", "bufferizesToMemoryRead", "bufferizesToMemoryWrite",
      "getAliasingValues", "mustBufferizeInPlace"]>]> {
  let summary = "Results of the launches of a range";
  let description = [{
    Example: `tile.yield %0 : tensor<?x64xbf16>`
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // TILE_IR_TILELAUNCHOPS_TD
