//===- GPUPasses.td - Passes of the portable GPU path ------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_GPUPASSES_TD
#define FUSE_TRANSFORMS_GPUPASSES_TD

include "mlir/Pass/PassBase.td"

def AttachLaunchPlanPass : Pass<"fuse-attach-launch-plan", "::mlir::ModuleOp"> {
  let summary = "Record launches so that a host needs no compiler";
  let description = [{
    Attaches `fuse.launch_plan` to every public function and every other one
    that launches kernels. The plan describes the work of the host, with all
    sizes as affine maps of symbols:

    - `symbols`: pairs of argument and dimension. These are sizes that the host
      reads from the shapes of its arguments; `s0` is the first pair;
    - `workspace`: the size in bytes of every intermediate buffer. Buffers must
      be aligned to 256 bytes;
    - `constants`: if there are any, the `memref.global` ops whose contents the
      host uploads before the first launch;
    - `launches`: in order, the `kernel`, its `grid` (one map with three
      results), `block`, and `args`. An argument is `"arg<i>"`, the address of a
      buffer argument of the function, or its value if it is a scalar;
      `"ws<i>"`, the address of a workspace buffer; a map, which is a 64-bit
      integer; `"const<i>"`, the address of a constant; a number; or a scalar
      that follows from static scales, passed by value: `{of, value}`, the
      product of the scales `of`, or `{over, value}`, the reciprocal of a scale.
      The function has an argument with `fuse.scalar` for each. `shared` is
      the number of bytes of dynamic shared memory, if any. `when`, if there is
      one, is the condition of a launch in an `scf.if`: a list of clauses, each
      a list of comparisons of two sizes. The launch is made if all comparisons
      of a clause hold.

    A plan with scheduled kernels has their launches in the same list, and in
    addition:

    - `max_tokens`, `tokens`: the largest number of tokens, and the numbers that
      it limits. The first of these selects a range;
    - `ranges`: instead of `launches` and `workspace`, which each range has for
      up to `upto` tokens. An op whose number of tokens is another one uses the
      kernels of its last range, with a remark;
    - `packed`: weights to pack before the first launch;
    - `zeroed`: bytes of the first buffer, which are zero at first.

    Arguments of these kernels may also be `{packed = i}`; `{buffer, offset}`,
    a place in a buffer; the same with `map`, a tensor map; and `{size, bytes}`,
    a size as an integer of that many bytes. Their launches also have
    `cooperative`, `dependent` (whether the kernel may begin before the previous
    one ends), `cluster` and `carveout`.

    `fuse.equal_sizes` of a function lists sizes of arguments that are equal.
    They have one symbol.

    Function arguments with `fuse.result` are results, which the kernels write.
    A launch with a zero in its grid is skipped. All launches run in order on
    one stream.

    The pass fails if a size is not an expression of argument sizes, if a launch
    is under control flow other than `scf.if` on sizes, or if a packed weight is
    not an argument.

    After this pass the plan has everything that a host needs; the body of the
    function is no longer needed.

    Example: for a function that doubles `n` numbers, `fuse-opt scale.mlir
    --convert-linalg-to-gpu --fuse-attach-launch-plan` produces

    ```mlir
    func.func @scale(%x: memref<?xf32>, %y: memref<?xf32>) attributes {
      fuse.launch_plan = {
        launches = [{args = ["arg0", "arg1", affine_map<()[s0] -> (s0)>],
                     block = array<i64: 256, 1, 1>,
                     grid = affine_map<()[s0] -> (s0 ceildiv 256, 1, 1)>,
                     kernel = @kernels::@map_f32_f32} ],
        symbols = [array<i64: 0, 0>], workspace = []}} {
      return
    }
    ```
  }];
  let statistics = [
    Statistic<"numLaunches", "launches", "Launches written down">
  ];
  let dependentDialects = ["::mlir::affine::AffineDialect"];
}

def FlattenControlFlowPass
    : Pass<"fuse-flatten-control-flow", "::mlir::ModuleOp"> {
  let summary = "Unroll loops whose number of iterations is known";
  let description = [{
    A launch plan is a list of launches. The pass unrolls every `scf.for` with
    constant bounds, the outermost first, and folds the `scf.if` and
    `scf.index_switch` ops whose conditions become constant. Loops in the body
    of a linalg op belong to a kernel and stay.

    An `scf.if` whose condition compares sizes of tensors stays: its launches
    get that condition. Both branches then write their results to one tensor.

    The pass fails on other control flow and names its op: on loops with another
    number of iterations, on other conditions that are not constants, on
    branches with results of different sizes, on functions of several blocks,
    and on more than 1,024 iterations in a function.

    With `unroll-only`, other control flow stays, for a later run without the
    option. Schedules are then selected for the ops of each iteration.

    After this pass every function is a list of ops without control flow but
    `scf.if` on sizes.

    Example:

    ```mlir
    %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) -> tensor<4xf32> {
      %s = arith.addf %h, %h : tensor<4xf32>
      scf.yield %s : tensor<4xf32>
    }
    ```

    becomes

    ```mlir
    %0 = arith.addf %x, %x : tensor<4xf32>
    %r = arith.addf %0, %0 : tensor<4xf32>
    ```
  }];
  let options = [
    Option<"unrollOnly", "unroll-only", "bool", /*default=*/"false",
           "Leave other control flow as it is">
  ];
  let statistics = [
    Statistic<"numUnrolled", "loops-unrolled", "Loops unrolled">,
    Statistic<"numJoined", "results-joined",
              "Results of branches that are written to one tensor">
  ];
  let dependentDialects = [
    "::mlir::affine::AffineDialect",
    "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

def ExpandMathPass : Pass<"fuse-expand-math"> {
  let summary = "Replace math functions by arithmetic";
  let description = [{
    Replaces functions such as exp, tanh and erf by polynomials and rational
    functions in f32, so that no library (libdevice, libm) is needed at run
    time. Other floating-point types are computed in f32 and rounded once.

    The approximations are MLIR's. The tests hold silu, gelu and gelu_tanh of
    f32 values `x`, which use exp, erf and tanh, to an error of `3e-7 |x|`.
    1/sqrt is a division by the correctly rounded root. `arith.remf` becomes a
    long division of integers and is exact.

    The pass fails on functions without an expansion, such as those of f64, and
    on functions of whole tensors, which `convert-elementwise-to-linalg` turns
    into functions of elements.

    After this pass the only remaining math functions are one instruction or a
    short exact sequence on every target: sqrt, fma, abs, rounding, copysign,
    tests for NaN and infinity, and bit counts.

    Example: `math.rsqrt %x` becomes `1.0 / math.sqrt %x`.
  }];
  let statistics = [
    Statistic<"numExpanded", "functions-expanded", "Functions of math replaced">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def MergeElementwisePass : Pass<"fuse-merge-elementwise"> {
  let summary = "Merge elementwise linalg ops into their only user";
  let description = [{
    Merges a `linalg.generic` without reductions into the one op that uses its
    result. Conversions stay where they are, so every rounding is kept.

    A user with reductions that reads the result more than once (a linear)
    repeats what is merged into it. There the pass declines when the producer
    divides or calls a function of math, or reads more bits per element than
    it writes; converting or dequantizing a weight is merged, an activation is
    not.

    A `linalg.fill` with several users is repeated for each of them. So is a
    `linalg.transpose`, which becomes an indexing map of each user. A constant
    of one value that initializes a result becomes a fill.

    After this pass every elementwise chain is one op.

    Example: `y = relu(x + b)` is two ops, and the sum is merged into the
    activation. In `z = relu(x) W`, the cheap activation is merged into the
    linear. In `z = tanh(x) W`, nothing is merged, because tanh is expensive.
  }];
  let statistics = [
    Statistic<"numMerged", "ops-merged", "Producers merged into their user">
  ];
  let dependentDialects = [
    "::mlir::affine::AffineDialect",
    "::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

def ResultsToArgumentsPass
    : Pass<"fuse-results-to-arguments", "::mlir::ModuleOp"> {
  let summary = "Write the results of functions into their arguments";
  let description = [{
    Adds one buffer argument with `fuse.result` to every function for each
    tensor result, and writes the result into it. Its sizes may be dynamic,
    because the caller knows them. Tensor arguments become read-only, so that
    bufferization never writes to an input.

    The pass fails on calls (inline them first), on functions with more than one
    block and on results that are not ranked tensors.

    After this pass functions with a body return nothing.

    Example:

    ```mlir
    func.func @id(%x: tensor<?xf32>) -> tensor<?xf32> {
      return %x : tensor<?xf32>
    }
    ```

    becomes

    ```mlir
    func.func @id(%x: tensor<?xf32> {bufferization.writable = false},
                  %y: memref<?xf32> {fuse.result}) {
      bufferization.materialize_in_destination %x in restrict writable %y
        : (tensor<?xf32>, memref<?xf32>) -> ()
      return
    }
    ```
  }];
  let statistics = [
    Statistic<"numResults", "results", "Results that became arguments">
  ];
  let dependentDialects = [
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::memref::MemRefDialect"
  ];
}

#endif // FUSE_TRANSFORMS_GPUPASSES_TD
