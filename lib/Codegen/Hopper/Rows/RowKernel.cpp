//===- RowKernel.cpp - Kernels that process rows independently ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of fuse.norm_quantize and fuse.act_quantize. They read and write each
// element once, so HBM bandwidth limits them. Each access has 16 bytes, and
// several accesses are in flight per thread.
//
//===----------------------------------------------------------------------===//

#include "fuse/Codegen/Hopper/RowKernel.h"

#include "../Emit/NormBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

namespace {

/// What both families have.
class RowKernelBuilder : public NormBuilder {
public:
  RowKernelBuilder(const RowProblem &problem, RowScheduleAttr schedule,
                   OpBuilder &builder)
      : NormBuilder(problem, {0, schedule.getThreads() / 32, 1}, builder),
        rows(problem), schedule(schedule) {}

  PlannedKernel build(StringRef name) {
    addNormOperands();
    addOperand(factor, rows.factor);
    addResult(input, 0);
    addNormResults();
    if (rows.actResult >= 0)
      addResult(act, rows.actResult);
    if (rows.productResult >= 0)
      addResult(product, rows.productResult);
    addTokens(count);
    addQuantizer(inputScale,
                 rows.isNorm() ? ScaleKind::Input : ScaleKind::Hidden,
                 problem.scales);
    tile::KernelOp kernel =
        begin(name, schedule.getBlocks(), schedule.getThreads(),
              /*sharedBytes=*/0, /*cooperative=*/false);
    // Indices of elements are i32.
    int64_t maxTokens = std::numeric_limits<int32_t>::max() / problem.width;
    PlanAttr plan = getPlan(kernel, {maxTokens});
    thread = id(IdKind::Thread);
    block = id(IdKind::Block);
    if (rows.isNorm()) {
      makeNormScratch();
      normalizeAll(block, count, schedule.getBlocks());
    } else {
      activateAll();
    }
    tile::ReturnOp::create(builder, loc);
    return {kernel, plan};
  }

private:
  /// Rows do not matter here: elements are taken in order.
  void activateAll() {
    constexpr int64_t vectors = 4, size = 8;
    int64_t share = schedule.getThreads() * vectors;
    Value total = mul(count, problem.width / size);
    Value rounds = div(add(total, share - 1), share);
    Type narrow = VectorType::get(size, narrowType);
    loop(block, rounds, schedule.getBlocks(), {},
         [&](Value round, ValueRange) -> SmallVector<Value> {
           struct Item {
             Value inside, at, x, factor;
           };
           SmallVector<Item> items;
           for (int64_t index = 0; index < vectors; ++index) {
             Value at = add(
                 add(mul(round, share), index * schedule.getThreads()), thread);
             Item item;
             item.inside = less(at, total);
             item.at = mul(min(at, sub(total, constant(1))), size);
             item.x = load(narrow, x, item.at);
             if (factor)
               item.factor = load(narrow, factor, item.at);
             items.push_back(item);
           }
           for (const Item &item : items)
             when(item.inside,
                  [&] { activateItem(item.at, item.x, item.factor); });
           return {};
         });
  }

  void activateItem(Value at, Value x, Value factor) {
    Values values = round(RoundingPoint::Act, each(unpack(x), [&](Value v) {
                            return activate(problem.activation, v);
                          }));
    if (act)
      store(pack(narrowType, values), act, at);
    if (factor)
      values = round(RoundingPoint::Product, mulEach(values, unpack(factor)));
    if (product)
      store(pack(narrowType, values), product, at);
    store(quantize(values, inputScale), input, at);
  }

  const RowProblem &rows;
  RowScheduleAttr schedule;
  Value factor, act, product, count, block;
};

} // namespace

PlannedKernel fuse::buildRowKernel(const RowProblem &problem,
                                   RowScheduleAttr schedule,
                                   gpu::GPUModuleOp module, StringRef name) {
  OpBuilder builder(problem.op->getContext());
  builder.setInsertionPointToEnd(module.getBody());
  return RowKernelBuilder(problem, schedule, builder).build(name);
}
