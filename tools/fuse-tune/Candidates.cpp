//===- Candidates.cpp - Compile the schedules worth measuring -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"
#include "fuse/Artifact/Compiler.h"
#include "fuse/Execution/Inputs.h"
#include "fuse/Measure/TestBundle.h"
#include "fuse/Measure/TuneFormat.h"
#include "fuse/Runtime/Core/Instance.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Schedule/RowProblem.h"
#include "fuse/Schedule/ScheduleCandidates.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"
#include "tile/IR/TileDialect.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <atomic>
#include <mutex>
#include <thread>

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;
using nlohmann::json;

namespace {

/// An op in its own function.
struct Job {
  OwningOpRef<ModuleOp> module;
  ScheduleKey key;
  /// Number of tokens that the op runs on.
  int64_t tokens;
  std::vector<RankedSchedule> candidates;

  Operation *getOp() const {
    auto function = *(*module).getOps<func::FuncOp>().begin();
    return &function.front().front();
  }
};

/// A candidate being compiled.
struct Task {
  std::string text;
  int64_t tokens = 0;
  std::string artifact, error;
};

} // namespace

/// Creates a module with one function for an op. Its arguments are the distinct
/// operands of the op.
static OwningOpRef<ModuleOp> isolateOp(Operation *op) {
  llvm::SmallSetVector<Value, 8> operands(op->operand_begin(),
                                          op->operand_end());
  OpBuilder builder(op->getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(op->getLoc());
  builder.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(
      builder, op->getLoc(), "tuned",
      builder.getFunctionType(ValueRange(operands.getArrayRef()).getTypes(),
                              op->getResultTypes()));
  Block *entry = function.addEntryBlock();
  IRMapping mapping;
  mapping.map(operands.getArrayRef(), entry->getArguments());
  builder.setInsertionPointToEnd(entry);
  Operation *copy = builder.clone(*op, mapping);
  copy->removeAttr(tile::kScheduleAttrName);
  func::ReturnOp::create(builder, op->getLoc(), copy->getResults());
  return module;
}

/// Finds the distinct ops of `module` that have a schedule, for each number of
/// tokens.
static Expected<std::vector<Job>> findJobs(ModuleOp module,
                                           const CandidateOptions &options,
                                           const GpuModel &gpu,
                                           bool hasFloat8) {
  std::vector<Job> jobs;
  std::string problem;
  module.walk([&](FusedOpInterface op) {
    for (int64_t tokens : options.tokens) {
      std::string reason;
      std::optional<ScheduleKey> key = getScheduleKey(op, tokens, reason, gpu);
      if (key && isRowOp(op) && !hasFloat8) {
        reason = options.chip + " has no conversions to 8-bit floats";
        key.reset();
      }
      if (!key) {
        llvm::errs() << op->getLoc() << ": not tuned: " << reason << "\n";
        return;
      }
      bool known =
          llvm::any_of(jobs, [&](const Job &job) { return job.key == *key; });
      if (known)
        continue;
      if (std::optional<MlpProblem> products =
              describeProducts(op, gpu, reason);
          products && products->tokens)
        tokens = *products->tokens;
      jobs.push_back({isolateOp(op), *key, tokens,
                      rankSchedules(op, tokens, gpu, options.count)});
    }
  });
  for (Job &job : jobs)
    for (const std::string &text : options.schedules) {
      Attribute schedule = parseAttribute(text, module.getContext());
      if (!isa_and_nonnull<tile::ScheduleAttr, tile::PrefillScheduleAttr,
                           tile::MmaScheduleAttr, tile::RowScheduleAttr>(
              schedule))
        return createStringError(
            "--schedule: expected #tile.schedule, #tile.prefill_schedule, "
            "#tile.mma_schedule or #tile.row_schedule, got '" +
            text + "'");
      bool known = llvm::any_of(job.candidates, [&](const auto &other) {
        return other.schedule == schedule;
      });
      if (!known &&
          getScheduleProblem(job.getOp(), schedule, job.tokens, gpu).empty())
        job.candidates.push_back({schedule, 0});
    }
  llvm::erase_if(jobs, [](const Job &job) { return job.candidates.empty(); });
  if (jobs.empty())
    return createStringError("the module has no op with a schedule");
  return jobs;
}

static std::string print(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

static std::string describe(const Job &job) {
  std::string widths = llvm::join(
      llvm::map_range(job.key.widths,
                      [](int64_t width) { return std::to_string(width); }),
      "x");
  return llvm::formatv("{0} {1} {2}{3} tokens {4}", job.key.family, widths,
                       job.key.element, job.key.relaxed ? " relaxed" : "",
                       job.tokens);
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

/// Compiles one candidate, which has to use the scheduled path.
static void compile(Task &task, const DialectRegistry &registry,
                    const CandidateOptions &options) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      errors += (errors.empty() ? "" : "; ") + diagnostic.str();
  });
  auto module = parseSourceString<ModuleOp>(task.text, &context);
  if (!module) {
    task.error = errors;
    return;
  }
  CompileOptions compileOptions;
  compileOptions.cpu = "";
  compileOptions.chip = options.chip;
  compileOptions.tokens =
      std::min<int64_t>(task.tokens, tile::kMaxPrefillTokens);
  compileOptions.multiprocessors = options.multiprocessors;
  compileOptions.assemble =
      options.assemble ? Assemble::IfPossible : Assemble::Never;
  Expected<std::string> artifact = compileToArtifact(*module, compileOptions);
  if (!artifact) {
    task.error = toString(artifact.takeError());
    if (!errors.empty())
      task.error += ": " + errors;
    return;
  }
  runtime::Artifact made(*artifact);
  json manifest = runtime::parseJSON(made.sections[0].data);
  if (manifest["functions"][0]["cuda"].value("path", "") != "scheduled") {
    task.error = "the scheduled path did not compile the function";
    return;
  }
  task.artifact = std::move(*artifact);
}

static void compileAll(std::vector<Task> &tasks,
                       const DialectRegistry &registry,
                       const CandidateOptions &options) {
  std::atomic<size_t> next = 0, done = 0;
  std::mutex mutex;
  auto work = [&] {
    for (size_t i; (i = next++) < tasks.size();) {
      compile(tasks[i], registry, options);
      std::lock_guard<std::mutex> lock(mutex);
      llvm::errs() << "\r[" << ++done << "/" << tasks.size() << "] compiled";
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(options.jobs, tasks.size()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  llvm::errs() << "\n";
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

namespace {

/// Sections after the description, which comes first.
struct Sections {
  std::vector<std::pair<uint32_t, std::string>> list;

  size_t add(uint32_t kind, std::string data) {
    for (auto [index, section] : llvm::enumerate(list))
      if (section.first == kind && section.second == data)
        return index + 1;
    list.push_back({kind, std::move(data)});
    return list.size();
  }
};

} // namespace

/// The shape of an argument: its last dynamic size is the number of tokens, and
/// any others are 1.
static std::vector<int64_t> getShape(const TensorSpec &spec, int64_t tokens) {
  std::vector<int64_t> shape(spec.shape.begin(), spec.shape.end());
  for (auto it = shape.rbegin(); it != shape.rend(); ++it)
    if (*it < 0)
      *it = std::exchange(tokens, 1);
  return shape;
}

static Expected<json> describeArguments(const Job &job, Sections &sections) {
  auto function = job.getOp()->getParentOfType<func::FuncOp>();
  Expected<Signature> signature = getSignature(function);
  if (!signature)
    return signature.takeError();
  json arguments = json::array();
  std::vector<RandomValues> pools =
      createPools(function, *signature, /*seed=*/0);
  for (size_t i = 0; i < pools.size(); ++i) {
    const HostTensor &pool = pools[i].pool;
    const TensorSpec &spec = signature->inputs[i];
    size_t section = sections.add(
        measure::kPoolSection, std::string(pool.getData(), pool.getNumBytes()));
    arguments.push_back({{"element", getName(spec.type).str()},
                         {"shape", getShape(spec, job.tokens)},
                         {"pool", section},
                         {"seed", i},
                         {"bound", !pools[i].isActivation}});
  }
  return arguments;
}

Expected<std::string> fuse::makeCandidates(ModuleOp module,
                                           const DialectRegistry &all,
                                           const CandidateOptions &options) {
  GpuModel gpu;
  gpu.multiprocessors = options.multiprocessors;
  Chip chip =
      *lookupChip(options.chip, [](const Twine &) { return failure(); });
  gpu.isHopper = chip.name == "sm_90a";
  gpu.sharedBytes = chip.sharedBytes;
  Expected<std::vector<Job>> jobs =
      findJobs(module, options, gpu, chip.hasFloat8);
  if (!jobs)
    return jobs.takeError();
  std::vector<Task> tasks;
  for (const Job &job : *jobs)
    for (const RankedSchedule &candidate : job.candidates) {
      Operation *op = job.getOp();
      op->setAttr(tile::kScheduleAttrName, candidate.schedule);
      Task task;
      llvm::raw_string_ostream os(task.text);
      job.module.get().print(os);
      task.tokens = job.tokens;
      tasks.push_back(std::move(task));
      op->removeAttr(tile::kScheduleAttrName);
    }
  compileAll(tasks, all, options);

  Sections sections;
  json ops = json::array();
  size_t next = 0, failed = 0;
  for (const Job &job : *jobs) {
    json candidates = json::array();
    for (const RankedSchedule &candidate : job.candidates) {
      Task &task = tasks[next++];
      json entry = {{"schedule", print(candidate.schedule)},
                    {"model_us", candidate.microseconds}};
      if (task.error.empty()) {
        entry["artifact"] =
            sections.add(measure::kArtifactSection, std::move(task.artifact));
      } else {
        entry["error"] = task.error;
        ++failed;
      }
      candidates.push_back(std::move(entry));
    }
    Expected<json> arguments = describeArguments(job, sections);
    if (!arguments)
      return arguments.takeError();
    ops.push_back({{"family", job.key.family},
                   {"element", job.key.element},
                   {"widths", std::vector<int64_t>(job.key.widths.begin(),
                                                   job.key.widths.end())},
                   {"tokens", job.key.tokens},
                   {"relaxed", job.key.relaxed},
                   {"measured_tokens", job.tokens},
                   {"text", describe(job)},
                   {"arguments", std::move(*arguments)},
                   {"candidates", std::move(candidates)}});
  }
  llvm::errs() << jobs->size() << " ops, " << tasks.size() << " candidates, "
               << failed << " do not compile\n";
  json description = {{"format", measure::kCandidatesFormat},
                      {"version", measure::kTuneVersion},
                      {"compiler", ScheduleTable::getCompiler().str()},
                      {"chip", options.chip},
                      {"multiprocessors", options.multiprocessors},
                      {"ops", std::move(ops)}};
  std::string text = description.dump();
  std::vector<runtime::Section> list = {{measure::kDescriptionSection, text}};
  for (const auto &[kind, data] : sections.list)
    list.push_back({kind, data});
  return runtime::writeContainer(list);
}
