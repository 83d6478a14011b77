//===- KernelRegistryTest.cpp - Keys, names and modes of kernels ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/KernelRegistry.h"
#include "fuse/Slots/ResolveKernel.h"
#include "mlir/IR/MLIRContext.h"
#include "nn/IR/NNOps.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;

namespace {

constexpr KernelMode inference = KernelMode::Inference;
constexpr KernelMode training = KernelMode::Training;
constexpr KernelMode compile = KernelMode::Compile;

class Registry : public ::testing::Test {
protected:
  Registry() : registry(&context) {
    context.loadDialect<FuseDialect, NNDialect>();
  }

  /// A kernel of op `f` for any device.
  KernelSpec makeKernel(StringRef name, StringRef variant = "standard") {
    KernelSpec spec;
    spec.name = name.str();
    spec.op = "f";
    spec.variant = variant.str();
    spec.addGenerated(registry.getHardware(DeviceType::Any),
                      [](OpBuilder &, SlotOp,
                         ValueRange args) -> FailureOr<SmallVector<Value>> {
                        return SmallVector<Value>(args);
                      });
    return spec;
  }

  std::string add(KernelSpec spec, bool force = false) {
    return llvm::toString(registry.add(std::move(spec), force));
  }

  std::string resolve(StringRef name, const SlotTarget &target = {}) {
    llvm::Expected<KernelChoice> choice =
        resolveKernel(registry, "f", "standard", name, target,
                      [&](const Twine &text) { warning = text.str(); });
    if (!choice)
      return llvm::toString(choice.takeError());
    return choice->kernel ? choice->kernel->name : "eager";
  }

  MLIRContext context;
  KernelRegistry registry;
  std::string warning;
};

TEST_F(Registry, KeysAreUnique) {
  EXPECT_EQ(add(makeKernel("a")), "");
  EXPECT_EQ(add(makeKernel("a", "other")), "");
  EXPECT_EQ(add(makeKernel("a")),
            "duplicate kernel registration: op=f, variant=standard, name=a; it "
            "is registered by fuse");
  KernelSpec mine = makeKernel("a");
  mine.origin = "me";
  EXPECT_EQ(add(std::move(mine), /*force=*/true), "");
  EXPECT_EQ(registry.lookup("f", "standard", "a")->origin, "me");
  EXPECT_EQ(registry.lookup("f", "other", "a")->origin, "fuse");
}

TEST_F(Registry, CopiesAreIndependent) {
  EXPECT_EQ(add(makeKernel("a")), "");
  KernelRegistry copy = registry;
  EXPECT_FALSE(bool(copy.add(makeKernel("b"))));
  EXPECT_NE(copy.lookup("f", "standard", "b"), nullptr);
  EXPECT_EQ(registry.lookup("f", "standard", "b"), nullptr);
}

TEST_F(Registry, AliasesNameOneKernel) {
  KernelSpec spec = makeKernel("new");
  spec.aliases = {"old"};
  EXPECT_EQ(add(std::move(spec)), "");
  EXPECT_EQ(resolve("old"), "new");
  EXPECT_EQ(warning, "kernel name 'old' for op=f, variant=standard is "
                     "deprecated; use 'new'");
  EXPECT_EQ(add(makeKernel("old")),
            "kernel op=f, variant=standard, name=old: the name 'old' is "
            "already that of kernel 'new' or an alias of it");
}

TEST_F(Registry, EagerIsNeverLookedUp) {
  EXPECT_EQ(resolve("eager"), "eager");
  EXPECT_EQ(resolve("a"), "unknown kernel 'a' for op=f, variant=standard; "
                          "available: eager");
}

TEST_F(Registry, VariantsAreFunctions) {
  EXPECT_EQ(add(makeKernel("a", "other")), "");
  EXPECT_EQ(resolve("a"),
            "kernel 'a' for op=f is of variant other, the slot of variant "
            "standard; kernels can stand for each other only within one "
            "variant; available: eager");
}

TEST_F(Registry, SmallestIntervalWins) {
  KernelSpec spec = makeKernel("a");
  spec.implementations.clear();
  auto add = [&](unsigned from, unsigned to, KernelMode mode) {
    spec.addGenerated(registry.getHardware(DeviceType::GPU, from, to), nullptr,
                      mode);
  };
  add(70, 0, KernelMode::Any);
  add(80, 100, KernelMode::Any);
  add(90, 90, training);
  EXPECT_EQ(this->add(std::move(spec)), "");
  auto choose = [&](unsigned capability, KernelMode mode) {
    llvm::Expected<KernelChoice> choice = resolveKernel(
        registry, "f", "standard", "a", {DeviceType::GPU, capability, mode},
        [](const Twine &) {});
    return choice ? choice->implementation->hardware.toText()
                  : llvm::toString(choice.takeError());
  };
  EXPECT_EQ(choose(75, inference), "device_type=gpu, compute_capability>=70");
  EXPECT_EQ(choose(89, inference), "device_type=gpu, compute_capability>=80, "
                                   "compute_capability<=100");
  EXPECT_EQ(choose(90, inference), "device_type=gpu, compute_capability>=90, "
                                   "compute_capability<=90");
  EXPECT_EQ(choose(90, inference | compile),
            "device_type=gpu, compute_capability>=80, "
            "compute_capability<=100");
  EXPECT_EQ(choose(120, inference), "device_type=gpu, compute_capability>=70");
  EXPECT_EQ(choose(60, inference),
            "kernel 'a' for op=f, variant=standard requires device_type=gpu, "
            "compute_capability>=70 or device_type=gpu, "
            "compute_capability>=80, compute_capability<=100 or "
            "device_type=gpu, compute_capability>=90, compute_capability<=90, "
            "but the target is device_type=gpu, compute_capability=60; "
            "available for it: eager");
}

TEST(KernelModes, Chains) {
  constexpr KernelMode all[] = {inference, inference | compile, training,
                                training | compile, KernelMode::Any};
  // Distances of the modes above, or -1 for unsupported modes.
  auto distances = [&](KernelMode wanted) {
    std::vector<int> result;
    for (KernelMode offered : all) {
      std::optional<unsigned> distance = getModeDistance(wanted, offered);
      result.push_back(distance ? int(*distance) : -1);
    }
    return result;
  };
  EXPECT_EQ(distances(inference), std::vector<int>({0, 1, 2, 3, 4}));
  EXPECT_EQ(distances(inference | compile),
            std::vector<int>({-1, 0, -1, 1, 2}));
  EXPECT_EQ(distances(training), std::vector<int>({-1, -1, 0, 1, 2}));
  EXPECT_EQ(distances(training | compile),
            std::vector<int>({-1, -1, -1, 0, 1}));
}

} // namespace
