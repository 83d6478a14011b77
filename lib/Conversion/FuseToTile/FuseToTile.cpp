//===- FuseToTile.cpp - Lower fused ops to tile kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every fused op with a schedule becomes launches of kernels in one gpu.module.
// Each kernel is built completely and then compared with the existing ones.
// Layers of one size therefore share a kernel, and so do token ranges with
// equal kernels.
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/FuseToTile/FuseToTile.h"

#include "fuse/Codegen/Hopper/PrefillKernel.h"
#include "fuse/Codegen/Hopper/RowKernel.h"
#include "fuse/Codegen/Mma/MmaKernel.h"
#include "fuse/Schedule/StageGraph.h"
#include "fuse/Schedule/WeightViews.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ScopeExit.h"

namespace fuse {
#define GEN_PASS_DEF_CONVERTFUSETOTILEPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;
using namespace tile;

#define DEBUG_TYPE "convert-fuse-to-tile"

/// Whether two kernels of one module differ only in their names.
static bool isSameKernel(tile::KernelOp lhs, tile::KernelOp rhs) {
  return lhs.getFunctionType() == rhs.getFunctionType() &&
         lhs.getBlocks() == rhs.getBlocks() &&
         lhs.getThreads() == rhs.getThreads() &&
         lhs.getSharedBytes() == rhs.getSharedBytes() &&
         lhs.getCluster() == rhs.getCluster() &&
         OperationEquivalence::isRegionEquivalentTo(
             &lhs.getBody(), &rhs.getBody(),
             OperationEquivalence::IgnoreLocations);
}

//===----------------------------------------------------------------------===//
// Weights that are views
//===----------------------------------------------------------------------===//

namespace {

/// The inputs of the launches of an op. Launches have the arguments of which
/// weights are views, and a host packs the views.
class LaunchInputs {
public:
  explicit LaunchInputs(Operation *op) : op(op), values(op->getOperands()) {}
  explicit LaunchInputs(const MlpProblem &problem);

  ValueRange getValues() const { return values; }
  /// The plan of a kernel on the operands of the op, for these inputs.
  PlanAttr adapt(PlanAttr plan) const;

private:
  void add(Value operand, bool isRows);
  PackedAttr pack(StringRef recipe, ArrayRef<int64_t> numbers, int64_t tiles,
                  int64_t steps, int64_t bytes) const;

  Operation *op;
  SmallVector<Value> values;
  /// The operands that are views, by number.
  llvm::DenseMap<int64_t, WeightView> views;
  /// The operands of which kernels read copies, not packed tiles.
  llvm::DenseSet<int64_t> vectorNumbers;
};

} // namespace

LaunchInputs::LaunchInputs(const MlpProblem &problem)
    : LaunchInputs(problem.op) {
  SmallVector<Value> weights = {problem.gate, problem.up};
  SmallVector<Value> vectors = {problem.normWeight, problem.normBias,
                                problem.gateBias,   problem.upBias,
                                problem.gateScales, problem.upScales};
  for (const DecodeOutput &output : problem.outputs) {
    weights.push_back(output.weight);
    vectors.append({output.bias, output.weightScales});
  }
  auto addAll = [&](ArrayRef<Value> operands) {
    for (Value operand : operands)
      if (operand)
        add(operand, llvm::is_contained(
                         {problem.x, problem.residual, problem.outputResidual},
                         operand));
  };
  addAll(weights);
  // A host that packs parts of weights before the call can pack those of
  // vectors, too.
  if (views.empty())
    return;
  addAll(vectors);
  for (Value vector : vectors)
    if (vector)
      vectorNumbers.insert(llvm::find(op->getOperands(), vector) -
                           op->operand_begin());
}

void LaunchInputs::add(Value operand, bool isRows) {
  WeightView view = getWeightView(operand);
  if (view.boxes.front().source == operand || !isViewOfArguments(view))
    return;
  if (!isRows)
    llvm::replace(values, operand, view.boxes.front().source);
  for (const ViewBox &box : view.boxes)
    if (!llvm::is_contained(values, box.source))
      values.push_back(box.source);
  int64_t number = llvm::find(op->getOperands(), operand) - op->operand_begin();
  if (isRows || !view.isWhole())
    views[number] = std::move(view);
}

PackedAttr LaunchInputs::pack(StringRef recipe, ArrayRef<int64_t> numbers,
                              int64_t tiles, int64_t steps,
                              int64_t bytes) const {
  llvm::SetVector<int64_t> operands;
  SmallVector<Attribute> matrices;
  for (int64_t number : numbers) {
    auto it = views.find(number);
    matrices.push_back(fuse::getBoxes(
        op->getContext(),
        it == views.end() ? WeightView{{getWholeBox(values[number])}}
                          : it->second,
        [&](Value source) {
          operands.insert(llvm::find(values, source) - values.begin());
          return llvm::find(operands,
                            llvm::find(values, source) - values.begin()) -
                 operands.begin();
        }));
  }
  return PackedAttr::get(op->getContext(), recipe, operands.getArrayRef(),
                         tiles, steps, bytes,
                         ArrayAttr::get(op->getContext(), matrices));
}

PlanAttr LaunchInputs::adapt(PlanAttr plan) const {
  if (views.empty())
    return plan;
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](PackedAttr packed) -> std::optional<Attribute> {
    if (llvm::none_of(packed.getOperands(),
                      [&](int64_t number) { return views.contains(number); }))
      return std::nullopt;
    return pack(packed.getRecipe(), packed.getOperands(), packed.getTiles(),
                packed.getSteps(), packed.getBytes());
  });
  replacer.addReplacement([&](OperandAttr attr) -> std::optional<Attribute> {
    int64_t number = attr.getIndex();
    if (!vectorNumbers.contains(number) || !views.contains(number))
      return std::nullopt;
    auto type = cast<RankedTensorType>(op->getOperand(number).getType());
    return pack("identity", number, /*tiles=*/1, /*steps=*/1,
                type.getNumElements() * type.getElementTypeBitWidth() / 8);
  });
  return cast<PlanAttr>(replacer.replace(plan));
}

namespace {
struct ConvertFuseToTilePass
    : fuse::impl::ConvertFuseToTilePassBase<ConvertFuseToTilePass> {
  using ConvertFuseToTilePassBase::ConvertFuseToTilePassBase;

  void runOnOperation() override {
    gpuModule = {};
    products.clear();
    SmallVector<Operation *> scheduled;
    getOperation().walk([&](Operation *op) {
      auto graph = dyn_cast<stage::GraphOp>(op);
      if (op->hasAttr(kScheduleAttrName) || (graph && graph.getMapping()))
        scheduled.push_back(op);
    });
    for (Operation *op : scheduled)
      if (failed(convert(op)))
        return signalPassFailure();
  }

  LogicalResult convert(Operation *op) {
    FailureOr<Operation *> launches = failure();
    if (auto graph = dyn_cast<stage::GraphOp>(op))
      launches = convertGraph(graph);
    else
      launches = isRowOp(op) ? convertRows(op) : convertProducts(op);
    if (failed(launches))
      return failure();
    op->replaceAllUsesWith(*launches);
    op->erase();
    ++numConverted;
    return success();
  }

  /// Destinations for the results of an op, with a row for each row of `rows`.
  SmallVector<Value> makeInits(Operation *op, Value rows, OpBuilder &builder) {
    SmallVector<Value> inits;
    for (Type result : op->getResultTypes()) {
      auto type = cast<RankedTensorType>(result);
      SmallVector<OpFoldResult> sizes;
      for (auto [dim, size] : llvm::enumerate(type.getShape()))
        sizes.push_back(
            ShapedType::isDynamic(size)
                ? tensor::getMixedSize(builder, op->getLoc(), rows, dim)
                : builder.getIndexAttr(size));
      inits.push_back(tensor::EmptyOp::create(builder, op->getLoc(), sizes,
                                              type.getElementType()));
    }
    return inits;
  }

  /// Builds one launch per kernel, each on the outputs of the previous one.
  LaunchOp buildLaunches(Operation *op, const LaunchInputs &inputs,
                         ArrayRef<PlannedKernel> kernels, ValueRange inits,
                         OpBuilder &builder) {
    LaunchOp launch;
    for (PlannedKernel planned : kernels) {
      auto symbol = SymbolRefAttr::get(
          getModule().getSymNameAttr(),
          FlatSymbolRefAttr::get(planned.kernel.getSymNameAttr()));
      launch = LaunchOp::create(builder, op->getLoc(), op->getResultTypes(),
                                symbol, inputs.getValues(), inits,
                                inputs.adapt(planned.plan));
      inits = launch.getResults();
    }
    return launch;
  }

  /// Whether all kernels are mma kernels, which support other types.
  static bool isMma(Attribute attr) {
    if (auto ranges = dyn_cast<DispatchAttr>(attr))
      return llvm::all_of(ranges.getSchedules(),
                          llvm::IsaPred<MmaScheduleAttr>);
    return isa<MmaScheduleAttr>(attr);
  }

  FailureOr<Operation *> convertProducts(Operation *op) {
    Attribute attr = op->getAttr(kScheduleAttrName);
    if (!isa<ScheduleAttr, PrefillScheduleAttr, MmaScheduleAttr, DispatchAttr>(
            attr))
      return op->emitOpError()
             << "has " << kScheduleAttrName << " = " << attr
             << ": expected #tile.schedule, #tile.prefill_schedule, "
                "#tile.mma_schedule or #tile.dispatch";
    std::string reason;
    std::optional<MlpProblem> problem =
        isMma(attr) ? describeMma(op, reason) : describeDecode(op, reason);
    if (!problem)
      return op->emitOpError() << "has a schedule, but " << reason;
    OpBuilder builder(op);
    LaunchInputs inputs(*problem);
    auto ranges = dyn_cast<DispatchAttr>(attr);
    if (!ranges) {
      auto kernels = getProducts(*problem, attr);
      if (failed(kernels))
        return failure();
      return buildLaunches(op, inputs, *kernels,
                           makeInits(op, problem->x, builder), builder)
          .getOperation();
    }
    if (problem->tokens)
      return op->emitOpError()
             << "has " << *problem->tokens
             << " tokens, and schedules for ranges of their number";
    auto dispatch =
        DispatchOp::create(builder, op->getLoc(), op->getResultTypes(),
                           problem->x, makeInits(op, problem->x, builder),
                           ranges.getBounds(), ranges.getBounds().size());
    for (auto [schedule, region] :
         llvm::zip_equal(ranges.getSchedules(), dispatch.getRanges())) {
      auto kernels = getProducts(*problem, schedule);
      if (failed(kernels)) {
        dispatch->erase();
        return failure();
      }
      Block *body = builder.createBlock(
          &region, region.end(), op->getResultTypes(),
          SmallVector<Location>(op->getNumResults(), op->getLoc()));
      LaunchOp launch =
          buildLaunches(op, inputs, *kernels, body->getArguments(), builder);
      tile::YieldOp::create(builder, op->getLoc(), launch.getResults());
    }
    return dispatch.getOperation();
  }

  /// Everything that kernels depend on: not the operands, but which of them are
  /// equal, and not where the op comes from.
  static Attribute getKey(Operation *op, Attribute schedule) {
    NamedAttrList attrs(op->getAttrDictionary());
    for (StringRef name : {"origins", "site", "provenance"})
      attrs.erase(name);
    SmallVector<int64_t> firsts;
    for (Value operand : op->getOperands())
      firsts.push_back(llvm::find(op->getOperands(), operand) -
                       op->operand_begin());
    Builder builder(op->getContext());
    auto types = FunctionType::get(op->getContext(), op->getOperandTypes(),
                                   op->getResultTypes());
    return builder.getArrayAttr(
        {op->getName().getIdentifier(), attrs.getDictionary(op->getContext()),
         TypeAttr::get(types), builder.getDenseI64ArrayAttr(firsts), schedule});
  }

  /// The kernels of a schedule, which equal layers share.
  FailureOr<SmallVector<PlannedKernel>> getProducts(const MlpProblem &problem,
                                                    Attribute schedule) {
    Attribute key = getKey(problem.op, schedule);
    auto known = products.find(key);
    if (known != products.end()) {
      numShared += known->second.size();
      return known->second;
    }
    auto kernels = buildProducts(problem, schedule);
    if (failed(kernels))
      return failure();
    for (PlannedKernel &planned : *kernels)
      planned.kernel = share(planned.kernel);
    products[key] = *kernels;
    return kernels;
  }

  FailureOr<SmallVector<PlannedKernel>> buildProducts(const MlpProblem &problem,
                                                      Attribute schedule) {
    Operation *op = problem.op;
    auto decode = dyn_cast<ScheduleAttr>(schedule);
    auto mma = dyn_cast<MmaScheduleAttr>(schedule);
    std::string reason =
        decode ? getScheduleProblem(problem, decode)
        : mma
            ? getScheduleProblem(problem, mma)
            : getScheduleProblem(problem, cast<PrefillScheduleAttr>(schedule));
    if (!reason.empty())
      return op->emitOpError() << "does not fit its schedule: " << reason;
    if (decode)
      return SmallVector<PlannedKernel>{buildDecodeKernel(
          problem, decode, getModule(), getKernelName(op, "decode"))};
    if (mma)
      return buildStages(cast<FusedOpInterface>(op), mma);
    return buildPrefillKernels(problem, cast<PrefillScheduleAttr>(schedule),
                               getModule(),
                               [&] { return getKernelName(op, "prefill"); });
  }

  /// Builds the mma kernels of a fused op from its stages.
  FailureOr<SmallVector<PlannedKernel>> buildStages(FusedOpInterface op,
                                                    MmaScheduleAttr schedule) {
    OpBuilder builder(op);
    std::optional<Refusal> refusal;
    stage::GraphOp graph = formGraph(op, builder, refusal);
    if (!graph)
      return op->emitOpError()
             << "has no stages: " << getText(refusal->kind).reason;
    llvm::scope_exit erase([&] { graph->erase(); });
    std::string reason;
    std::optional<MlpProblem> problem = describeMma(graph, reason);
    if (!problem)
      return op->emitOpError() << "has a schedule, but " << reason;
    mapGraph(graph, *problem, schedule);
    return buildGraph(graph, *problem, op);
  }

  /// Builds the kernels that the mapping of a graph states. Their names are
  /// those of `op`.
  FailureOr<SmallVector<PlannedKernel>>
  buildGraph(stage::GraphOp graph, const MlpProblem &problem, Operation *op) {
    FailureOr<MmaScheduleAttr> schedule = getMappedSchedule(graph, problem);
    if (failed(schedule))
      return failure();
    return buildMmaKernels(problem, *schedule, getModule(),
                           [&] { return getKernelName(op, "mma"); });
  }

  FailureOr<Operation *> convertGraph(stage::GraphOp graph) {
    std::string reason;
    std::optional<MlpProblem> problem = describeMma(graph, reason);
    if (!problem)
      return graph.emitOpError() << "has a mapping, but " << reason;
    auto kernels = buildGraph(graph, *problem, graph);
    if (failed(kernels))
      return failure();
    OpBuilder builder(graph);
    return buildLaunches(graph, LaunchInputs(*problem), *kernels,
                         makeInits(graph, problem->x, builder), builder)
        .getOperation();
  }

  FailureOr<Operation *> convertRows(Operation *op) {
    Attribute attr = op->getAttr(kScheduleAttrName);
    auto schedule = dyn_cast<RowScheduleAttr>(attr);
    if (!schedule)
      return op->emitOpError() << "has " << kScheduleAttrName << " = " << attr
                               << ": expected #tile.row_schedule";
    std::string reason;
    std::optional<RowProblem> problem = describeRows(op, reason);
    if (!problem)
      return op->emitOpError() << "has a schedule, but " << reason;
    OpBuilder builder(op);
    PlannedKernel kernel = buildRowKernel(*problem, schedule, getModule(),
                                          getKernelName(op, "rows"));
    kernel.kernel = share(kernel.kernel);
    return buildLaunches(op, LaunchInputs(op), kernel,
                         makeInits(op, op->getOperand(0), builder), builder)
        .getOperation();
  }

  /// Returns an equal kernel and erases `kernel`, or returns `kernel`.
  tile::KernelOp share(tile::KernelOp kernel) {
    for (auto other : getModule().getOps<tile::KernelOp>())
      if (other != kernel && isSameKernel(other, kernel)) {
        kernel.erase();
        ++numShared;
        return other;
      }
    return kernel;
  }

  /// The gpu.module of this pass, created for the first kernel.
  gpu::GPUModuleOp getModule() {
    if (gpuModule)
      return gpuModule;
    SymbolTable symbols(getOperation());
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    gpuModule =
        gpu::GPUModuleOp::create(builder, getOperation().getLoc(), moduleName);
    symbols.insert(gpuModule);
    return gpuModule;
  }

  std::string getKernelName(Operation *op, StringRef kind) {
    StringRef family = op->getName().stripDialect();
    for (unsigned index = 0;; ++index) {
      std::string name = (family + "_" + kind + "_" + Twine(index)).str();
      if (!getModule().lookupSymbol(name))
        return name;
    }
  }

  gpu::GPUModuleOp gpuModule;
  llvm::DenseMap<Attribute, SmallVector<PlannedKernel>> products;
};
} // namespace
