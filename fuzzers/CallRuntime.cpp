//===- CallRuntime.cpp - Fuzz sequences of C API calls --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each pair of bytes selects a call and its arguments: existing or null
// handles, and valid or invalid tensors. Calls come in any order, and the
// objects that a handle was made from may already be destroyed. Each handle is
// destroyed once, as the API requires. The GPU is the fake driver of the tests,
// whose calls may fail. At the end no resource of the driver may be left.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "TestArtifact.h"
#include "fuse-c/Runtime.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include <dlfcn.h>

using namespace fuse;

namespace {

/// Driver functions whose failure leaks nothing.
constexpr const char *kFailing[] = {
    "cuDeviceGetCount",    "cuDevicePrimaryCtxRetain",
    "cuModuleLoadDataEx",  "cuModuleGetFunction",
    "cuFuncSetAttribute",  "cuMemAlloc",
    "cuMemcpyHtoD",        "cuMemsetD8",
    "cuStreamIsCapturing", "cuTensorMapEncodeTiled",
    "cuLaunchKernelEx",    "cuEventRecord"};
constexpr int kCodes[] = {1, 2, 222, 700, 719, 999};

/// The handles of one sequence.
struct Handles {
  fuse_artifact *artifact = nullptr;
  fuse_device *device = nullptr;
  fuse_program *program = nullptr;
  fuse_instance *instance = nullptr;
  fuse_workspace *workspace = nullptr;
  fuse_shared_weights *shared = nullptr;

  ~Handles() {
    fuse_shared_weights_destroy(shared);
    fuse_workspace_destroy(workspace);
    fuse_instance_destroy(instance);
    fuse_program_destroy(program);
    fuse_device_destroy(device);
    fuse_artifact_destroy(artifact);
  }
};

/// A tensor that `choice` makes valid or invalid.
struct Tensor {
  explicit Tensor(uint8_t choice) {
    std::memset(&view, 0, sizeof(view));
    view.data = choice & 1 ? nullptr : data;
    view.device = {choice & 2 ? kDLCUDA : kDLCPU, 0};
    view.dtype = {uint8_t(choice & 4 ? kDLFloat : kDLBfloat),
                  uint8_t(choice & 4 ? 32 : 16), 1};
    view.ndim = choice & 8 ? 1 : 2;
    static constexpr int64_t sizes[] = {64, 256, 4, -1};
    shape[0] = sizes[choice / 16 % 4];
    shape[1] = choice & 64 ? int64_t(1) << 62 : 64;
    view.shape = choice & 128 ? nullptr : shape;
  }
  DLTensor view;
  int64_t shape[2];
  alignas(64) static inline char data[256 * 64 * 4];
};

} // namespace

/// The fake driver, loaded under the name of the driver.
static const FakeCuda &getFake() {
  static const FakeCuda &fake = []() -> const FakeCuda & {
    void *library = ::dlopen(FAKE_CUDA, RTLD_NOW);
    auto get = library ? reinterpret_cast<const FakeCuda *(*)()>(
                             ::dlsym(library, "getFakeCuda"))
                       : nullptr;
    if (!get) {
      std::fprintf(stderr, "%s\n", ::dlerror());
      std::abort();
    }
    const FakeCuda &found = *get();
    int first[] = {8, 8, 128, 4, 4}, second[] = {8, 8, 8, 8, 8};
    found.declare("first", 5, first);
    found.declare("second", 5, second);
    return found;
  }();
  return fake;
}

/// One of several streams, including the default streams.
static void *getStream(uint8_t choice) {
  return reinterpret_cast<void *>(uintptr_t(choice % 5));
}

static void call(Handles &h, uint8_t which, uint8_t choice) {
  static const std::string bytes = test::makeArtifact(test::kManifest);
  static char results[256 * 64 * 4];
  Tensor tensor(choice), result(choice);
  result.view.data = results;
  const DLTensor *list[2] = {&tensor.view, choice & 1 ? nullptr : &tensor.view};
  const DLTensor *outputs[2] = {&result.view, &tensor.view};
  size_t number = 0;
  switch (which % 26) {
  case 0:
    if (!h.artifact)
      (void)fuse_artifact_from_bytes(bytes.data(), bytes.size() - choice % 2,
                                     &h.artifact);
    break;
  case 1:
    fuse_artifact_destroy(h.artifact);
    h.artifact = nullptr;
    break;
  case 2:
    if (!h.device)
      (void)(choice % 4 == 0 ? fuse_device_open_cpu(&h.device)
                             : fuse_device_open_cuda(choice / 64, &h.device));
    break;
  case 3:
    fuse_device_destroy(h.device);
    h.device = nullptr;
    break;
  case 4:
    if (!h.program)
      (void)fuse_program_load(h.artifact, h.device, &h.program);
    break;
  case 5:
    fuse_program_destroy(h.program);
    h.program = nullptr;
    break;
  case 6:
    if (!h.instance)
      (void)fuse_instance_create(h.program, choice % 2 ? "f" : "g",
                                 &h.instance);
    break;
  case 7:
    fuse_instance_destroy(h.instance);
    h.instance = nullptr;
    break;
  case 8:
    (void)fuse_instance_bind_view(h.instance, choice % 5, &tensor.view);
    break;
  case 9:
    (void)fuse_instance_bind_parameter(
        h.instance, choice % 2 ? "up" : "no such name", &tensor.view);
    break;
  case 10:
    (void)fuse_instance_prepare(h.instance);
    break;
  case 11:
    (void)fuse_instance_num_inputs(h.instance, &number);
    break;
  case 12: {
    int64_t shape[2];
    (void)fuse_instance_result_shape(h.instance, list, choice % 3, choice / 64,
                                     shape);
    break;
  }
  case 13:
    (void)fuse_instance_workspace_size(h.instance, list, choice % 3, &number);
    break;
  case 14:
    if (!h.workspace)
      (void)fuse_workspace_create(h.instance, choice * size_t(128),
                                  &h.workspace);
    break;
  case 15:
    fuse_workspace_destroy(h.workspace);
    h.workspace = nullptr;
    break;
  case 16: {
    fuse_launch_args args;
    std::memset(&args, 0, sizeof(args));
    args.size = choice & 128 ? choice : sizeof(args);
    args.inputs = choice & 64 ? nullptr : list;
    args.num_inputs = choice % 3;
    args.outputs = choice & 32 ? nullptr : outputs;
    args.num_outputs = choice / 16 % 3;
    args.workspace = h.workspace;
    (void)fuse_launch(h.instance, &args);
    break;
  }
  // A launch with all required arguments.
  case 20: {
    Tensor input(2), output(2);
    output.view.data = results;
    const DLTensor *in = &input.view, *out = &output.view;
    fuse_launch_args args = {sizeof(args),
                             &in,
                             1,
                             &out,
                             1,
                             h.workspace,
                             getStream(choice),
                             uint32_t(choice / 8 % 4)};
    (void)fuse_launch(h.instance, &args);
    break;
  }
  case 21: {
    Tensor up(16), norm(8);
    (void)fuse_instance_bind_view(h.instance, 1, &up.view);
    (void)fuse_instance_bind_view(h.instance, 2, &norm.view);
    (void)(choice % 2 ? fuse_instance_prepare(h.instance)
                      : fuse_instance_prepare_shared(h.instance, h.shared));
    break;
  }
  case 22:
    (void)fuse_device_set_exclusive(h.device, choice % 2);
    break;
  case 23:
    (void)fuse_instance_limit_tokens(h.instance, choice - 8);
    break;
  case 24:
    if (choice % 2)
      getFake().set("capturing", choice / 2 % 5);
    else
      getFake().fail(kFailing[choice / 16 % std::size(kFailing)],
                     1 + choice / 2 % 3, kCodes[choice % std::size(kCodes)]);
    break;
  case 25:
    if (h.shared) {
      fuse_shared_weights_destroy(h.shared);
      h.shared = nullptr;
    } else {
      (void)fuse_shared_weights_create(&h.shared);
    }
    break;
  case 17:
    (void)fuse_device_wait(h.device, getStream(choice), 1000);
    (void)fuse_device_check(h.device);
    break;
  case 18: {
    fuse_signature signature;
    (void)fuse_program_signature(h.program, choice % 3, &signature);
    break;
  }
  default: {
    fuse_section section;
    (void)fuse_artifact_section(h.artifact, choice % 5, &section);
    break;
  }
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const FakeCuda &fake = getFake();
  {
    Handles handles;
    for (size_t i = 0; i + 1 < size && i < 400; i += 2)
      call(handles, data[i], data[i + 1]);
    fake.reset();
    fake.set("capturing", 0);
  }
  if (int count = fake.countHandles()) {
    std::fprintf(stderr, "%d handles of the driver are left\n", count);
    std::abort();
  }
  return 0;
}
