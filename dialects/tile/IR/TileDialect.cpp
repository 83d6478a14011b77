//===- TileDialect.cpp - Types and attributes of the tile dialect ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tile/IR/TileDialect.h"
#include "fuse/Support/IRVersion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "tile/IR/TileOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tile;

#include "tile/IR/TileDialect.cpp.inc"

#include "tile/IR/TileEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tile/IR/TileAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "tile/IR/TileTypes.cpp.inc"

namespace {

/// Host code with launches may be inlined.
struct TileInlinerInterface : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final {
    return true;
  }
};

} // namespace

void TileDialect::initialize() {
  fuse::addVersionInterface(this);
  addInterfaces<TileInlinerInterface>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tile/IR/TileAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "tile/IR/TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tile/IR/TileOps.cpp.inc"
      >();
}

LogicalResult TileDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  if (attr.getName() == kScheduleAttrName || attr.getName() == kRolledAttrName)
    return success();
  return op->emitOpError() << "has the unknown attribute '"
                           << attr.getName().getValue() << "': expected "
                           << kScheduleAttrName << " or " << kRolledAttrName;
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

int64_t ScheduleAttr::getSharedBytes() const {
  return getWeightStages() * getWeightBytes() +
         getTokenStages() * getTokens() * 128;
}

LogicalResult ScheduleAttr::verify(
    function_ref<InFlightDiagnostic()> emitError, int64_t tokens,
    int64_t blocks, int64_t splitK, int64_t gemm1TileM, int64_t rows,
    int64_t weightStages, int64_t tokenStages, int64_t maxInFlight,
    int64_t stragglerInFlight, int64_t l2PrefetchStages,
    int64_t publishThrottleStages, int64_t publishInFlight, int64_t reducers,
    Type partials, bool taggedPartials, bool smemEpilogue,
    bool deferredEpilogue, bool swapAB, CachePolicy, bool) {
  if (tokens < 8 || tokens > 256 || tokens % 8 != 0)
    return emitError() << "tokens = " << tokens
                       << " is not a multiple of 8 from 8 to 256";
  if (blocks < 1 || blocks > 65535)
    return emitError() << "blocks = " << blocks << " is not from 1 to 65535";
  if (splitK < 1 || splitK > blocks)
    return emitError() << "split_k = " << splitK
                       << " is not from 1 to blocks = " << blocks;
  if (rows != 128 && rows != 256)
    return emitError() << "gemm2_tile_m = " << rows << " is not 128 or 256";
  if (swapAB && (gemm1TileM < 32 || gemm1TileM > 256 || gemm1TileM % 32 != 0))
    return emitError() << "gemm1_tile_m = " << gemm1TileM
                       << " is not a multiple of 32 from 32 to 256, as swap_ab "
                          "requires";
  if (swapAB && (tokens <= 64 || tokens > 128))
    return emitError() << "swap_ab is for 72 to 128 tokens, 64 for each of two "
                          "warpgroups, not "
                       << tokens;
  if (swapAB && (smemEpilogue || deferredEpilogue))
    return emitError() << "swap_ab requires neither smem_epilogue nor "
                          "deferred_epilogue";
  if (!swapAB && gemm1TileM != 128 && gemm1TileM != 192 && gemm1TileM != 256)
    return emitError() << "gemm1_tile_m = " << gemm1TileM
                       << " is not 128, 192 or 256";
  if (gemm1TileM < 256 && rows != 128)
    return emitError() << "gemm1_tile_m = " << gemm1TileM
                       << " requires gemm2_tile_m = 128, not " << rows;
  // A thread has tokens / 2 accumulators per 64 rows of its warpgroup.
  if (tokens > 128 && gemm1TileM != 128)
    return emitError() << "tokens = " << tokens
                       << " requires gemm1_tile_m = 128, not " << gemm1TileM;
  // Each warpgroup handles whole groups of eight in half of the tokens.
  bool isTile192 = gemm1TileM == 192 && !swapAB;
  if (isTile192 && (!smemEpilogue || tokens % 16 != 0))
    return emitError() << "gemm1_tile_m = 192 requires smem_epilogue and a "
                          "multiple of 16 tokens, not "
                       << tokens;
  if (deferredEpilogue && (!smemEpilogue || gemm1TileM != 128))
    return emitError() << "deferred_epilogue requires smem_epilogue and "
                          "gemm1_tile_m = 128, not "
                       << gemm1TileM;
  if (weightStages < 2 || weightStages > 64 || tokenStages < 2 ||
      tokenStages > 64)
    return emitError() << "weight_stages = " << weightStages
                       << ", token_stages = " << tokenStages
                       << ": a ring has 2 to 64 stages";
  if (maxInFlight < 0 || maxInFlight > weightStages)
    return emitError() << "max_in_flight = " << maxInFlight
                       << " is not from 0 to weight_stages = " << weightStages;
  if (stragglerInFlight != 0 &&
      (maxInFlight == 0 || stragglerInFlight <= maxInFlight ||
       stragglerInFlight > weightStages))
    return emitError() << "straggler_in_flight = " << stragglerInFlight
                       << " is not more than max_in_flight = " << maxInFlight
                       << ", from 1, and at most weight_stages = "
                       << weightStages;
  if (l2PrefetchStages < 0 || l2PrefetchStages > 64)
    return emitError() << "l2_prefetch_stages = " << l2PrefetchStages
                       << " is not from 0 to 64";
  if (publishThrottleStages < 0 || publishThrottleStages > 64)
    return emitError() << "publish_throttle_stages = " << publishThrottleStages
                       << " is not from 0 to 64";
  if (publishThrottleStages > 0 && maxInFlight < 2)
    return emitError()
           << "publish_throttle_stages requires max_in_flight = 2 or more, not "
           << maxInFlight;
  if (publishThrottleStages > 0 && deferredEpilogue)
    return emitError() << "publish_throttle_stages requires "
                          "deferred_epilogue = false";
  if (publishInFlight < 0 ||
      publishInFlight > std::max<int64_t>(maxInFlight - 1, 0) ||
      (publishInFlight > 0 && publishThrottleStages == 0))
    return emitError() << "publish_in_flight = " << publishInFlight
                       << " is not less than max_in_flight = " << maxInFlight
                       << ", of publish_throttle_stages = "
                       << publishThrottleStages << " stages";
  if (reducers < 0 || reducers > splitK)
    return emitError() << "reducers = " << reducers
                       << " is not from 0 to split_k = " << splitK;
  if (deferredEpilogue && tokens > kMaxDeferredTokens)
    return emitError() << "deferred_epilogue is for at most "
                       << kMaxDeferredTokens << " tokens, not " << tokens;
  // A stage of 128 rows uses two token stages, and one group of products
  // remains in flight.
  if (rows == 128 && gemm1TileM == 256 && tokenStages < 3)
    return emitError()
           << "token_stages = " << tokenStages
           << " is less than the 3 that gemm2_tile_m = 128 requires";
  // A k-step uses two stages, and one group of products remains in flight.
  if (isTile192 && weightStages < 4)
    return emitError()
           << "weight_stages = " << weightStages
           << " is less than the 4 that gemm1_tile_m = 192 requires";
  if (!partials || !(partials.isF32() || partials.isBF16()))
    return emitError() << "partials = " << partials << " is not f32 or bf16";
  if (taggedPartials && !partials.isF32())
    return emitError() << "tagged_partials requires partials = f32, not "
                       << partials;
  // Mbarriers and reduction scratch use static shared memory in addition to the
  // rings.
  int64_t stageRows = swapAB              ? std::max<int64_t>(gemm1TileM, 128)
                      : gemm1TileM == 256 ? 256
                                          : 128;
  int64_t bytes = weightStages * stageRows * 128 +
                  (tokenStages + deferredEpilogue) * tokens * 128;
  if (bytes > kMaxSharedBytes - 2048)
    return emitError() << "rings of " << bytes << " bytes do not fit into the "
                       << kMaxSharedBytes - 2048
                       << " bytes of shared memory that they can use";
  return success();
}

LogicalResult
PrefillScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                            int64_t tokens, int64_t blocks, int64_t splitK,
                            int64_t rows, int64_t stages, int64_t group,
                            int64_t cluster, int64_t launches, bool streamK,
                            bool unevenSplitK, bool dependent) {
  if (tokens < 1 || tokens > kMaxPrefillTokens)
    return emitError() << "tokens = " << tokens << " is not from 1 to "
                       << kMaxPrefillTokens;
  if (cluster != 1 && cluster != 2)
    return emitError() << "cluster = " << cluster << " is not 1 or 2";
  if (blocks < 1 || blocks > 65535 || blocks % cluster != 0)
    return emitError() << "blocks = " << blocks
                       << " is not a multiple of cluster = " << cluster
                       << " from 1 to 65535";
  if (splitK < 1 || splitK > 16)
    return emitError() << "split_k = " << splitK << " is not from 1 to 16";
  if (rows != 128 && rows != 256)
    return emitError() << "gemm2_tile_m = " << rows << " is not 128 or 256";
  // Mbarriers use static shared memory in addition to the ring.
  int64_t most = (kMaxSharedBytes - 2048) / ((128 + 256) * 128);
  if (stages < 2 || stages > most)
    return emitError() << "stages = " << stages << " is not from 2 to " << most;
  if (group < 1)
    return emitError() << "group = " << group << " is less than 1";
  if (launches != 1 && launches != 2)
    return emitError() << "launches = " << launches << " is not 1 or 2";
  if (launches == 1 && rows != 256)
    return emitError() << "launches = 1 needs gemm2_tile_m = 256, not " << rows;
  if (streamK && launches != 1)
    return emitError() << "stream_k = true needs launches = 1, not "
                       << launches;
  if (unevenSplitK && (launches != 1 || splitK == 1 || cluster != 1 || streamK))
    return emitError()
           << "uneven_split_k = true needs launches = 1, split_k > 1, "
              "cluster = 1 and stream_k = false, not "
           << launches << ", " << splitK << ", " << cluster << " and "
           << (streamK ? "true" : "false");
  return success();
}

LogicalResult
MmaScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t tokens, int64_t tokenTile, int64_t blocks,
                        int64_t splitK, int64_t gemm1TileM, int64_t gemm2TileM,
                        int64_t stages, int64_t group, int64_t launches) {
  if (tokens < 1 || tokens > kMaxPrefillTokens)
    return emitError() << "tokens = " << tokens << " is not from 1 to "
                       << kMaxPrefillTokens;
  if (tokenTile < 8 || tokenTile > 128 || tokenTile % 8 != 0)
    return emitError() << "token_tile = " << tokenTile
                       << " is not a multiple of 8 from 8 to 128";
  if (blocks < 1 || blocks > 65535)
    return emitError() << "blocks = " << blocks << " is not from 1 to 65535";
  if (splitK < 1 || splitK > 64)
    return emitError() << "split_k = " << splitK << " is not from 1 to 64";
  for (auto [name, rows] : {std::pair("gemm1_tile_m", gemm1TileM),
                            std::pair("gemm2_tile_m", gemm2TileM)})
    if (rows < 64 || rows > 256 || rows % 64 != 0)
      return emitError() << name << " = " << rows
                         << " is not 64, 128, 192 or 256";
  if (group < 1 || group > kMaxPrefillTokens)
    return emitError() << "group = " << group << " is not from 1 to "
                       << kMaxPrefillTokens;
  if (launches != 1 && launches != 3)
    return emitError() << "launches = " << launches << " is not 1 or 3";
  if (launches == 1 && tokens > tokenTile)
    return emitError() << "launches = 1 requires at most token_tile = "
                       << tokenTile << " tokens, not " << tokens;
  // Sums over rows use static shared memory in addition to the pipeline.
  int64_t most = (kMaxSharedBytes - 2048) /
                 ((std::max(gemm1TileM, gemm2TileM) + tokenTile) * 128);
  if (stages < 2 || stages > most)
    return emitError() << "stages = " << stages << " is not from 2 to " << most;
  return success();
}

LogicalResult
RowScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t blocks, int64_t threads) {
  if (blocks < 1 || blocks > 65535)
    return emitError() << "blocks = " << blocks << " is not from 1 to 65535";
  if (threads < 32 || threads > 1024 || threads % 32 != 0)
    return emitError() << "threads = " << threads
                       << " is not a multiple of 32 from 32 to 1024";
  return success();
}

std::string tile::getBoundsProblem(ArrayRef<int64_t> bounds) {
  if (bounds.empty())
    return "there is no range of tokens";
  int64_t before = 0;
  for (int64_t bound : bounds) {
    if (bound <= before)
      return ("the range up to " + Twine(bound) + " tokens is empty: the one " +
              "before ends at " + Twine(before))
          .str();
    before = bound;
  }
  if (before > kMaxPrefillTokens)
    return ("ranges end at " + Twine(before) + " tokens, not at most at " +
            Twine(kMaxPrefillTokens))
        .str();
  return "";
}

Attribute DispatchAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> bounds;
  SmallVector<Attribute> schedules;
  SMLoc loc = parser.getCurrentLocation();
  auto parseRange = [&]() -> ParseResult {
    return failure(parser.parseInteger(bounds.emplace_back()) ||
                   parser.parseColon() ||
                   parser.parseAttribute(schedules.emplace_back()));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseRange))
    return {};
  return parser.getChecked<DispatchAttr>(loc, parser.getContext(), bounds,
                                         schedules);
}

void DispatchAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(llvm::zip_equal(getBounds(), getSchedules()), printer,
                        [&](const auto &range) {
                          printer << std::get<0>(range) << " : "
                                  << std::get<1>(range);
                        });
  printer << ">";
}

LogicalResult DispatchAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<int64_t> bounds,
                                   ArrayRef<Attribute> schedules) {
  if (bounds.size() != schedules.size())
    return emitError() << "there are " << bounds.size() << " ranges and "
                       << schedules.size() << " schedules";
  if (std::string problem = getBoundsProblem(bounds); !problem.empty())
    return emitError() << problem;
  for (auto [bound, schedule] : llvm::zip_equal(bounds, schedules)) {
    int64_t tokens = 0;
    if (auto decode = dyn_cast<ScheduleAttr>(schedule))
      tokens = decode.getTokens();
    else if (auto prefill = dyn_cast<PrefillScheduleAttr>(schedule))
      tokens = prefill.getTokens();
    else if (auto mma = dyn_cast<MmaScheduleAttr>(schedule))
      tokens = mma.getTokens();
    else
      return emitError() << schedule << " of the range up to " << bound
                         << " tokens is not #tile.schedule, "
                            "#tile.prefill_schedule or #tile.mma_schedule";
    if (tokens < bound)
      return emitError() << "the range up to " << bound
                         << " tokens has a schedule for " << tokens;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

LogicalResult RingType::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t stages, int64_t bytes) {
  if (stages < 1 || stages > 64)
    return emitError() << "a ring of " << stages << " stages: expected 1 to 64";
  if (bytes < 0 || bytes % 1024 != 0 || bytes > kMaxSharedBytes)
    return emitError() << "a stage of " << bytes
                       << " bytes: expected a multiple of 1024 up to "
                       << kMaxSharedBytes;
  return success();
}

/// Parses `rows x columns x element` after `<`.
static ParseResult parseShape(AsmParser &parser, int64_t &rows,
                              int64_t &columns, Type &element) {
  SmallVector<int64_t> shape;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element))
    return failure();
  if (shape.size() != 2)
    return parser.emitError(loc, "expected two dimensions, got ")
           << shape.size();
  rows = shape[0];
  columns = shape[1];
  return success();
}

Type SharedType::parse(AsmParser &parser) {
  int64_t rows, columns, swizzle;
  Type element;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseShape(parser, rows, columns, element) ||
      parser.parseComma() || parser.parseKeyword("swizzle") ||
      parser.parseInteger(swizzle) || parser.parseGreater())
    return Type();
  return parser.getChecked<SharedType>(loc, parser.getContext(), rows, columns,
                                       element, swizzle);
}

void SharedType::print(AsmPrinter &printer) const {
  printer << "<" << getRows() << "x" << getColumns() << "x" << getElementType()
          << ", swizzle " << getSwizzle() << ">";
}

LogicalResult SharedType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t rows, int64_t columns, Type element,
                                 int64_t swizzle) {
  if (!isa<Float8E4M3FNType, BFloat16Type>(element))
    return emitError() << "element type " << element
                       << ": expected f8E4M3FN or bf16";
  if (swizzle != 128)
    return emitError() << "swizzle " << swizzle << ": expected 128";
  if (columns != 128 * 8 / element.getIntOrFloatBitWidth())
    return emitError() << "rows of " << columns << " x " << element
                       << ": expected 128 bytes";
  if (rows < 8 || rows > 256 || rows % 8 != 0)
    return emitError() << rows
                       << " rows: expected a multiple of 8 from 8 to 256";
  return success();
}

Type AccType::parse(AsmParser &parser) {
  int64_t rows, columns;
  Type element;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseShape(parser, rows, columns, element) ||
      parser.parseGreater())
    return Type();
  return parser.getChecked<AccType>(loc, parser.getContext(), rows, columns,
                                    element);
}

void AccType::print(AsmPrinter &printer) const {
  printer << "<" << getRows() << "x" << getColumns() << "x" << getElementType()
          << ">";
}

LogicalResult AccType::verify(function_ref<InFlightDiagnostic()> emitError,
                              int64_t rows, int64_t columns, Type element) {
  if (rows != 64)
    return emitError() << rows << " rows: expected 64";
  if (columns < 8 || columns > 256 || columns % 8 != 0)
    return emitError() << columns
                       << " columns: expected a multiple of 8 from 8 to 256";
  if (!element.isF32())
    return emitError() << "element type " << element << ": expected f32";
  return success();
}
