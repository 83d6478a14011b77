//===- SlotGenerator.cpp - Random modules with slots ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlotGenerator.h"
#include "ModuleGenerator.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fuse;
using llvm::formatv;

namespace {

/// A slot of one module.
struct Slot {
  std::string name, op, variant;
  /// Types of all operands but the first. `{x}` stands for the type of the
  /// first.
  SmallVector<std::string> types;
  /// Layer ops that compute `%r` from `%a0`, `%a1` and so on.
  std::string body;
};

/// Writes the text of one module.
class SlotWriter {
public:
  explicit SlotWriter(uint64_t seed) : random(seed), os(text) {}
  std::string write();

private:
  void chooseSlots();
  void writeSlot(const Slot &slot);
  void writeKernel(const Slot &slot);
  void writeFunction(unsigned index);
  void writeModel(unsigned index);
  /// Writes calls on `%x`, or their meaning as ops if `written` is set. Returns
  /// the last value.
  std::string writeCalls(ArrayRef<unsigned> chosen, bool written,
                         StringRef prefix);
  std::string getArguments(ArrayRef<unsigned> chosen);
  std::string getSignature(const Slot &slot);

  Random random;
  std::string text;
  llvm::raw_string_ostream os;
  std::string type, vector, wide, tall, hidden;
  SmallVector<Slot> slots;
};

} // namespace

/// Replaces operands and result in `body` by those of a call.
static std::string instantiate(StringRef body, ArrayRef<std::string> args,
                               StringRef result) {
  std::string text = body.str();
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
         at += to.size())
      text.replace(at, from.size(), to);
  };
  // Temporaries have names derived from the result.
  replace("%r", result.str());
  for (auto [index, arg] : llvm::enumerate(args))
    replace("%a" + std::to_string(index), arg);
  return text;
}

void SlotWriter::chooseSlots() {
  unsigned features = random.oneOf({1, 3, 8, 17, 32});
  unsigned width = random.oneOf({1, 8, 33});
  const char *element = random.oneOf<const char *>({"bf16", "f16", "f32"});
  type = formatv("tensor<?x{0}x{1}>", features, element);
  hidden = formatv("tensor<?x{0}x{1}>", width, element);
  vector = formatv("tensor<{0}x{1}>", features, element);
  wide = formatv("tensor<{0}x{1}x{2}>", width, features, element);
  tall = formatv("tensor<{0}x{1}x{2}>", features, width, element);
  for (unsigned i = random.below(4) + 2; i > 0; --i) {
    Slot slot;
    std::string eps =
        random.oneOf<const char *>({"0.25", "0.5", "0.0009765625"});
    switch (random.below(6)) {
    case 0:
      slot = {"",
              "rms_norm",
              "standard",
              {vector},
              formatv("%r = fuse.rms_norm %a0 weight(%a1) eps {0} : ({1}, {2}) "
                      "-> {1}\n",
                      eps, type, vector)};
      break;
    case 1:
      slot = {"",
              "rms_norm",
              "unweighted",
              {},
              formatv("%r = fuse.rms_norm %a0 eps {0} : ({1}) -> {1}\n", eps,
                      type)};
      break;
    case 2:
      slot = {
          "",
          "rms_norm",
          "offset1_f32",
          {vector},
          formatv("%r = fuse.rms_norm %a0 weight(%a1) eps {0} offset 1 cast "
                  "after_weight : ({1}, {2}) -> {1}\n",
                  eps, type, vector)};
      break;
    case 3:
      slot = {
          "",
          "layer_norm",
          "standard",
          {vector, vector},
          formatv("%r = fuse.layer_norm %a0 weight(%a1) bias(%a2) eps {0} : "
                  "({1}, {2}, {2}) -> {1}\n",
                  eps, type, vector)};
      break;
    case 4: {
      const char *act =
          random.oneOf<const char *>({"silu", "gelu", "gelu_tanh"});
      slot = {"",
              "act_and_mul",
              act,
              {type},
              formatv("%r_1 = fuse.activation {0} %a0 : {1} -> {1}\n"
                      "%r = fuse.gated_mul %r_1, %a1 : ({1}, {1}) -> {1}\n",
                      act, type)};
      break;
    }
    default: {
      bool isSwiglu = random.percent(50);
      const char *act =
          isSwiglu ? "silu" : random.oneOf<const char *>({"gelu", "gelu_tanh"});
      slot = {"",
              isSwiglu ? "swiglu_mlp" : "geglu_mlp",
              isSwiglu ? "standard" : act,
              {wide, wide, tall},
              formatv("%r_1 = fuse.linear %a0, %a1 : ({0}, {1}) -> {2}\n"
                      "%r_2 = fuse.activation {3} %r_1 : {2} -> {2}\n"
                      "%r_3 = fuse.linear %a0, %a2 : ({0}, {1}) -> {2}\n"
                      "%r_4 = fuse.gated_mul %r_2, %r_3 : ({2}, {2}) -> {2}\n"
                      "%r = fuse.linear %r_4, %a3 : ({2}, {4}) -> {0}\n",
                      type, wide, hidden, act, tall)};
      break;
    }
    }
    bool hasEps = slot.body.find(" eps ") != std::string::npos;
    slot.name = formatv("slot{0}", slots.size());
    // An op that the registry does not know needs an eager body.
    if (random.percent(25)) {
      slot.op = "own_" + slot.op;
      hasEps = false;
    }
    slot.name += hasEps ? " params {eps = " + eps + " : f32}" : "";
    slots.push_back(slot);
  }
}

std::string SlotWriter::getSignature(const Slot &slot) {
  std::string result = "(" + type;
  for (const std::string &operand : slot.types)
    result += ", " + operand;
  return result + ") -> " + type;
}

/// A function with the body of a slot.
static std::string writeBody(StringRef name, const Slot &slot, StringRef type) {
  std::string text = formatv("func.func @{0}(%a0: {1}", name, type);
  for (auto [index, operand] : llvm::enumerate(slot.types))
    text += formatv(", %a{0}: {1}", index + 1, operand);
  return text +
         formatv(") -> {0} {{\n{1}return %r : {0}\n}\n", type, slot.body).str();
}

static StringRef getSlotName(const Slot &slot) {
  return StringRef(slot.name).split(' ').first;
}

void SlotWriter::writeSlot(const Slot &slot) {
  StringRef params = StringRef(slot.name).drop_front(getSlotName(slot).size());
  os << formatv("nn.slot @{0} op \"{1}\" variant \"{2}\"{3} : {4}",
                getSlotName(slot), slot.op, slot.variant, params,
                getSignature(slot));
  if (random.percent(20))
    os << " attributes {note = \"of a slot\"}";
  os << " {\n";
  if (StringRef(slot.op).starts_with("own_") || random.percent(30))
    os << writeBody("eager", slot, type);
  os << "}";
  if (random.percent(20))
    os << " loc(\"slot\")";
  os << "\n";
}

void SlotWriter::writeKernel(const Slot &slot) {
  os << formatv("nn.slot_kernel \"mine\" op \"{0}\" variant \"{1}\" {{\n",
                slot.op, slot.variant);
  if (random.percent(50))
    os << "nn.implementation on <gpu from 80> {\n"
       << writeBody("body", slot, type) << "}\n";
  os << "nn.implementation on <" << random.oneOf<StringRef>({"any", "cpu"})
     << "> {\n"
     << writeBody("body", slot, type) << "}\n}\n";
}

std::string SlotWriter::writeCalls(ArrayRef<unsigned> chosen, bool written,
                                   StringRef prefix) {
  std::string stream = "%x";
  for (auto [index, number] : llvm::enumerate(chosen)) {
    const Slot &slot = slots[number];
    std::string result = formatv("%v{0}", index);
    SmallVector<std::string> args = {stream};
    for (unsigned i = 0; i < slot.types.size(); ++i)
      args.push_back(formatv("%p{0}_{1}", index, i));
    if (written) {
      os << instantiate(slot.body, args, result);
    } else {
      os << formatv("{0} = nn.call_slot @{1}({2})", result, getSlotName(slot),
                    llvm::join(args, ", "));
      if (random.percent(20))
        os << " {note = 1}";
      os << " : " << getSignature(slot);
      if (random.percent(20))
        os << formatv(" loc(\"{0}.call{1}\")", prefix, index);
      os << "\n";
    }
    stream = result;
  }
  return stream;
}

std::string SlotWriter::getArguments(ArrayRef<unsigned> chosen) {
  std::string result = "%x: " + type;
  for (auto [index, number] : llvm::enumerate(chosen))
    for (auto [i, operand] : llvm::enumerate(slots[number].types))
      result += formatv(", %p{0}_{1}: {2}", index, i, operand);
  return result;
}

void SlotWriter::writeFunction(unsigned index) {
  SmallVector<unsigned> chosen;
  for (unsigned i = random.below(3) + 1; i > 0; --i)
    chosen.push_back(random.below(slots.size()));
  for (bool written : {false, true}) {
    os << formatv("func.func @{0}{1}({2}) -> {3} {{\n", written ? "g" : "f",
                  index, getArguments(chosen), type);
    std::string result = writeCalls(chosen, written, "function");
    os << formatv("return {0} : {1}\n}\n", result, type);
  }
}

void SlotWriter::writeModel(unsigned index) {
  os << formatv("nn.model @m{0} class \"M\" {{\n", index);
  for (const Slot &slot : slots)
    writeSlot(slot);
  os << "nn.module @layers class \"ModuleList\" {\n";
  unsigned numLayers = random.below(3) + 1;
  SmallVector<SmallVector<unsigned>> layers(numLayers);
  for (auto [layer, chosen] : llvm::enumerate(layers)) {
    for (unsigned i = random.below(3) + 1; i > 0; --i)
      chosen.push_back(random.below(slots.size()));
    os << formatv("nn.module @\"{0}\" class \"Layer\" {{\n"
                  "func.func @forward({1}) -> {2} {{\n",
                  layer, getArguments(chosen), type);
    std::string result = writeCalls(chosen, /*written=*/false, "layer");
    os << formatv("return {0} : {1}\n}\n}\n", result, type);
  }
  os << "}\n}\n";
}

std::string SlotWriter::write() {
  chooseSlots();
  for (const Slot &slot : slots)
    writeSlot(slot);
  // At most one kernel per key, which all slots share.
  llvm::SmallVector<std::string> keys;
  for (const Slot &slot : slots) {
    std::string key = slot.op + "/" + slot.variant;
    // A body has the params of a single slot.
    bool isOwn = StringRef(slot.op).starts_with("own_");
    unsigned same = llvm::count_if(slots, [&](const Slot &other) {
      return other.op == slot.op && other.variant == slot.variant;
    });
    if (isOwn && same == 1 && !llvm::is_contained(keys, key) &&
        random.percent(60)) {
      keys.push_back(key);
      writeKernel(slot);
    }
  }
  for (unsigned i = 0, end = random.below(3) + 1; i < end; ++i)
    writeFunction(i);
  for (unsigned i = 0, end = random.below(3); i < end; ++i)
    writeModel(i);
  return text;
}

std::string fuse::generateSlots(uint64_t seed) {
  return SlotWriter(seed).write();
}
