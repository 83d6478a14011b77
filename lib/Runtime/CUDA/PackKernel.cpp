//===- PackKernel.cpp - Pack weights on the device ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/CUDA/PackKernel.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Packing.h"

using namespace fuse::runtime;
using namespace fuse::runtime::cuda;

/// Threads in a block. Eight threads copy the chunks of one row and step.
static constexpr unsigned kThreads = 256;
static constexpr uint64_t kChunkBytes = 16;

/// Written by hand, because this library contains no compiler. Thread i of
/// fuse_pack_tiles copies chunk c of step s of row p of tile t, where
/// i = ((t * steps + s) * 256 + p) * 8 + c. Packing.h describes the layout, and
/// the names are those of Packing.cpp. Thread i of fuse_gather_box copies
/// element i of a box.
static const char *const kText = R"ptx(.version 7.0
.target sm_70
.address_size 64

.visible .entry fuse_pack_tiles(
  .param .u64 output,
  .param .u64 matrix0,
  .param .u64 matrix1,
  .param .u32 rows,
  .param .u32 row_bytes,
  .param .u32 steps,
  .param .u32 tiles,
  .param .u32 first,
  .param .u32 is_pair
)
{
  .reg .pred %is_pair, %past, %up;
  .reg .b32 %i, %t, %c, %p, %s, %n, %r, %m, %half, %lr, %warp, %group;
  .reg .b32 %rows, %bytes, %offset, %w0, %w1, %w2, %w3;
  .reg .b64 %from, %other, %to, %wide, %at;

  mov.u32 %i, %ctaid.x;
  mov.u32 %t, %tid.x;
  and.b32 %c, %t, 7;
  shr.u32 %t, %t, 3;
  and.b32 %p, %i, 7;
  shl.b32 %p, %p, 5;
  add.u32 %p, %p, %t;
  shr.u32 %i, %i, 3;
  ld.param.u32 %n, [steps];
  div.u32 %t, %i, %n;
  rem.u32 %s, %i, %n;

  shr.u32 %group, %p, 7;
  shr.u32 %m, %p, 6;
  and.b32 %m, %m, 1;
  shr.u32 %warp, %p, 4;
  and.b32 %warp, %warp, 3;
  shr.u32 %half, %p, 3;
  and.b32 %half, %half, 1;
  and.b32 %lr, %p, 7;

  ld.param.u32 %n, [is_pair];
  setp.ne.u32 %is_pair, %n, 0;
  @%is_pair bra PAIR;
  shl.b32 %r, %group, 7;
  shl.b32 %n, %warp, 5;
  add.u32 %r, %r, %n;
  shl.b32 %n, %lr, 2;
  add.u32 %r, %r, %n;
  shl.b32 %n, %m, 1;
  add.u32 %r, %r, %n;
  add.u32 %r, %r, %half;
  shl.b32 %n, %t, 8;
  add.u32 %r, %r, %n;
  bra SOURCE;
PAIR:
  shl.b32 %r, %group, 6;
  shr.u32 %n, %lr, 1;
  shl.b32 %n, %n, 4;
  add.u32 %r, %r, %n;
  shl.b32 %n, %warp, 2;
  add.u32 %r, %r, %n;
  and.b32 %n, %lr, 1;
  shl.b32 %n, %n, 1;
  add.u32 %r, %r, %n;
  add.u32 %r, %r, %m;
  shl.b32 %n, %t, 7;
  add.u32 %r, %r, %n;

SOURCE:
  mov.u32 %w0, 0;
  mov.u32 %w1, 0;
  mov.u32 %w2, 0;
  mov.u32 %w3, 0;
  ld.param.u32 %rows, [rows];
  ld.param.u32 %bytes, [row_bytes];
  shl.b32 %offset, %s, 7;
  shl.b32 %n, %c, 4;
  add.u32 %offset, %offset, %n;
  setp.ge.u32 %past, %r, %rows;
  @%past bra STORE;
  setp.ge.u32 %past, %offset, %bytes;
  @%past bra STORE;
  ld.param.u64 %from, [matrix0];
  ld.param.u64 %other, [matrix1];
  setp.ne.u32 %up, %half, 0;
  and.pred %up, %up, %is_pair;
  selp.b64 %from, %other, %from, %up;
  cvta.to.global.u64 %from, %from;
  mul.wide.u32 %wide, %r, %bytes;
  add.u64 %from, %from, %wide;
  cvt.u64.u32 %at, %offset;
  add.u64 %from, %from, %at;
  ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%from];

STORE:
  ld.param.u32 %n, [tiles];
  mul.wide.u32 %at, %s, %n;
  ld.param.u32 %n, [first];
  add.u32 %n, %n, %t;
  cvt.u64.u32 %wide, %n;
  add.u64 %at, %at, %wide;
  shl.b64 %at, %at, 8;
  cvt.u64.u32 %wide, %p;
  add.u64 %at, %at, %wide;
  shl.b64 %at, %at, 7;
  xor.b32 %n, %c, %lr;
  shl.b32 %n, %n, 4;
  cvt.u64.u32 %wide, %n;
  add.u64 %at, %at, %wide;
  ld.param.u64 %to, [output];
  cvta.to.global.u64 %to, %to;
  add.u64 %to, %to, %at;
  st.global.v4.b32 [%to], {%w0, %w1, %w2, %w3};
  ret;
}

.visible .entry fuse_gather_box(
  .param .u64 output,
  .param .u64 source,
  .param .u64 elements,
  .param .u64 columns,
  .param .u64 pitch,
  .param .u64 row_stride,
  .param .u64 column_stride,
  .param .u32 bytes
)
{
  .reg .pred %past, %is;
  .reg .b16 %h;
  .reg .b32 %i, %t, %bytes, %w;
  .reg .b64 %at, %row, %column, %n, %from, %to, %wide;

  mov.u32 %i, %ctaid.x;
  mov.u32 %t, %tid.x;
  mul.wide.u32 %at, %i, 256;
  cvt.u64.u32 %wide, %t;
  add.u64 %at, %at, %wide;
  ld.param.u64 %n, [elements];
  setp.ge.u64 %past, %at, %n;
  @%past bra END;
  ld.param.u64 %n, [columns];
  div.u64 %row, %at, %n;
  mul.lo.u64 %column, %row, %n;
  sub.u64 %column, %at, %column;

  ld.param.u32 %bytes, [bytes];
  cvt.u64.u32 %wide, %bytes;
  ld.param.u64 %n, [row_stride];
  mul.lo.u64 %from, %row, %n;
  ld.param.u64 %n, [column_stride];
  mul.lo.u64 %at, %column, %n;
  add.u64 %from, %from, %at;
  mul.lo.u64 %from, %from, %wide;
  ld.param.u64 %n, [source];
  cvta.to.global.u64 %n, %n;
  add.u64 %from, %from, %n;
  ld.param.u64 %n, [pitch];
  mul.lo.u64 %to, %row, %n;
  add.u64 %to, %to, %column;
  mul.lo.u64 %to, %to, %wide;
  ld.param.u64 %n, [output];
  cvta.to.global.u64 %n, %n;
  add.u64 %to, %to, %n;

  setp.eq.u32 %is, %bytes, 1;
  @%is bra ONE;
  setp.eq.u32 %is, %bytes, 2;
  @%is bra TWO;
  ld.global.b32 %w, [%from];
  st.global.b32 [%to], %w;
  bra END;
TWO:
  ld.global.b16 %h, [%from];
  st.global.b16 [%to], %h;
  bra END;
ONE:
  ld.global.b8 %h, [%from];
  st.global.b8 [%to], %h;
END:
  ret;
}
)ptx";

PackKernel::~PackKernel() {
  if (!module || !device.canRelease())
    return;
  try {
    CurrentContext current(device);
    (void)device.getDriver().cuModuleUnload(module);
  } catch (const Failure &) {
    // The module is gone together with its context.
  }
}

bool PackKernel::load() {
  std::lock_guard<std::mutex> lock(mutex);
  if (isTried)
    return kernel != nullptr;
  isTried = true;
  const Driver &driver = device.getDriver();
  if (driver.cuModuleLoadDataEx(&module, kText, 0, nullptr, nullptr) !=
      kSuccess) {
    module = nullptr;
    return false;
  }
  if (driver.cuModuleGetFunction(&kernel, module, "fuse_pack_tiles") !=
          kSuccess ||
      driver.cuModuleGetFunction(&gatherKernel, module, "fuse_gather_box") !=
          kSuccess)
    kernel = nullptr;
  return kernel != nullptr;
}

void PackKernel::launch(KernelFunction kernel, uint64_t blocks,
                        void **parameters, const char *name) {
  LaunchConfig config = {static_cast<unsigned>(blocks),
                         1,
                         1,
                         kThreads,
                         1,
                         1,
                         /*sharedBytes=*/0,
                         /*stream=*/nullptr,
                         /*attributes=*/nullptr,
                         /*numAttributes=*/0};
  device.call(
      device.getDriver().cuLaunchKernelEx(&config, kernel, parameters, nullptr),
      "cuLaunchKernelEx", name);
}

bool PackKernel::pack(const PackedWeight &packed, const Function &function,
                      const std::vector<DevicePtr> &matrices,
                      DevicePtr output) {
  std::vector<PackedTiles> parts = getPackedTiles(packed, function);
  if (parts.empty())
    return false;
  for (const PackedTiles &part : parts)
    if (part.rowBytes % kChunkBytes != 0)
      return false;
  for (DevicePtr matrix : matrices)
    if (matrix % kChunkBytes != 0)
      return false;
  CurrentContext current(device);
  if (!load())
    return false;
  for (const PackedTiles &part : parts) {
    uint32_t rows = static_cast<uint32_t>(part.rows),
             rowBytes = static_cast<uint32_t>(part.rowBytes),
             steps = static_cast<uint32_t>(packed.steps),
             tiles = static_cast<uint32_t>(packed.tiles),
             first = static_cast<uint32_t>(part.firstTile),
             isPair = part.isPair;
    DevicePtr matrix0 = matrices[part.operand],
              matrix1 = matrices[part.operand + (part.isPair ? 1 : 0)];
    void *parameters[] = {&output, &matrix0, &matrix1, &rows,  &rowBytes,
                          &steps,  &tiles,   &first,   &isPair};
    // 256 rows of 8 chunks are 8 blocks.
    uint64_t blocks = part.numTiles * packed.steps * 8;
    if (blocks > INT32_MAX)
      return false;
    launch(kernel, blocks, parameters, "fuse_pack_tiles");
  }
  return true;
}

bool PackKernel::gather(const ViewBox &box, const TensorSpec &spec,
                        DevicePtr source, DevicePtr matrix) {
  uint32_t bytes = spec.dtype.bits / 8;
  if (bytes != 1 && bytes != 2 && bytes != 4)
    return false;
  // A vector is one row.
  bool hasRows = box.sizes.size() == 2;
  uint64_t columns = box.sizes.back(), columnStride = box.strides.back(),
           rowStride = hasRows ? box.strides[0] : 0,
           elements = hasRows ? box.sizes[0] * columns : columns,
           pitch = static_cast<uint64_t>(spec.shape.back());
  uint64_t blocks = (elements + kThreads - 1) / kThreads;
  if (blocks == 0)
    return true;
  CurrentContext current(device);
  if (blocks > INT32_MAX || !load())
    return false;
  source += box.offset * bytes;
  matrix += ((hasRows ? box.at[0] * pitch : 0) + box.at.back()) * bytes;
  void *parameters[] = {&matrix, &source,    &elements,     &columns,
                        &pitch,  &rowStride, &columnStride, &bytes};
  launch(gatherKernel, blocks, parameters, "fuse_gather_box");
  return true;
}
