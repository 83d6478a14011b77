//===- TileScheduleFormat.cpp - Text of schedules -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Schedules are written by hand and read from tables, so that a field that does
// not exist is an error that lists those that do, which the formats that
// TableGen makes do not. The fields of an attribute are named once, for its
// parser and its printer.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectImplementation.h"
#include "tile/IR/TileDialect.h"
#include "tile/IR/TileTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tile;

namespace {

/// Parses `<name = value, ...>` in any order.
class FieldsParser {
public:
  FieldsParser(AsmParser &parser, StringRef attribute)
      : parser(parser), attribute(attribute) {}

  template <typename T>
  void operator()(StringRef name, T &value) {
    fields.push_back(
        {name, [this, name, &value] { return parseValue(name, value); }});
  }
  /// A field that may be missing.
  template <typename T>
  void operator()(StringRef name, T &value, T otherwise) {
    value = otherwise;
    (*this)(name, value);
    fields.back().isOptional = true;
  }

  ParseResult parse() {
    SMLoc begin = parser.getCurrentLocation();
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                       [&] { return parseField(); }))
      return failure();
    for (const Field &field : fields)
      if (!field.isGiven && !field.isOptional)
        return parser.emitError(begin)
               << attribute << " lacks its field '" << field.name << "'";
    return success();
  }

private:
  struct Field {
    StringRef name;
    std::function<ParseResult()> parse;
    bool isGiven = false, isOptional = false;
  };

  ParseResult parseField() {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    auto *field = llvm::find_if(
        fields, [&](const Field &field) { return field.name == name; });
    if (field == fields.end())
      return parser.emitError(loc)
             << attribute << " has no field '" << name << "'; expected one of "
             << llvm::join(llvm::map_range(
                               fields, [](const Field &f) { return f.name; }),
                           ", ");
    if (field->isGiven)
      return parser.emitError(loc)
             << "field '" << name << "' of " << attribute << " is given twice";
    field->isGiven = true;
    return failure(parser.parseEqual() || field->parse());
  }

  ParseResult parseValue(StringRef, int64_t &value) {
    return parser.parseInteger(value);
  }
  ParseResult parseValue(StringRef, Type &value) {
    return parser.parseType(value);
  }
  ParseResult parseValue(StringRef name, bool &value) {
    StringRef text;
    SMLoc loc = parser.getCurrentLocation();
    if (failed(parser.parseOptionalKeyword(&text, {"true", "false"})))
      return parser.emitError(loc) << "field '" << name << "' of " << attribute
                                   << " is neither true nor false";
    value = text == "true";
    return success();
  }
  ParseResult parseValue(StringRef name, CachePolicy &value) {
    StringRef text;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&text))
      return failure();
    if (std::optional<CachePolicy> policy = symbolizeCachePolicy(text)) {
      value = *policy;
      return success();
    }
    return parser.emitError(loc) << "unknown " << name << " '" << text
                                 << "'; expected one of normal, evict_first, "
                                    "evict_last";
  }

  AsmParser &parser;
  StringRef attribute;
  SmallVector<Field, 0> fields;
};

/// Prints the same, without fields that have their default.
class FieldsPrinter {
public:
  explicit FieldsPrinter(AsmPrinter &printer) : printer(printer) {
    printer << "<";
  }
  ~FieldsPrinter() { printer << ">"; }

  template <typename T>
  void operator()(StringRef name, const T &value) {
    printer << (isFirst ? "" : ", ") << name << " = ";
    isFirst = false;
    if constexpr (std::is_same_v<T, bool>)
      printer << (value ? "true" : "false");
    else if constexpr (std::is_enum_v<T>)
      printer << stringifyEnum(value);
    else
      printer << value;
  }
  template <typename T>
  void operator()(StringRef name, const T &value, const T &otherwise) {
    if (value != otherwise)
      (*this)(name, value);
  }

private:
  AsmPrinter &printer;
  bool isFirst = true;
};

struct DecodeFields {
  int64_t tokens, blocks, splitK, gemm1TileM, rows, weightStages, tokenStages;
  int64_t maxInFlight, stragglerInFlight, l2PrefetchStages,
      publishThrottleStages, publishInFlight, reducers, launches;
  Type partials;
  bool taggedPartials, smemEpilogue, deferredEpilogue, swapAB, dependent;
  CachePolicy hint;

  template <typename Visitor>
  void visit(Visitor &&visit) {
    visit("tokens", tokens);
    visit("blocks", blocks);
    visit("split_k", splitK);
    visit("gemm1_tile_m", gemm1TileM, int64_t(256));
    visit("gemm2_tile_m", rows, int64_t(256));
    visit("weight_stages", weightStages);
    visit("token_stages", tokenStages);
    visit("max_in_flight", maxInFlight);
    visit("straggler_in_flight", stragglerInFlight, int64_t(0));
    visit("l2_prefetch_stages", l2PrefetchStages, int64_t(0));
    visit("publish_throttle_stages", publishThrottleStages, int64_t(0));
    visit("publish_in_flight", publishInFlight, int64_t(0));
    visit("reducers", reducers, int64_t(0));
    visit("partials", partials);
    visit("tagged_partials", taggedPartials, false);
    visit("smem_epilogue", smemEpilogue, false);
    visit("deferred_epilogue", deferredEpilogue, false);
    visit("swap_ab", swapAB, false);
    visit("hint", hint);
    visit("dependent", dependent);
    visit("launches", launches, int64_t(1));
  }
};

struct PrefillFields {
  int64_t tokens, blocks, splitK, rows, stages, group, cluster, launches;
  bool streamK, unevenSplitK, dependent;

  template <typename Visitor>
  void visit(Visitor &&visit) {
    visit("tokens", tokens);
    visit("blocks", blocks);
    visit("split_k", splitK);
    visit("gemm2_tile_m", rows, int64_t(256));
    visit("stages", stages);
    visit("group", group);
    visit("cluster", cluster, int64_t(1));
    visit("launches", launches, int64_t(2));
    visit("stream_k", streamK, false);
    visit("uneven_split_k", unevenSplitK, false);
    visit("dependent", dependent);
  }
};

struct RowFields {
  int64_t blocks, threads;

  template <typename Visitor>
  void visit(Visitor &&visit) {
    visit("blocks", blocks);
    visit("threads", threads);
  }
};

} // namespace

template <typename Fields>
static ParseResult parseFields(AsmParser &parser, StringRef attribute,
                               Fields &fields) {
  FieldsParser visitor(parser, attribute);
  fields.visit(visitor);
  return visitor.parse();
}

Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  DecodeFields f;
  SMLoc loc = parser.getCurrentLocation();
  if (parseFields(parser, "#tile.schedule", f))
    return {};
  return parser.getChecked<ScheduleAttr>(
      loc, parser.getContext(), f.tokens, f.blocks, f.splitK, f.gemm1TileM,
      f.rows, f.weightStages, f.tokenStages, f.maxInFlight, f.stragglerInFlight,
      f.l2PrefetchStages, f.publishThrottleStages, f.publishInFlight,
      f.reducers, f.partials, f.taggedPartials, f.smemEpilogue,
      f.deferredEpilogue, f.swapAB, f.hint, f.dependent, f.launches);
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  DecodeFields{getTokens(),
               getBlocks(),
               getSplitK(),
               getGemm1TileM(),
               getGemm2TileM(),
               getWeightStages(),
               getTokenStages(),
               getMaxInFlight(),
               getStragglerInFlight(),
               getL2PrefetchStages(),
               getPublishThrottleStages(),
               getPublishInFlight(),
               getReducers(),
               getLaunches(),
               getPartials(),
               getTaggedPartials(),
               getSmemEpilogue(),
               getDeferredEpilogue(),
               getSwapAB(),
               getDependent(),
               getHint()}
      .visit(FieldsPrinter(printer));
}

Attribute PrefillScheduleAttr::parse(AsmParser &parser, Type) {
  PrefillFields f;
  SMLoc loc = parser.getCurrentLocation();
  if (parseFields(parser, "#tile.prefill_schedule", f))
    return {};
  return parser.getChecked<PrefillScheduleAttr>(
      loc, parser.getContext(), f.tokens, f.blocks, f.splitK, f.rows, f.stages,
      f.group, f.cluster, f.launches, f.streamK, f.unevenSplitK, f.dependent);
}

void PrefillScheduleAttr::print(AsmPrinter &printer) const {
  PrefillFields{getTokens(),  getBlocks(),       getSplitK(),   getGemm2TileM(),
                getStages(),  getGroup(),        getCluster(),  getLaunches(),
                getStreamK(), getUnevenSplitK(), getDependent()}
      .visit(FieldsPrinter(printer));
}

Attribute RowScheduleAttr::parse(AsmParser &parser, Type) {
  RowFields f;
  SMLoc loc = parser.getCurrentLocation();
  if (parseFields(parser, "#tile.row_schedule", f))
    return {};
  return parser.getChecked<RowScheduleAttr>(loc, parser.getContext(), f.blocks,
                                            f.threads);
}

void RowScheduleAttr::print(AsmPrinter &printer) const {
  RowFields{getBlocks(), getThreads()}.visit(FieldsPrinter(printer));
}
