//===- InstancesTest.cpp - Instances with different bindings --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Kernels.h"
#include "gtest/gtest.h"

#include <array>
#include <cstring>
#include <string>

namespace {

using Vector = std::array<float, 4>;

// The kernel rounds an intermediate value to bf16, which distinguishes its
// results from those of the eager body.
const char *kernels = R"mlir(
nn.slot_kernel "rough" op "scale" variant "standard" {
  nn.implementation on <any> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.truncf %x : tensor<4xf32> to tensor<4xbf16>
      %1 = arith.extf %0 : tensor<4xbf16> to tensor<4xf32>
      %2 = arith.addf %1, %1 : tensor<4xf32>
      return %2 : tensor<4xf32>
    }
  }
}
)mlir";

const char *program = R"mlir(
nn.slot @scale op "scale" variant "standard"
    : (tensor<4xf32>) -> tensor<4xf32> {
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.addf %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
)mlir";

/// A context with one kernel of this program.
class Instances : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(fuse_context_create(&context), FUSE_OK);
    ASSERT_EQ(registerKernels(0), FUSE_OK) << fuse_last_error();
  }
  void TearDown() override { fuse_context_destroy(context); }

  fuse_status registerKernels(int force) {
    return fuse_context_register_kernels(context, kernels, std::strlen(kernels),
                                         nullptr, force);
  }

  fuse_module *parse() {
    fuse_module *module = nullptr;
    EXPECT_EQ(
        fuse_module_parse(context, program, std::strlen(program), &module),
        FUSE_OK)
        << fuse_last_error();
    return module;
  }

  fuse_context *context = nullptr;
};

/// Compiles a module and owns the objects that run it.
class Runner {
public:
  explicit Runner(const fuse_module *module) {
    fuse_artifact *artifact = nullptr;
    fuse_device *device = nullptr;
    fuse_program *code = nullptr;
    EXPECT_EQ(fuse_module_compile(module, nullptr, &artifact), FUSE_OK)
        << fuse_last_error();
    EXPECT_EQ(fuse_device_open_cpu(&device), FUSE_OK) << fuse_last_error();
    EXPECT_EQ(fuse_program_load(artifact, device, &code), FUSE_OK)
        << fuse_last_error();
    EXPECT_EQ(fuse_instance_create(code, "f", &instance), FUSE_OK)
        << fuse_last_error();
    EXPECT_EQ(fuse_instance_prepare(instance), FUSE_OK) << fuse_last_error();
    fuse_program_destroy(code);
    fuse_device_destroy(device);
    fuse_artifact_destroy(artifact);
  }
  ~Runner() { fuse_instance_destroy(instance); }

  Vector operator()(Vector x) const {
    Vector y = {};
    int64_t shape = 4;
    auto view = [&](Vector &values) {
      DLTensor tensor = {};
      tensor.data = values.data();
      tensor.device = {kDLCPU, 0};
      tensor.ndim = 1;
      tensor.dtype = {kDLFloat, 32, 1};
      tensor.shape = &shape;
      return tensor;
    };
    DLTensor in = view(x), out = view(y);
    const DLTensor *ins = &in, *outs = &out;
    fuse_launch_args args = {};
    args.size = sizeof(args);
    args.inputs = &ins;
    args.num_inputs = 1;
    args.outputs = &outs;
    args.num_outputs = 1;
    EXPECT_EQ(fuse_launch(instance, &args), FUSE_OK) << fuse_last_error();
    return y;
  }

private:
  fuse_instance *instance = nullptr;
};

TEST_F(Instances, RunBesideEachOther) {
  fuse_module *teacher = parse(), *student = parse();
  ASSERT_EQ(fuse_module_bind_slots(teacher, "bind: {scale: eager}", nullptr),
            FUSE_OK)
      << fuse_last_error();
  char *report = nullptr;
  ASSERT_EQ(fuse_module_bind_slots(
                student, "{\"bind\": {\"scale\": \"rough\"}}", &report),
            FUSE_OK)
      << fuse_last_error();
  EXPECT_NE(std::string(report).find("\"kernel\": \"rough\""),
            std::string::npos);
  fuse_string_free(report);

  Runner eager(teacher), rough(student);
  const Vector x = {1.0f, 1.001f, -3.0f, 257.0f};
  const Vector exact = {2.0f, 2.002f, -6.0f, 514.0f};
  const Vector rounded = {2.0f, 2.0f, -6.0f, 512.0f};
  EXPECT_EQ(eager(x), exact);
  EXPECT_EQ(rough(x), rounded);
  EXPECT_EQ(eager(x), exact);

  // After unbinding, the student can be bound like the teacher and gives the
  // same.
  ASSERT_EQ(fuse_module_unbind_slots(student, nullptr), FUSE_OK);
  ASSERT_EQ(fuse_module_bind_slots(student, "bind: {scale: eager}", nullptr),
            FUSE_OK)
      << fuse_last_error();
  EXPECT_EQ(Runner(student)(x), exact);
  fuse_module_destroy(teacher);
  fuse_module_destroy(student);
}

TEST_F(Instances, ErrorsSayWhatThereIs) {
  fuse_module *module = parse();
  EXPECT_EQ(fuse_module_bind_slots(module, "bind: {scale: fast}", nullptr),
            FUSE_ERROR_PASS);
  EXPECT_NE(std::string(fuse_last_error())
                .find("unknown kernel 'fast' for op=scale, variant=standard; "
                      "available: eager, rough"),
            std::string::npos)
      << fuse_last_error();
  EXPECT_EQ(fuse_module_bind_slots(module, "bind: [", nullptr),
            FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(fuse_module_bind_slots(nullptr, "", nullptr),
            FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(fuse_module_unbind_slots(module, "teacher"),
            FUSE_ERROR_INVALID_ARGUMENT);
  // A module with an unbound slot cannot be compiled.
  fuse_artifact *artifact = nullptr;
  EXPECT_EQ(fuse_module_compile(module, nullptr, &artifact), FUSE_ERROR_PASS);
  EXPECT_NE(std::string(fuse_last_error()).find("has no kernel bound"),
            std::string::npos)
      << fuse_last_error();
  fuse_module_destroy(module);
}

TEST_F(Instances, KernelsOfAContextAreListedAndUnique) {
  EXPECT_EQ(registerKernels(0), FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(fuse_last_error())
                .find("duplicate kernel registration: op=scale, "
                      "variant=standard, name=rough"),
            std::string::npos)
      << fuse_last_error();
  EXPECT_EQ(registerKernels(1), FUSE_OK) << fuse_last_error();
  char *text = nullptr;
  ASSERT_EQ(fuse_context_list_kernels(context, 0, &text), FUSE_OK);
  EXPECT_NE(std::string(text).find("op=scale, variant=standard"),
            std::string::npos);
  fuse_string_free(text);
  // Another context does not have the kernels of this one.
  fuse_context *other = nullptr;
  ASSERT_EQ(fuse_context_create(&other), FUSE_OK);
  ASSERT_EQ(fuse_context_list_kernels(other, 1, &text), FUSE_OK);
  EXPECT_EQ(std::string(text).find("\"scale\""), std::string::npos);
  fuse_string_free(text);
  fuse_context_destroy(other);
}

} // namespace
