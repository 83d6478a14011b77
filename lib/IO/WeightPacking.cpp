//===- WeightPacking.cpp - Convert checkpoints to kernel layouts ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files are mapped, and one tensor at a time is in memory.
//
//===----------------------------------------------------------------------===//

#include "fuse/IO/WeightPacking.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"

#include <cmath>

using namespace llvm;
using namespace fuse;
using Entry = SafetensorsFile::Entry;

static constexpr StringLiteral kHeaderKey = "fuse.header";
static constexpr StringLiteral kRecipesKey = "fuse.recipes";

//===----------------------------------------------------------------------===//
// Recipes as JSON
//===----------------------------------------------------------------------===//

static StringRef getKindName(WeightRecipe::Kind kind) {
  switch (kind) {
  case WeightRecipe::Concat:
    return "concat";
  case WeightRecipe::Interleave:
    return "interleave";
  case WeightRecipe::Fold:
    return "fold";
  case WeightRecipe::Quantize:
    return "quantize";
  case WeightRecipe::Transpose:
    return "transpose";
  }
  llvm_unreachable("all kinds have a name");
}

/// Data for the conversion back. Recipes that round keep their sources.
static json::Value toJSON(const WeightRecipe &recipe) {
  return json::Object{{"name", recipe.name},
                      {"kind", getKindName(recipe.kind)},
                      {"sources", json::Array(recipe.sources)},
                      {"keep", recipe.keep},
                      {"block", recipe.block}};
}

static Expected<std::vector<WeightRecipe>> parseRecipes(StringRef text) {
  Expected<json::Value> parsed = parseShallowJSON(text);
  if (!parsed)
    return parsed.takeError();
  auto fail = [] {
    return createStringError("the recipes of the file are damaged");
  };
  const json::Array *list = parsed->getAsArray();
  if (!list)
    return fail();
  std::vector<WeightRecipe> recipes;
  for (const json::Value &value : *list) {
    const json::Object *object = value.getAsObject();
    if (!object)
      return fail();
    std::optional<StringRef> name = object->getString("name");
    std::optional<StringRef> kind = object->getString("kind");
    std::optional<int64_t> block = object->getInteger("block");
    const json::Array *sources = object->getArray("sources");
    if (!name || !kind || !block || !sources)
      return fail();
    WeightRecipe recipe;
    recipe.name = name->str();
    recipe.block = *block;
    recipe.keep = object->getBoolean("keep").value_or(false);
    auto known = StringSwitch<std::optional<WeightRecipe::Kind>>(*kind)
                     .Case("concat", WeightRecipe::Concat)
                     .Case("interleave", WeightRecipe::Interleave)
                     .Case("fold", WeightRecipe::Fold)
                     .Case("quantize", WeightRecipe::Quantize)
                     .Case("transpose", WeightRecipe::Transpose)
                     .Default(std::nullopt);
    if (!known)
      return fail();
    recipe.kind = *known;
    for (const json::Value &source : *sources) {
      std::optional<StringRef> sourceName = source.getAsString();
      if (!sourceName)
        return fail();
      recipe.sources.push_back(sourceName->str());
    }
    if (recipe.sources.empty() ||
        (recipe.kind == WeightRecipe::Interleave && recipe.block < 1))
      return fail();
    recipes.push_back(std::move(recipe));
  }
  return recipes;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Type, shape and offsets of a tensor in the form of the header.
static json::Value describe(StringRef dtype, ArrayRef<int64_t> shape,
                            uint64_t begin, uint64_t end) {
  return json::Object{
      {"dtype", dtype},
      {"shape", json::Array(shape)},
      {"data_offsets", json::Array{int64_t(begin), int64_t(end)}}};
}

static void writeHeader(StringRef header, raw_ostream &os) {
  char length[8];
  support::endian::write64le(length, header.size());
  os.write(length, sizeof(length));
  os << header;
}

static int64_t getRows(const Entry &entry) {
  return entry.shape.empty() ? 1 : entry.shape.front();
}

namespace {

/// A recipe with its source tensors.
struct Step {
  const WeightRecipe *recipe;
  std::vector<const Entry *> sources;
  /// Type of the result.
  std::string dtype;
  SmallVector<int64_t> shape;
  uint64_t bytes = 0;
};

} // namespace

/// Computes type and shape of a recipe's result.
static Error inferResult(Step &step) {
  const WeightRecipe &recipe = *step.recipe;
  const Entry &first = *step.sources.front();
  auto fail = [&](const Twine &why) {
    return createStringError("recipe '" + recipe.name + "' " + why);
  };
  step.dtype = first.dtype;
  step.shape = first.shape;
  step.bytes = first.data.size();
  auto isFloating = [](const Entry &entry) {
    std::optional<ElementType> type = parseSafetensorsType(entry.dtype);
    return type && isFloat(*type);
  };
  switch (recipe.kind) {
  case WeightRecipe::Concat:
  case WeightRecipe::Interleave:
    for (unsigned i = 0; i < step.sources.size(); ++i) {
      const Entry &other = *step.sources[i];
      if (other.shape.empty() || other.dtype != first.dtype ||
          ArrayRef(other.shape).drop_front() !=
              ArrayRef(first.shape).drop_front())
        return fail("has sources of different types or widths");
      if (recipe.kind == WeightRecipe::Interleave &&
          (getRows(other) != getRows(first) ||
           getRows(other) % recipe.block != 0))
        return fail("reads blocks of " + Twine(recipe.block) + " rows, '" +
                    recipe.sources[i] + "' has " + Twine(getRows(other)));
      if (i > 0) {
        step.shape[0] += getRows(other);
        step.bytes += other.data.size();
      }
    }
    return Error::success();
  case WeightRecipe::Transpose:
    if (first.shape.size() != 2)
      return fail("requires a matrix, but '" + recipe.sources[0] + "' has " +
                  Twine(first.shape.size()) + " dimensions");
    std::swap(step.shape[0], step.shape[1]);
    return Error::success();
  case WeightRecipe::Fold:
    if (first.shape.size() != 2 || step.sources[1]->shape.size() != 1 ||
        first.shape[1] != step.sources[1]->shape[0] || !isFloating(first) ||
        !isFloating(*step.sources[1]))
      return fail("requires a matrix and a vector with one number per column");
    return Error::success();
  case WeightRecipe::Quantize:
    if (!isFloating(first))
      return fail("requires floating-point numbers, but '" + recipe.sources[0] +
                  "' has " + first.dtype);
    step.bytes = 1;
    for (int64_t size : step.shape)
      step.bytes *= size;
    step.dtype = getSafetensorsType(recipe.storage).str();
    return Error::success();
  }
  llvm_unreachable("all kinds have a result");
}

/// Writes `block` rows of each source in turn.
static void writeInterleaved(const Step &step, raw_ostream &os) {
  int64_t rows = getRows(*step.sources.front());
  for (int64_t row = 0; row < rows; row += step.recipe->block)
    for (const Entry *source : step.sources) {
      size_t rowBytes = source->data.size() / rows;
      os << source->data.substr(row * rowBytes, step.recipe->block * rowBytes);
    }
}

/// Writes the transpose of a matrix with `rows` rows.
static void writeTransposed(StringRef data, int64_t rows, int64_t columns,
                            raw_ostream &os) {
  if (data.empty())
    return;
  size_t bytes = data.size() / (rows * columns);
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row)
      os << data.substr((row * columns + column) * bytes, bytes);
}

static Expected<HostTensor> load(const Entry &entry) {
  Expected<HostTensor> tensor =
      HostTensor::create(*parseSafetensorsType(entry.dtype), entry.shape);
  if (tensor && !entry.data.empty())
    std::memcpy(tensor->getData(), entry.data.data(), entry.data.size());
  return tensor;
}

/// Writes a matrix with every column scaled by a number. Products are exact in
/// f64 and rounded once.
static Error writeFolded(const Step &step, raw_ostream &os) {
  Expected<HostTensor> matrix = load(*step.sources[0]);
  if (!matrix)
    return matrix.takeError();
  Expected<HostTensor> vector = load(*step.sources[1]);
  if (!vector)
    return vector.takeError();
  int64_t columns = vector->getNumElements();
  for (int64_t i = 0; i < matrix->getNumElements(); ++i)
    matrix->set(i, matrix->get(i) * (double(step.recipe->offset) +
                                     vector->get(i % columns)));
  os.write(matrix->getData(), matrix->getNumBytes());
  return Error::success();
}

/// Smallest and largest finite value of a type in which weights are stored.
static std::pair<double, double> getRange(ElementType type) {
  if (type == ElementType::F8E4M3FN)
    return {-448.0, 448.0};
  if (type == ElementType::F8E5M2)
    return {-57344.0, 57344.0};
  return {-128.0, 127.0};
}

/// Multiplies by the f32 reciprocal of the scale, as `fuse.quantize` does.
static Error writeQuantized(const Step &step, raw_ostream &os) {
  Expected<HostTensor> real = load(*step.sources[0]);
  if (!real)
    return real.takeError();
  Expected<HostTensor> stored =
      HostTensor::create(step.recipe->storage, step.shape);
  if (!stored)
    return stored.takeError();
  auto [least, most] = getRange(step.recipe->storage);
  float reciprocal = 1.0f / static_cast<float>(step.recipe->scale);
  for (int64_t i = 0; i < real->getNumElements(); ++i) {
    double value = static_cast<float>(real->get(i)) * reciprocal;
    if (std::isnan(value))
      return createStringError("recipe '" + step.recipe->name + "': element " +
                               Twine(i) + " of '" + step.recipe->sources[0] +
                               "' is NaN");
    stored->set(i, std::min(std::max(value, least), most));
  }
  os.write(stored->getData(), stored->getNumBytes());
  return Error::success();
}

static Error writeResult(const Step &step, raw_ostream &os) {
  switch (step.recipe->kind) {
  case WeightRecipe::Concat:
    for (const Entry *source : step.sources)
      os << source->data;
    return Error::success();
  case WeightRecipe::Interleave:
    writeInterleaved(step, os);
    return Error::success();
  case WeightRecipe::Transpose:
    writeTransposed(step.sources[0]->data, step.shape[1], step.shape[0], os);
    return Error::success();
  case WeightRecipe::Fold:
    return writeFolded(step, os);
  case WeightRecipe::Quantize:
    return writeQuantized(step, os);
  }
  llvm_unreachable("all kinds are written");
}

Error fuse::packWeights(const SafetensorsFile &checkpoint,
                        ArrayRef<WeightRecipe> recipes,
                        const StringMap<std::string> &ties, raw_ostream &os) {
  if (checkpoint.getMetadata(kRecipesKey))
    return createStringError("the checkpoint is packed already; unpack it "
                             "first");
  std::vector<Step> steps;
  StringSet<> packed, kept;
  json::Array recorded;
  std::vector<WeightRecipe> resolved(recipes.begin(), recipes.end());
  for (WeightRecipe &recipe : resolved) {
    Step step{&recipe, {}, {}, {}};
    for (std::string &source : recipe.sources) {
      auto tie = ties.find(source);
      if (!checkpoint.lookup(source) && tie != ties.end())
        source = tie->second;
      const Entry *entry = checkpoint.lookup(source);
      if (!entry)
        return createStringError("the checkpoint has no tensor '" + source +
                                 "' for recipe '" + recipe.name + "'");
      step.sources.push_back(entry);
      (recipe.keep ? kept : packed).insert(source);
    }
    if (Error error = inferResult(step))
      return error;
    if (checkpoint.lookup(recipe.name))
      return createStringError("the checkpoint has a tensor '" + recipe.name +
                               "', the name of a recipe");
    steps.push_back(std::move(step));
    recorded.push_back(toJSON(recipe));
  }

  // Tensors that stay keep their order.
  std::vector<StringRef> names;
  for (StringRef name : checkpoint.getNames())
    if (!packed.contains(name) || kept.contains(name))
      names.push_back(name);
  llvm::sort(names, [&](StringRef a, StringRef b) {
    return std::pair(checkpoint.lookup(a)->data.data(), a) <
           std::pair(checkpoint.lookup(b)->data.data(), b);
  });
  std::string text, recipeText;
  raw_string_ostream(recipeText) << json::Value(std::move(recorded));
  raw_string_ostream stream(text);
  json::OStream json(stream);
  uint64_t offset = 0;
  json.object([&] {
    json.attribute("__metadata__",
                   json::Object{{kHeaderKey, checkpoint.getHeader()},
                                {kRecipesKey, recipeText}});
    auto add = [&](StringRef name, StringRef dtype, ArrayRef<int64_t> shape,
                   uint64_t bytes) {
      json.attribute(name, describe(dtype, shape, offset, offset + bytes));
      offset += bytes;
    };
    for (StringRef name : names) {
      const Entry &entry = *checkpoint.lookup(name);
      add(name, entry.dtype, entry.shape, entry.data.size());
    }
    for (const Step &step : steps)
      add(step.recipe->name, step.dtype, step.shape, step.bytes);
  });
  // Data begin at a multiple of 8 bytes.
  text.append((8 - text.size() % 8) % 8, ' ');
  writeHeader(text, os);
  for (StringRef name : names)
    os << checkpoint.lookup(name)->data;
  for (const Step &step : steps)
    if (Error error = writeResult(step, os))
      return error;
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Converting back
//===----------------------------------------------------------------------===//

namespace {

/// A tensor of the checkpoint to restore.
struct Wanted {
  std::string name, dtype;
  SmallVector<int64_t> shape;
  uint64_t begin, end;

  int64_t getRows() const { return shape.empty() ? 1 : shape.front(); }
};

} // namespace

/// Parses the header of a checkpoint. The result is ordered by offset.
static Expected<std::vector<Wanted>> parseHeader(StringRef text) {
  Expected<json::Value> parsed = parseShallowJSON(text.rtrim(' '));
  if (!parsed)
    return parsed.takeError();
  auto fail = [] {
    return createStringError("the header of the checkpoint is damaged");
  };
  const json::Object *object = parsed->getAsObject();
  if (!object)
    return fail();
  std::vector<Wanted> list;
  for (const auto &[key, value] : *object) {
    if (StringRef(key) == "__metadata__")
      continue;
    const json::Object *fields = value.getAsObject();
    const json::Array *shape = fields ? fields->getArray("shape") : nullptr;
    const json::Array *offsets =
        fields ? fields->getArray("data_offsets") : nullptr;
    std::optional<StringRef> dtype =
        fields ? fields->getString("dtype") : std::nullopt;
    if (!dtype || !shape || !offsets || offsets->size() != 2)
      return fail();
    Wanted wanted{StringRef(key).str(), dtype->str(), {}, 0, 0};
    for (const json::Value &size : *shape) {
      if (!size.getAsInteger())
        return fail();
      wanted.shape.push_back(*size.getAsInteger());
    }
    std::optional<uint64_t> begin = (*offsets)[0].getAsUINT64();
    std::optional<uint64_t> end = (*offsets)[1].getAsUINT64();
    if (!begin || !end || *begin > *end)
      return fail();
    wanted.begin = *begin;
    wanted.end = *end;
    list.push_back(std::move(wanted));
  }
  llvm::sort(list, [](const Wanted &a, const Wanted &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t covered = 0;
  for (const Wanted &wanted : list) {
    if (wanted.begin != covered)
      return fail();
    covered = wanted.end;
  }
  return list;
}

/// Restores source `index` of a recipe.
static Error writeSource(const WeightRecipe &recipe, unsigned index,
                         const Wanted &wanted, const Entry &stored,
                         const StringMap<const Wanted *> &byName,
                         raw_ostream &os) {
  auto fail = [&](const Twine &why) {
    return createStringError("'" + wanted.name + "' cannot be had back from '" +
                             recipe.name + "': " + why);
  };
  uint64_t bytes = wanted.end - wanted.begin;
  if (recipe.kind == WeightRecipe::Transpose) {
    if (stored.dtype != wanted.dtype || stored.data.size() != bytes ||
        stored.shape.size() != 2 || wanted.shape.size() != 2 ||
        stored.shape[0] != wanted.shape[1] ||
        stored.shape[1] != wanted.shape[0])
      return fail("it has another type or shape");
    writeTransposed(stored.data, stored.shape[0], stored.shape[1], os);
    return Error::success();
  }
  int64_t rows = 0, firstRow = 0;
  for (auto [i, source] : enumerate(recipe.sources)) {
    const Wanted *other = byName.lookup(source);
    if (!other)
      return fail("the checkpoint has no '" + source + "'");
    if (i < index)
      firstRow += other->getRows();
    rows += other->getRows();
  }
  uint64_t rowBytes = rows ? stored.data.size() / rows : 0;
  if (stored.dtype != wanted.dtype || rows != getRows(stored) || rows == 0 ||
      rowBytes * wanted.getRows() != bytes)
    return fail("it has another type or shape");
  if (recipe.kind == WeightRecipe::Concat) {
    os << stored.data.substr(firstRow * rowBytes, bytes);
    return Error::success();
  }
  int64_t count = recipe.sources.size();
  if (wanted.getRows() * count != rows || wanted.getRows() % recipe.block != 0)
    return fail("it has another number of rows");
  for (int64_t row = 0; row < wanted.getRows(); row += recipe.block)
    os << stored.data.substr((row * count + index * recipe.block) * rowBytes,
                             recipe.block * rowBytes);
  return Error::success();
}

Error fuse::unpackWeights(const SafetensorsFile &packed, raw_ostream &os) {
  std::optional<StringRef> header = packed.getMetadata(kHeaderKey);
  std::optional<StringRef> recipeText = packed.getMetadata(kRecipesKey);
  if (!header || !recipeText)
    return createStringError(
        "the file is not a packed checkpoint: it has no '" +
        Twine(header ? kRecipesKey : kHeaderKey) + "' in its metadata");
  Expected<std::vector<Wanted>> list = parseHeader(*header);
  if (!list)
    return list.takeError();
  Expected<std::vector<WeightRecipe>> recipes = parseRecipes(*recipeText);
  if (!recipes)
    return recipes.takeError();
  StringMap<const Wanted *> byName;
  for (const Wanted &wanted : *list)
    byName[wanted.name] = &wanted;
  StringMap<std::pair<const WeightRecipe *, unsigned>> origins;
  for (const WeightRecipe &recipe : *recipes)
    if (recipe.kind == WeightRecipe::Concat ||
        recipe.kind == WeightRecipe::Interleave ||
        recipe.kind == WeightRecipe::Transpose)
      for (auto [index, source] : enumerate(recipe.sources))
        origins.try_emplace(source, &recipe, index);
  writeHeader(*header, os);
  for (const Wanted &wanted : *list) {
    if (const Entry *entry = packed.lookup(wanted.name)) {
      if (entry->dtype != wanted.dtype ||
          ArrayRef(entry->shape) != ArrayRef(wanted.shape) ||
          entry->data.size() != wanted.end - wanted.begin)
        return createStringError("'" + wanted.name +
                                 "' has another type or "
                                 "shape than in the checkpoint");
      os << entry->data;
      continue;
    }
    auto origin = origins.find(wanted.name);
    const Entry *stored = origin == origins.end()
                              ? nullptr
                              : packed.lookup(origin->second.first->name);
    if (!stored)
      return createStringError("no tensor and no recipe of the file has '" +
                               wanted.name + "'");
    auto [recipe, index] = origin->second;
    if (Error error = writeSource(*recipe, index, wanted, *stored, byName, os))
      return error;
  }
  return Error::success();
}
