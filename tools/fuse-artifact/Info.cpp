//===- Info.cpp - Print the contents of an artifact -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "fuse-c/Runtime.h"
#include "fuse/Runtime/CPU/CpuCode.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"
#include "nlohmann/json.hpp"

#include <cstring>
#include <iostream>

using namespace fuse::runtime;
using nlohmann::json;

static constexpr const char *kUsage =
    "usage: fuse-artifact info [--json | --ir | --ptx | --section=N] "
    "file.fuse\n"
    "\n"
    "Checks an artifact and prints what it holds.\n"
    "  --json       everything but the sections' content, as JSON\n"
    "  --ir         the fused IR\n"
    "  --ptx        the PTX of all kernels\n"
    "  --section=N  the bytes of one section\n";

static const char *getKindName(uint32_t kind) {
  switch (kind) {
  case FUSE_SECTION_MANIFEST:
    return "manifest";
  case FUSE_SECTION_IR:
    return "IR";
  case FUSE_SECTION_HOST_LIBRARY:
    return "CPU code, linked";
  case FUSE_SECTION_HOST_OBJECT:
    return "CPU code, not linked";
  case FUSE_SECTION_PTX:
    return "PTX";
  case FUSE_SECTION_CUBIN:
    return "cubin";
  case FUSE_SECTION_SLOTS:
    return "slots";
  case FUSE_SECTION_CONSTANTS:
    return "constants";
  }
  return "unknown";
}

/// States whether this machine can run the code for the CPU, or why not.
static std::string getCPUVerdict(const Manifest &manifest) {
  try {
    checkCpu(*manifest.cpuTarget);
    return "runs here";
  } catch (const Failure &failure) {
    return failure.getMessage();
  }
}

static json makeJSON(const Artifact &artifact, const json &manifest) {
  json sections = json::array();
  for (const Section &section : artifact.sections)
    sections.push_back(
        {{"kind", getKindName(section.kind)}, {"bytes", section.data.size()}});
  return {{"format", getFormatVersion(artifact.bytes)},
          {"bytes", artifact.bytes.size()},
          {"sections", sections},
          {"manifest", manifest}};
}

static void printFunction(const Function &function, const json &entry) {
  std::cout << "@" << function.name << "\n";
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const TensorSpec &spec = function.arguments[i];
    std::cout << "  argument " << i << "  " << toString(spec);
    if (!spec.parameter.empty())
      std::cout << "  " << spec.parameter;
    std::cout << "\n";
  }
  for (size_t i = 0; i < function.results.size(); ++i)
    std::cout << "  result " << i << "    " << toString(function.results[i])
              << "\n";
  if (function.maxTokens > 0)
    std::cout << "  tokens      at most " << function.maxTokens << "\n";
  if (entry.contains("sites"))
    for (const json &site : entry["sites"]) {
      std::cout << "  site        " << site.value("site", "-") << "  "
                << site.value("op", "-") << "\n";
      for (const char *key : {"rounding", "scales"})
        if (site.contains(key) && site[key].is_string())
          std::cout << "    " << key << "  "
                    << site[key].get_ref<const std::string &>() << "\n";
      if (site.contains("origins"))
        std::cout << "    origins   " << site["origins"].dump() << "\n";
    }
}

static void printExpression(const json &expression) {
  if (expression.is_number())
    std::cout << expression;
  else if (expression.is_string())
    std::cout << expression.get_ref<const std::string &>();
  else
    std::cout << expression.dump();
}

static void printPacked(const json &list) {
  for (const json &packed : list)
    std::cout << "  packed      " << packed.value("recipe", "-")
              << (packed.contains("views") ? " of parts of arguments "
                                           : " of arguments ")
              << packed["operands"].dump() << ", "
              << packed.value("bytes", uint64_t(0)) << " bytes\n";
}

/// Prints how the CPU runs a function if there is more than one way.
static void printCPUPlan(const json &cpu) {
  const json &plan = cpu["scheduled"];
  std::cout << "  CPU         scheduled"
            << (cpu.contains("symbol") ? "; portable without bound weights"
                                       : "")
            << "\n";
  for (const json &bytes : plan["workspace"])
    std::cout << "  workspace   " << bytes << " bytes per token\n";
  printPacked(plan["packed"]);
  for (const json &phase : plan["phases"])
    std::cout << "  phase       " << phase.value("symbol", "-") << " of "
              << phase["panels"] << " panels, up to " << phase["tokens"]
              << " tokens\n";
}

/// Prints the launches for all numbers of tokens or for a range of them, with
/// the resource usage of kernels.
static void printPlan(const json &plan, size_t numModules) {
  for (const json &bytes : plan["workspace"]) {
    std::cout << "  workspace   ";
    printExpression(bytes);
    std::cout << " bytes\n";
  }
  for (const json &launch : plan["launches"]) {
    std::cout << "  launch      " << launch.value("kernel", "-") << " grid (";
    for (size_t i = 0; i < 3; ++i) {
      std::cout << (i > 0 ? ", " : "");
      printExpression(launch["grid"][i]);
    }
    std::cout << ") block " << launch["block"].dump();
    if (launch.value("shared_bytes", 0) > 0)
      std::cout << " shared " << launch.value("shared_bytes", 0);
    if (launch.contains("carveout"))
      std::cout << " carveout " << launch["carveout"];
    for (const char *flag : {"cooperative", "dependent"})
      if (launch.value(flag, false))
        std::cout << " " << flag;
    if (launch.contains("when"))
      std::cout << " when " << launch["when"].dump();
    if (numModules > 1)
      std::cout << " module " << launch.value("module", 0);
    if (launch.contains("registers"))
      std::cout << " registers " << launch["registers"] << " spilled "
                << launch.value("spilled_bytes", 0);
    std::cout << "\n";
  }
}

/// Prints the GPU code of a function.
static void printLaunches(const json &cuda) {
  for (const json &module : cuda["modules"]) {
    std::cout << "  CUDA        " << cuda.value("chip", "-");
    int version = module.value("ptx_version", 0);
    if (module.contains("ptx"))
      std::cout << ", PTX " << version / 10 << "." << version % 10;
    int lowest = module.value("ptx_minimum", version);
    if (lowest != version)
      std::cout << " (at least " << lowest / 10 << "." << lowest % 10 << ")";
    std::cout << (module.contains("cubin") ? ", cubin" : "");
    if (module.contains("source"))
      std::cout << ", from '" << module.value("source", "") << "' sha256 "
                << module.value("sha256", "-");
    std::cout << "\n";
  }
  size_t numModules = cuda["modules"].size();
  if (!cuda.contains("alternatives")) {
    printPlan(cuda, numModules);
  } else {
    uint64_t first = 1;
    for (const json &plan : cuda["alternatives"]) {
      uint64_t last = plan.value("upto", uint64_t(0));
      std::cout << "  tokens      " << first << " to " << last << "\n";
      printPlan(plan, numModules);
      first = last + 1;
    }
  }
  if (cuda.contains("constants"))
    for (const json &constant : cuda["constants"])
      std::cout << "  constant    " << constant["bytes"] << " bytes\n";
  if (cuda.contains("packed"))
    printPacked(cuda["packed"]);
}

/// Prints the binding of each slot call.
static void printSlots(const Artifact &artifact, const json &manifest) {
  size_t index = manifest.value("slots", size_t(0));
  if (index >= artifact.sections.size() ||
      artifact.sections[index].kind != FUSE_SECTION_SLOTS)
    return;
  json table = parseJSON(artifact.sections[index].data);
  for (const json &call : table["calls"]) {
    std::cout << "slot    " << call.value("path", "-") << "  "
              << call.value("op", "-") << " " << call.value("variant", "-")
              << "  ";
    if (call.contains("kernel") && call["kernel"].is_string())
      std::cout << call.value("kernel", "-") << ", "
                << call.value("source", "-") << "\n";
    else
      std::cout << "unbound\n";
  }
}

static void printText(const Artifact &artifact, const json &manifest) {
  std::cout << "artifact of " << artifact.manifest.producer << ", LLVM "
            << manifest.value("llvm", "-") << ", " << artifact.bytes.size()
            << " bytes, format " << getFormatVersion(artifact.bytes) << "\n";
  for (size_t i = 0; i < artifact.sections.size(); ++i)
    std::cout << "section " << i << "  " << artifact.sections[i].data.size()
              << " bytes  " << getKindName(artifact.sections[i].kind) << "\n";
  std::cout << "IR      sha256 " << manifest.value("ir_sha256", "-") << "\n"
            << "layers  sha256 " << manifest.value("layers_sha256", "-")
            << "\n";
  if (artifact.manifest.cpuTarget)
    std::cout << "CPU     " << artifact.manifest.cpuTarget->arch << " "
              << artifact.manifest.cpuTarget->level << ": "
              << getCPUVerdict(artifact.manifest) << "\n";
  printSlots(artifact, manifest);
  for (size_t i = 0; i < artifact.manifest.functions.size(); ++i) {
    const json &entry = manifest["functions"][i];
    printFunction(artifact.manifest.functions[i], entry);
    if (entry.contains("cpu") && entry["cpu"].contains("scheduled"))
      printCPUPlan(entry["cpu"]);
    if (entry.contains("cuda"))
      printLaunches(entry["cuda"]);
  }
}

static void printSections(const Artifact &artifact, uint32_t kind) {
  for (const Section &section : artifact.sections)
    if (section.kind == kind)
      std::cout << section.data;
}

static int run(const std::string &option, const std::string &path) {
  Artifact artifact(readFile(path));
  json manifest = parseJSON(artifact.sections[0].data);
  if (option == "--json") {
    std::cout << makeJSON(artifact, manifest).dump(2) << "\n";
  } else if (option == "--ir") {
    printSections(artifact, FUSE_SECTION_IR);
  } else if (option == "--ptx") {
    printSections(artifact, FUSE_SECTION_PTX);
  } else if (option.rfind("--section=", 0) == 0) {
    const char *text = option.c_str() + std::strlen("--section=");
    char *end;
    unsigned long index = std::strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0' || index >= artifact.sections.size())
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    option + ": there are " +
                        std::to_string(artifact.sections.size()) + " sections");
    std::cout << artifact.sections[index].data;
  } else if (option.empty()) {
    printText(artifact, manifest);
  } else {
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "unknown option '" + option +
                      "'; there are --json, --ir, --ptx, --section=N");
  }
  std::cout.flush();
  if (!std::cout)
    throw Failure(FUSE_ERROR_IO, "the output cannot be written");
  return 0;
}

int runInfo(int argc, char **argv) {
  std::string option, path;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::cout << kUsage;
      return 0;
    }
    std::string &place = argument.rfind("-", 0) == 0 ? option : path;
    if (!place.empty()) {
      std::cerr
          << "fuse-artifact: error: expected one option and one file, got '"
          << place << "' and '" << argument << "'\n";
      return 2;
    }
    place = argument;
  }
  if (path.empty()) {
    std::cerr << kUsage;
    return 2;
  }
  try {
    return run(option, path);
  } catch (const Failure &failure) {
    std::cerr << "fuse-artifact: error: " << failure.getMessage() << "\n";
  } catch (const std::exception &error) {
    std::cerr << "fuse-artifact: error: " << path << ": " << error.what()
              << "\n";
  }
  return 1;
}
