//===- MlpProblem.cpp - MLPs for scheduled kernels ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/MlpProblem.h"
#include "fuse/Analysis/Refusal.h"
#include "fuse/Schedule/MmaSchedule.h"
#include "fuse/Schedule/StageGraph.h"

using namespace mlir;
using namespace fuse;

static constexpr int64_t kTileRows = 256;
static constexpr int64_t kStepBytes = 128;
/// Warps of a decode kernel that compute hidden units.
static constexpr int64_t kConsumerWarps = 8;
/// Packed rows of a group, in which a thread has adjacent hidden units: 16 rows
/// in each half of a run.
static constexpr int64_t kGroupRows = 32;
/// Maximum width in elements. A thread keeps its part of a token row in
/// registers.
static constexpr int64_t kMaxWidth = 16384;

int64_t MlpProblem::getWeightBytes() const {
  int64_t elements = (isGated() ? 2 : 1) * width * hidden;
  for (const DecodeOutput &output : outputs)
    elements += output.rows * getReduction();
  return elements * getElementBytes();
}

bool MlpProblem::roundsAt(RoundingPoint point) const {
  if (rounding.skips(point))
    return false;
  Type type = rounding.getTypeOf(
      point, cast<RankedTensorType>(x.getType()).getElementType());
  return !type.isF32();
}

static Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

bool MlpProblem::isPartial(size_t output) const {
  return getElement(op->getResult(output)).isF32();
}

static int64_t getSize(Value value, unsigned dimension) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dimension);
}

/// Number of inputs of a weight. A byte has two codes of 4 bits.
static int64_t getInputs(const MlpProblem &problem, Value weight) {
  int64_t size = getSize(weight, 1);
  return problem.quant && problem.quant.isPacked() ? 2 * size : size;
}

/// The scales of the weights of a contract with measured scales.
template <typename OpT>
static ValueRange getMeasuredScales(OpT op) {
  QuantAttr quant = op.getQuantAttr();
  return quant && !quant.isPacked() ? ValueRange(op.getChannelScales())
                                    : ValueRange();
}

/// Fills in the fields that all families have.
template <typename OpT>
static void describeCommon(OpT op, MlpProblem &problem) {
  problem.op = op;
  problem.x = op.getX();
  problem.residual = op.getResidual();
  problem.normWeight = op.getNormWeight();
  problem.normBias = op.getNormBias();
  problem.norm = op.getNormAttr();
  problem.scales = op.getScalesAttr();
  problem.quant = op.getQuantAttr();
  problem.rounding = op.getRounding();
}

template <typename OpT>
static void describeMLP(OpT op, MlpProblem &problem) {
  describeCommon(op, problem);
  problem.up = op.getUp();
  problem.upBias = op.getUpBias();
  problem.outputResidual = op.getOutputResidual();
  problem.activation = op.getActivation();
  problem.addStream = op.getAddStream();
  if (op.getOutputs().size() > 1)
    problem.streamResult = 1;
  problem.width = getInputs(problem, problem.up);
  problem.hidden = getSize(problem.up, 0);
  problem.outputs.push_back({op.getDown(), op.getDownBias(),
                             getSize(op.getDown(), 0), ScaleKind::Down});
  ValueRange scales = getMeasuredScales(op);
  if (scales.empty())
    return;
  problem.upScales = scales.drop_back().back();
  problem.outputs.front().weightScales = scales.back();
}

static void describeNormLinear(NormLinearOp op, MlpProblem &problem) {
  describeCommon(op, problem);
  ValueRange biases = op.getBiases();
  for (auto [index, weight] : llvm::enumerate(op.getWeights())) {
    DecodeOutput output;
    output.weight = weight;
    if (op.getBiasMask()[index]) {
      output.bias = biases.front();
      biases = biases.drop_front();
    }
    output.rows = getSize(weight, 0);
    output.scale = ScaleName::weight(index);
    problem.outputs.push_back(output);
  }
  problem.width = getInputs(problem, op.getWeights().front());
  int64_t result = problem.outputs.size();
  for (auto [output, scales] :
       llvm::zip(problem.outputs, getMeasuredScales(op)))
    output.weightScales = scales;
  for (RoundingPoint extra : getPoints(op.getExtrasAttr()))
    (extra == RoundingPoint::Stream ? problem.streamResult
                                    : problem.normedResult) = result++;
}

static void describeLinear(FusedLinearOp op, MlpProblem &problem) {
  describeCommon(op, problem);
  problem.outputResidual = op.getOutputResidual();
  problem.width = getInputs(problem, op.getWeight());
  problem.outputs.push_back({op.getWeight(), op.getBias(),
                             getSize(op.getWeight(), 0), ScaleName::weight(0)});
}

static std::string print(RefusalKind kind, const Twine &detail) {
  const RefusalText &text = getText(kind);
  return (text.id + " " + text.name + ": " + detail).str();
}

std::string fuse::getTokensProblem(const MlpProblem &problem, int64_t tokens) {
  if (!problem.quant || tokens <= kMaxWholeTokens)
    return "";
  return print(RefusalKind::MeasuredScaleTokens, Twine(tokens) +
                                                     " tokens are more than " +
                                                     Twine(kMaxWholeTokens));
}

/// The reason why no kernel has the measured scales of `problem`, or an empty
/// string.
static std::string getQuantProblem(const MlpProblem &problem) {
  QuantAttr quant = problem.quant;
  bool isBlock = quant.getWeights() == ScaleGranularity::Block &&
                 quant.getBlockRows() == kScaleBlock &&
                 quant.getBlockColumns() == kScaleBlock &&
                 quant.getActivations() == ScaleScope::PerGroup &&
                 quant.getGroupSize() == kScaleBlock &&
                 quant.getSumLength() == kScaleBlock;
  bool isToken = quant.getWeights() == ScaleGranularity::Channel &&
                 quant.getActivations() == ScaleScope::PerToken &&
                 !quant.hasBlockSums();
  if (!isa<Float8E4M3FNType>(quant.getStorageType()) ||
      (!isBlock && !isToken)) {
    std::string text;
    llvm::raw_string_ostream(text) << Attribute(quant);
    return print(RefusalKind::ScaleShapes,
                 "the op has " + text +
                     ", expected f8E4M3FN, weights = block<128x128>, "
                     "activations = per_group<128>, sums = block<128>, or "
                     "f8E4M3FN, weights = channel, activations = per_token");
  }
  return problem.tokens ? getTokensProblem(problem, *problem.tokens) : "";
}

/// The first reason why the kernel does not support `problem`, or an empty
/// string.
/// `narrow` is the type of tokens.
static std::string getProblem(const MlpProblem &problem, Type narrow) {
  auto print = [](Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  };
  if (problem.quant && problem.quant.isPacked())
    return "weights have 4 bits";
  if (getElement(problem.x) != narrow)
    return "the input is " + print(getElement(problem.x)) + ", not " +
           print(narrow);
  SmallVector<Value> values = {problem.residual, problem.normWeight,
                               problem.normBias, problem.gateBias,
                               problem.upBias,   problem.outputResidual};
  SmallVector<Value> weights = {problem.gate, problem.up};
  for (const DecodeOutput &output : problem.outputs) {
    values.push_back(output.bias);
    weights.push_back(output.weight);
  }
  for (Value value : values)
    if (value && getElement(value) != narrow)
      return "an operand is " + print(getElement(value)) + ", not " +
             print(narrow);
  for (OpResult result : problem.op->getResults()) {
    bool isOutput = result.getResultNumber() < problem.outputs.size();
    if (getElement(result) != narrow &&
        !(isOutput && getElement(result).isF32()))
      return "a result is " + print(getElement(result)) + ", not " +
             print(narrow) + (isOutput ? " or f32" : "");
  }
  for (Value weight : weights) {
    if (!weight)
      continue;
    Type type = getElement(weight);
    if (problem.isF8() ? !isa<Float8E4M3FNType>(type) : type != narrow)
      return "a weight is " + print(type) + ", not " +
             (problem.isF8() ? "f8E4M3FN" : print(narrow));
  }
  if (StaticScalesAttr scales = problem.scales) {
    if (!isa<Float8E4M3FNType>(scales.getStorageType()))
      return "activations are quantized to " + print(scales.getStorageType()) +
             ", not f8E4M3FN";
    if (scales.getNumPerChannel() != 0)
      return "a weight has one scale per channel";
    if (scales.getForm() != QuantForm::Scaled)
      return "the chain dequantizes operands before its products";
  }
  if (problem.rounding.getBiasPlace() != BiasPlace::BeforeRounding)
    return "a bias is added after rounding";
  for (RoundingPoint point :
       {RoundingPoint::Stream, RoundingPoint::Normed, RoundingPoint::Gate,
        RoundingPoint::Up, RoundingPoint::Act, RoundingPoint::Product,
        RoundingPoint::Down}) {
    Type type = problem.rounding.getTypeOf(point, getElement(problem.x));
    if (type != narrow && !type.isF32())
      return ("the intermediate '" + stringifyRoundingPoint(point) + "' is " +
              print(type) + ", not " + print(narrow) + " or f32")
          .str();
  }
  if (problem.residual && !problem.roundsAt(RoundingPoint::Stream))
    return "the stream is kept in f32";
  SmallVector<std::pair<StringRef, int64_t>> widths = {
      {"input", problem.width}, {"hidden", problem.hidden}};
  int64_t widest = problem.width;
  for (const DecodeOutput &output : problem.outputs) {
    widths.push_back({"output", output.rows});
    widest = std::max(widest, output.rows);
  }
  for (auto [name, width] : widths)
    if (width % 16 != 0)
      return ("the " + name + " width " + Twine(width) +
              " is not a multiple of 16")
          .str();
  // A thread keeps only its part of a token row in registers.
  if (std::max(problem.width, problem.hasGemm1() ? widest : 0) > kMaxWidth)
    return ("a width of " + Twine(widest) + " is more than " + Twine(kMaxWidth))
        .str();
  if (problem.tokens && *problem.tokens > tile::kMaxPrefillTokens)
    return (Twine(*problem.tokens) + " tokens are more than " +
            Twine(tile::kMaxPrefillTokens))
        .str();
  if (problem.tokens && *problem.tokens == 0)
    return "the number of tokens must be positive";
  return "";
}

std::optional<MlpProblem> fuse::describeFamily(Operation *op,
                                               std::string &reason) {
  MlpProblem problem;
  if (auto mlp = dyn_cast<GatedMLPOp>(op)) {
    describeMLP(mlp, problem);
    problem.gate = mlp.getGate();
    problem.gateBias = mlp.getGateBias();
    if (ValueRange scales = getMeasuredScales(mlp); !scales.empty())
      problem.gateScales = scales.front();
  } else if (auto mlp = dyn_cast<MLPOp>(op)) {
    describeMLP(mlp, problem);
  } else if (auto linear = dyn_cast<NormLinearOp>(op)) {
    describeNormLinear(linear, problem);
  } else if (auto linear = dyn_cast<FusedLinearOp>(op)) {
    describeLinear(linear, problem);
  } else if (auto graph = dyn_cast<stage::GraphOp>(op)) {
    std::optional<MlpProblem> described = describeGraph(graph, reason);
    if (!described)
      return std::nullopt;
    problem = std::move(*described);
  } else {
    reason =
        ("there is no scheduled kernel for " + op->getName().getStringRef())
            .str();
    return std::nullopt;
  }
  auto x = cast<RankedTensorType>(problem.x.getType());
  ArrayRef<int64_t> leading = x.getShape().drop_back();
  if (llvm::none_of(leading, ShapedType::isDynamic)) {
    int64_t tokens = 1;
    for (int64_t size : leading)
      tokens *= size;
    problem.tokens = tokens;
  }
  return problem;
}

std::optional<MlpProblem> fuse::describeDecode(Operation *op,
                                               std::string &reason) {
  std::optional<MlpProblem> problem = describeFamily(op, reason);
  if (!problem)
    return std::nullopt;
  reason = getProblem(*problem, BFloat16Type::get(op->getContext()));
  if (reason.empty() && problem->quant)
    reason = getQuantProblem(*problem);
  if (!reason.empty())
    return std::nullopt;
  return problem;
}

std::optional<MlpProblem> fuse::describeMma(Operation *op,
                                            std::string &reason) {
  std::optional<MlpProblem> problem = describeFamily(op, reason);
  if (!problem)
    return std::nullopt;
  if (problem->quant) {
    reason = problem->quant.isPacked() ? "weights have 4 bits"
                                       : "scales are measured at run time";
    return std::nullopt;
  }
  MLIRContext *context = op->getContext();
  bool isF16 = getElement(problem->x).isF16();
  reason = getProblem(*problem, isF16 ? Type(Float16Type::get(context))
                                      : BFloat16Type::get(context));
  if (!reason.empty())
    return std::nullopt;
  return problem;
}

ProductTiling::ProductTiling(const MlpProblem &problem, int64_t gemm1TileM,
                             int64_t rows, bool swapAB)
    : bytes(problem.getElementBytes()), gemm1TileM(gemm1TileM), swapAB(swapAB),
      rows(rows) {
  for (const DecodeOutput &output : problem.outputs) {
    // Each linear begins at a packed tile, so that it can be packed separately.
    firstTiles.push_back(packedTiles2 * kTileRows / rows);
    tiles2 = firstTiles.back() + llvm::divideCeil(output.rows, rows);
    packedTiles2 += llvm::divideCeil(output.rows, kTileRows);
  }
  firstTiles.push_back(tiles2);
  steps2 = llvm::divideCeil(problem.getReduction() * bytes, kStepBytes);
  if (!problem.hasGemm1())
    return;
  hiddenPerTile = problem.isGated() ? gemm1TileM / 2 : gemm1TileM;
  int64_t packed = problem.isGated() ? kTileRows / 2 : kTileRows;
  int64_t covered = problem.hidden;
  // Cover the last k-step of GEMM2 completely, and both quarters of a run.
  if (gemm1TileM == 192 && !swapAB)
    covered = llvm::alignTo(covered, std::max(kStepBytes / bytes, packed / 2));
  tiles1 = llvm::divideCeil(covered, hiddenPerTile);
  packedTiles1 = llvm::divideCeil(problem.hidden, packed);
  steps1 = llvm::divideCeil(problem.width * bytes, kStepBytes);
  if (!swapAB)
    return;
  groupsPerTile = gemm1TileM / kGroupRows;
  groupsPerStep = kStepBytes / bytes * groupsPerTile / hiddenPerTile;
  groups = steps2 * groupsPerStep;
  tiles1 = llvm::divideCeil(groups, groupsPerTile);
}

DecodeTiling::DecodeTiling(const MlpProblem &problem,
                           tile::ScheduleAttr schedule)
    : ProductTiling(problem, schedule.getGemm1TileM(), schedule.getGemm2TileM(),
                    schedule.getSwapAB()),
      gemm1Blocks(schedule.getBlocks()) {
  auto cutSteps = [&](int64_t splitK) {
    stepsPerSlice =
        llvm::alignTo(llvm::divideCeil(steps2, splitK), getStepsPerStage());
    slices = llvm::divideCeil(steps2, stepsPerSlice);
  };
  if (!problem.hasGemm1()) {
    cutSteps(schedule.getSplitK());
  } else {
    // A K-slice consists of whole GEMM1 tiles, so that each tile arrives at
    // only one semaphore.
    parts = schedule.getDeferredEpilogue() ? 2 : 1;
    tilesPerPart = llvm::divideCeil(tiles1, parts);
    gemm1Blocks = std::min(tilesPerPart, schedule.getBlocks());
    if (schedule.getTokens() <= kMaxWholeTokens)
      longBlocks = countLong(tilesPerPart, schedule.getBlocks());
    tilesPerSlice = llvm::divideCeil(tilesPerPart, schedule.getSplitK());
    // It also consists of whole k-steps of GEMM2. For 192-row tiles, these are
    // pairs of tiles and three k-steps.
    if (hasSingle())
      tilesPerSlice = llvm::alignTo(
          tilesPerSlice,
          std::max<int64_t>(2, 3 * kStepBytes / (hiddenPerTile * bytes)));
    else if (hiddenPerTile * bytes < kStepBytes)
      tilesPerSlice = llvm::alignTo(tilesPerSlice, 2);
    stepsPerSlice = parts * tilesPerSlice * hiddenPerTile * bytes / kStepBytes;
    slices = llvm::divideCeil(tilesPerPart, tilesPerSlice);
    if (swapAB)
      cutSteps(schedule.getSplitK());
    if (longBlocks > 0)
      firstUnit = std::max<int64_t>(0, schedule.getBlocks() - getUnits());
  }
  reducers = schedule.getReducers() ? schedule.getReducers() : slices;
  int64_t columns = schedule.getTokens() / 4;
  halfReducers = std::min<int64_t>(llvm::divideCeil(slices, 2), columns);
  fewReducers = halfReducers;
  for (int64_t more = fewReducers + 1; 8 * more <= 5 * slices; ++more)
    if (llvm::divideCeil(columns, more) <
        llvm::divideCeil(columns, fewReducers))
      fewReducers = more;
}

int64_t DecodeTiling::countLong(int64_t tiles, int64_t blocks) {
  int64_t more = tiles % blocks;
  return tiles > blocks && 5 * more <= 2 * blocks ? more : 0;
}

bool DecodeTiling::spreadsGemm2Only(tile::ScheduleAttr schedule) const {
  int64_t stages = schedule.getMaxInFlight() ? schedule.getMaxInFlight()
                                             : schedule.getWeightStages();
  return gemm1Blocks < schedule.getBlocks() &&
         gemm1Blocks * stages * schedule.getGemm1Bytes() >= kSaturatingBytes;
}

std::string DecodeTiling::getProblem() const {
  int64_t last = steps2 - (slices - 1) * stepsPerSlice;
  for (int64_t steps : {stepsPerSlice, last})
    if (steps % getStepsPerStage() != 0)
      return ("a K-slice of " + Twine(steps) +
              " k-steps is not a whole number of " + "stages of " +
              Twine(rows) + " rows")
          .str();
  return "";
}

int64_t fuse::getTokenTile(int64_t tokens, int64_t gemm1TileM) {
  return llvm::alignTo(tokens, gemm1TileM == 192 ? 16 : 8);
}

int64_t fuse::getTokenStageBytes(const MlpProblem &problem, int64_t tokens) {
  if (!problem.hasBlockScales())
    return tokens * kStepBytes;
  // The swizzle needs stages of whole 1024 bytes.
  return llvm::alignTo(tokens * (kStepBytes + 4), 1024);
}

int64_t fuse::getScaleScratchBytes(const MlpProblem &problem,
                                   const DecodeTiling &tiling,
                                   tile::ScheduleAttr schedule) {
  if (!problem.quant)
    return 0;
  int64_t largest =
      problem.hasGemm1() ? kConsumerWarps * schedule.getTokens() : 0;
  if (problem.hasTokenScales())
    return 4 * (largest + schedule.getTokens());
  int64_t scales = largest + tiling.stepsPerSlice * tiling.rows / kScaleBlock;
  if (problem.hasGemm1())
    scales += 2 * tiling.countRounds(schedule.getBlocks()) * tiling.steps1;
  return 4 * scales;
}

/// Bytes of a block for mbarriers, sums of rows and the like.
static constexpr int64_t kOtherShared = 2048;

/// The reason why `schedule` is invalid with measured scales, or an empty
/// string.
static std::string getQuantProblem(const MlpProblem &problem,
                                   const DecodeTiling &tiling,
                                   tile::ScheduleAttr schedule) {
  if (schedule.getGemm1TileM() != 256 || tiling.swapAB ||
      schedule.getDeferredEpilogue() || schedule.getTokens() > kMaxWholeTokens)
    return ("measured scales require gemm1_tile_m = 256, at most " +
            Twine(kMaxWholeTokens) +
            " tokens, and neither swap_ab nor deferred_epilogue")
        .str();
  if (problem.hasTokenScales() && schedule.getSmemEpilogue())
    return "measured scales of tokens require smem_epilogue = false";
  int64_t bytes = schedule.getWeightStages() * schedule.getWeightBytes() +
                  schedule.getTokenStages() *
                      getTokenStageBytes(problem, schedule.getTokens()) +
                  getScaleScratchBytes(problem, tiling, schedule) +
                  kOtherShared;
  if (bytes > tile::kMaxSharedBytes)
    return ("stages and measured scales need " + Twine(bytes) +
            " bytes of shared memory, but there are " +
            Twine(tile::kMaxSharedBytes))
        .str();
  return "";
}

std::string fuse::getScheduleProblem(const MlpProblem &problem,
                                     tile::ScheduleAttr schedule) {
  DecodeTiling tiling(problem, schedule);
  if (std::string reason = tiling.getProblem(); !reason.empty())
    return reason;
  if (problem.quant)
    if (std::string reason = getQuantProblem(problem, tiling, schedule);
        !reason.empty())
      return reason;
  int64_t units = tiling.getUnits();
  if (units > schedule.getBlocks())
    return ("GEMM2 has " + Twine(units) + " units for " +
            Twine(schedule.getBlocks()) + " blocks")
        .str();
  if (tiling.reducers > tiling.slices)
    return (Twine(tiling.reducers) + " reducers are more than the " +
            Twine(tiling.slices) + " K-slices that are not empty")
        .str();
  if (schedule.getStragglerInFlight() && problem.hasGemm1() &&
      !tiling.sharesGemm1Evenly())
    return ("straggler_in_flight requires equally many GEMM1 tiles for each "
            "block, but there are " +
            Twine(tiling.tiles1) + " tiles for " + Twine(tiling.gemm1Blocks) +
            " blocks")
        .str();
  if (problem.tokens && *problem.tokens > schedule.getTokens())
    return ("the schedule is for " + Twine(schedule.getTokens()) +
            " tokens, the op has " + Twine(*problem.tokens))
        .str();
  if (schedule.getPartials().isBF16() &&
      problem.rounding.getMode() == RoundingMode::Exact)
    return "partial sums in bf16 are not in the exact contract";
  if (schedule.getPartials().isBF16() && problem.hasPartials())
    return "partial sums in bf16 would round a result in f32";
  // A tile of the hidden layer reuses the memory of the last token stages.
  int64_t stages = tiling.getHiddenStages();
  if (schedule.getSmemEpilogue() &&
      stages > std::min(schedule.getTokenStages(), tiling.steps1))
    return ("a tile of the hidden layer needs " + Twine(stages) +
            " token stages, but there are " +
            Twine(std::min(schedule.getTokenStages(), tiling.steps1)))
        .str();
  if (tiling.swapAB && !problem.hasGemm1())
    return "swap_ab = true requires GEMM1";
  if (tiling.groupsPerTile > tiling.groups)
    return ("tiles of " + Twine(tiling.gemm1TileM) +
            " rows are more than the " + Twine(tiling.groups * kGroupRows) +
            " of GEMM1")
        .str();
  if (tiling.hasSingle() && !problem.hasGemm1())
    return "gemm1_tile_m = 192 requires GEMM1";
  if (tiling.hasSingle() && tiling.tiles1 > schedule.getBlocks())
    return ("gemm1_tile_m = 192 requires a block for each tile, but there "
            "are " +
            Twine(tiling.tiles1) + " tiles for " + Twine(schedule.getBlocks()) +
            " blocks")
        .str();
  if (tiling.hasSingle() && !canDefer(problem))
    return "gemm1_tile_m = 192 rounds gate and up to bf16, but the contract "
           "keeps "
           "one in f32";
  if (!schedule.getDeferredEpilogue())
    return "";
  if (!canDefer(problem))
    return "deferred_epilogue rounds gate and up to bf16, but the contract "
           "keeps "
           "one in f32";
  if (stages > 1)
    return ("a deferred tile of the hidden layer needs " + Twine(stages) +
            " token stages, but there is room for 1")
        .str();
  if (tiling.tilesPerPart > schedule.getBlocks())
    return ("deferred_epilogue requires a block for each two tiles, but there "
            "are " +
            Twine(tiling.tiles1) + " tiles for " + Twine(schedule.getBlocks()) +
            " blocks")
        .str();
  int64_t covered = tiling.slices * tiling.stepsPerSlice;
  if (covered != tiling.steps2 ||
      tiling.tiles1 * tiling.hiddenPerTile != problem.hidden)
    return (Twine(tiling.slices) + " K-slices of " +
            Twine(tiling.stepsPerSlice) +
            " k-steps in two parts do not cover the " + Twine(problem.hidden) +
            " hidden units exactly")
        .str();
  return "";
}

bool fuse::canDefer(const MlpProblem &problem) {
  return problem.hasGemm1() && problem.roundsAt(RoundingPoint::Up) &&
         (!problem.isGated() || problem.roundsAt(RoundingPoint::Gate));
}
