//===- TilePlanAttrs.td - Plans of launches ----------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILEPLANATTRS_TD
#define TILE_IR_TILEPLANATTRS_TD

include "tile/IR/TileDialect.td"
include "mlir/IR/AttrTypeBase.td"

class Tile_PlanPart<string name, string mnem, list<Trait> traits = []>
    : AttrDef<Tile_Dialect, name, traits> {
  let mnemonic = mnem;
}

//===----------------------------------------------------------------------===//
// Arguments of kernels
//===----------------------------------------------------------------------===//

def Tile_OperandAttr : Tile_PlanPart<"Operand", "operand"> {
  let summary = "an argument that is the address of an input of the launch";
  let description = [{
    Example: `#tile.operand<0>`
  }];
  let parameters = (ins "int64_t":$index);
  let assemblyFormat = "`<` $index `>`";
}

def Tile_ResultAttr : Tile_PlanPart<"Result", "result"> {
  let summary = "an argument that is the address of an output of the launch";
  let description = [{
    Example: `#tile.result<0>`
  }];
  let parameters = (ins "int64_t":$index);
  let assemblyFormat = "`<` $index `>`";
}

def Tile_BoxAttr : Tile_PlanPart<"Box", "box"> {
  let summary = "a box of a packed matrix, and its elements in an operand";
  let description = [{
    The box begins at element `at` of the matrix and has `sizes` elements.
    Element `i` of the box is element `offset + sum(i * strides)` of operand
    `source` of the `#tile.packed`, counted in memory order.

    Example: the transpose of an operand of 8 x 16 elements,
    `#tile.box<source = 0, offset = 0, at = [0, 0], sizes = [16, 8],
    strides = [1, 16]>`
  }];
  let parameters = (ins
    "int64_t":$source,
    "int64_t":$offset,
    OptionalArrayRefParameter<"int64_t">:$at,
    OptionalArrayRefParameter<"int64_t">:$sizes,
    OptionalArrayRefParameter<"int64_t">:$strides
  );
  let assemblyFormat = [{
    `<` `source` `=` $source `,` `offset` `=` $offset `,` `at` `=` `[` $at `]`
    `,` `sizes` `=` `[` $sizes `]` `,` `strides` `=` `[` $strides `]` `>`
  }];
  let genVerifyDecl = 1;
}

def Tile_PackedAttr : Tile_PlanPart<"Packed", "packed"> {
  let summary = "an argument that is a packed copy of weights";
  let description = [{
    A host packs the inputs `operands` of the launch with a recipe before the
    first launch, into `tiles` x `steps` blocks of `bytes` in all.

    `views` is for matrices that are slices, transposes or concatenations of
    inputs. It has a list of `#tile.box` for each matrix, which fill the matrix
    without overlap. Without it, each operand is a matrix.

    Example: `#tile.packed<"rows_256" of [1], tiles = 1, steps = 1,
    bytes = 32768>`
  }];
  let parameters = (ins
    StringRefParameter<>:$recipe,
    ArrayRefParameter<"int64_t">:$operands,
    "int64_t":$tiles,
    "int64_t":$steps,
    "int64_t":$bytes,
    OptionalParameter<"::mlir::ArrayAttr">:$views
  );
  let assemblyFormat = [{
    `<` $recipe `of` ` ` `[` $operands `]` `,`
    struct($tiles, $steps, $bytes, $views) `>`
  }];
  let genVerifyDecl = 1;
}

def Tile_PlaceAttr : Tile_PlanPart<"Place", "place"> {
  let summary = "an argument that is an address in the workspace";
  let description = [{
    `offset` is in bytes. `rows`, `columns` and `element` describe a matrix of
    tokens at that place to readers of the plan; a host does not need them.

    Example: `#tile.place<offset = 1024>`
  }];
  let parameters = (ins
    "int64_t":$offset,
    DefaultValuedParameter<"int64_t", "0">:$rows,
    DefaultValuedParameter<"int64_t", "0">:$columns,
    OptionalParameter<"::mlir::Type">:$element
  );
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tile_TokenMapAttr : Tile_PlanPart<"TokenMap", "token_map"> {
  let summary = "an argument that is a tensor map of tokens in the workspace";
  let description = [{
    A matrix of `rows` x `columns` elements at byte `offset` of the workspace.
    A copy takes a box of `box_rows` x `box_columns`. `swizzle` is in bytes.

    Example: `#tile.token_map<offset = 1024, rows = 8, columns = 64,
    element = bf16, box_rows = 8, box_columns = 64, swizzle = 128>`
  }];
  let parameters = (ins
    "int64_t":$offset,
    "int64_t":$rows,
    "int64_t":$columns,
    "::mlir::Type":$element,
    "int64_t":$box_rows,
    "int64_t":$box_columns,
    "int64_t":$swizzle
  );
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tile_TokensAttr : Tile_PlanPart<"Tokens", "tokens"> {
  let summary = "an argument that is the number of tokens, an i32";
  let description = [{
    Example: `#tile.tokens`
  }];
}

def Tile_ScalarAttr : Tile_PlanPart<"Scalar", "scalar"> {
  let summary = "an argument that is a number, with its name";
  let description = [{
    A number that follows from static scales names them: it is the product of
    the scales `of`, rounded to f32 after each factor, or the reciprocal of the
    scale `over`. A host can thus launch the same kernel with other scales.

    Examples:

    - `#tile.scalar<"input" = 5.000000e-01 : f32>`
    - `#tile.scalar<"gate" = 5.000000e-01 : f32 of [2.000000e+00 : f32,
      2.500000e-01 : f32]>`
    - `#tile.scalar<"hidden" = 4.000000e+00 : f32 over 2.500000e-01 : f32>`
  }];
  let parameters = (ins
    StringRefParameter<>:$name,
    "::mlir::FloatAttr":$value,
    OptionalParameter<"::mlir::ArrayAttr">:$factors,
    OptionalParameter<"::mlir::FloatAttr">:$divisor
  );
  let assemblyFormat = [{
    `<` $name `=` $value (`of` $factors^)? (`over` $divisor^)? `>`
  }];
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Workspaces and plans
//===----------------------------------------------------------------------===//

def Tile_TokenMatrixAttr : Tile_PlanPart<"TokenMatrix", "token_matrix"> {
  let summary = "a matrix of a workspace with a row for each token";
  let description = [{
    Begins at byte `offset` of the workspace, and has rows of `row_bytes` bytes.
    The number of rows is the number of tokens, rounded up to a multiple of
    `multiple`.

    Example: `#tile.token_matrix<offset = 1024, row_bytes = 128,
    multiple = 128>`
  }];
  let parameters = (ins
    "int64_t":$offset, "int64_t":$row_bytes, "int64_t":$multiple
  );
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tile_WorkspaceAttr : Tile_PlanPart<"Workspace", "workspace"> {
  let summary = "the workspace of a launch";
  let description = [{
    `bytes` is enough for the largest number of tokens. The first `zeroed` bytes
    are zero before the first launch, and each launch leaves them as the next
    one needs them. `matrices` are the `#tile.token_matrix` at the end, which
    fewer tokens need less of.

    Example: `#tile.workspace<bytes = 3072, zeroed = 1024>`
  }];
  let parameters = (ins
    "int64_t":$bytes,
    DefaultValuedParameter<"int64_t", "0">:$zeroed,
    OptionalParameter<"::mlir::ArrayAttr">:$matrices
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Tile_PlanAttr : Tile_PlanPart<"Plan", "plan"> {
  let summary = "what a host needs to launch a kernel";
  let description = [{
    - `blocks`, `threads`, `shared_bytes`, `cluster`, `cooperative`: the launch
      shape, equal to that of the `tile.kernel`.
    - `dependent`: the launch may start during the tail of the previous one
      (programmatic dependent launch).
    - `carveout`: shared memory that the kernel prefers to L1, in percent.
    - `max_tokens`: the largest number of tokens that the kernel serves.
    - `workspace`: the layout of the workspace.
    - `shares_workspace`: the launch has the workspace of the previous launch,
      and belongs to the same op.
    - `arguments`: one attribute for each argument of the kernel:
      `#tile.operand`, `#tile.result`, `#tile.packed`, `#tile.place`,
      `#tile.token_map`, `#tile.tokens` or `#tile.scalar`.

    Numbers are less than 2^48.

    Example: `#tile.plan<blocks = 4, threads = 256, max_tokens = 1024,
    arguments = [#tile.operand<0>, #tile.result<0>, #tile.tokens]>`
  }];
  let parameters = (ins
    "int64_t":$blocks,
    "int64_t":$threads,
    DefaultValuedParameter<"int64_t", "0">:$shared_bytes,
    DefaultValuedParameter<"int64_t", "1">:$cluster,
    DefaultValuedParameter<"bool", "false">:$cooperative,
    DefaultValuedParameter<"bool", "false">:$dependent,
    OptionalParameter<"::std::optional<int64_t>">:$carveout,
    "int64_t":$max_tokens,
    OptionalParameter<"::tile::WorkspaceAttr">:$workspace,
    DefaultValuedParameter<"bool", "false">:$shares_workspace,
    "::mlir::ArrayAttr":$arguments
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of the workspace, and of those that are zeroed.
    int64_t getWorkspaceBytes() const;
    int64_t getZeroedBytes() const;
    /// The matrices with a row for each token.
    ::llvm::SmallVector<::tile::TokenMatrixAttr> getMatrices() const;
  }];
}

#endif // TILE_IR_TILEPLANATTRS_TD
