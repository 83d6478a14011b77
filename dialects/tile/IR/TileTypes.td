//===- TileTypes.td - Types of the tile dialect ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILETYPES_TD
#define TILE_IR_TILETYPES_TD

include "tile/IR/TileAttrs.td"
include "mlir/IR/AttrTypeBase.td"

class Tile_Type<string name, string typeMnemonic>
    : TypeDef<Tile_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Tile_Buffer : Tile_Type<"Buffer", "buffer"> {
  let summary = "flat array of elements in global or shared memory";
  let description = [{
    `!tile.buffer<bf16>` is global memory, `!tile.buffer<f32, shared>` shared
    memory. Lowered to a pointer.
  }];
  let parameters = (ins
    "::mlir::Type":$elementType,
    DefaultValuedParameter<"::tile::Memory", "::tile::Memory::Global">:$memory
  );
  let assemblyFormat = "`<` $elementType (`,` $memory^)? `>`";
}

def Tile_TensorMap : Tile_Type<"TensorMap", "tensor_map"> {
  let summary = "descriptor of a two-dimensional tensor for the copy engine";
  let description = [{
    A kernel argument of 128 bytes that the host encodes with
    `cuTensorMapEncodeTiled`: shape, box and swizzle of a tensor. Lowered to a
    pointer to a grid constant.
  }];
}

def Tile_Ring : Tile_Type<"Ring", "ring"> {
  let summary = "ring of stages in shared memory";
  let description = [{
    `!tile.ring<6 x 32768>`: six stages of 32768 bytes, each with a full and an
    empty mbarrier. Lowered to two pointers (stages, mbarriers). A ring of
    stages with 0 bytes passes turns: an acquired stage is full at once.
  }];
  let parameters = (ins "int64_t":$stages, "int64_t":$bytes);
  let assemblyFormat = "`<` $stages `x` $bytes `>`";
  let genVerifyDecl = 1;
}

def Tile_Stage : Tile_Type<"Stage", "stage"> {
  let summary = "one stage of a ring";
  let description = [{
    Lowered to two pointers (bytes, full mbarrier).
  }];
  let parameters = (ins "int64_t":$bytes);
  let assemblyFormat = "`<` $bytes `>`";
}

def Tile_Shared : Tile_Type<"Shared", "shared"> {
  let summary = "operand of a matrix product in shared memory";
  let description = [{
    `!tile.shared<64x128xf8E4M3FN, swizzle 128>`: rows of 128 bytes, row-major
    (K is the fastest dimension). The 16-byte chunk c of row r is at chunk c xor
    (r mod 8). Tensor copies with a 128-byte swizzle and packed blocks have this
    layout. Lowered to a 64-bit matrix descriptor.
  }];
  let parameters = (ins
    "int64_t":$rows, "int64_t":$columns, "::mlir::Type":$elementType,
    "int64_t":$swizzle
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tile_Acc : Tile_Type<"Acc", "acc"> {
  let summary = "accumulator of one warpgroup";
  let description = [{
    `!tile.acc<64x56xf32>`: thread t of the warpgroup (warp w = t / 32, lane
    l = t mod 32) holds rows `16w + l / 4` and that plus 8, columns
    `8g + 2 (l mod 4) + b` for every g and b in {0, 1}. Lowered to one f32 per
    register, register `4g + 2h + b` for row half h.
  }];
  let parameters = (ins
    "int64_t":$rows, "int64_t":$columns, "::mlir::Type":$elementType
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Number of registers of a thread.
    int64_t getNumRegisters() const { return getColumns() / 2; }
  }];
}

def Tile_Semaphore : Tile_Type<"Semaphore", "semaphore"> {
  let summary = "semaphore in global memory that counts arrivals";
  let description = [{
    A semaphore has a separate 128-byte line. Lowered to a pointer.
  }];
}

#endif // TILE_IR_TILETYPES_TD
