// The C++ interface on top of the C interface: owners that can be moved,
// handlers that end with their context and not with its modules, failures as
// exceptions.

#include "fuse-c/Compiler.hpp"

#include <cstdio>

using namespace fuse::cxx;

static const char kText[] = R"(
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = fuse.activation silu %x : tensor<4xf32> -> tensor<4xf32>
    return %y : tensor<4xf32>
  })";

int main(int argc, char **argv) {
  int count = 0;
  auto handler = [&](fuse_severity, const char *, const char *) { ++count; };
  auto fails = [&](const Context &context) {
    try {
      Module module(context, "nonsense");
    } catch (const Error &error) {
      std::printf("%s: %s, handled %d\n", fuse_status_name(error.getStatus()),
                  error.what(), count);
    }
  };
  // CHECK: {{.+}}: {{.*}}custom op 'nonsense' is unknown{{.*}}, handled 1
  Context context;
  context.onDiagnostic(handler);
  fails(context);
  // A handler moves with its context.
  // CHECK-NEXT: {{.*}}handled 2
  Context moved = std::move(context);
  fails(moved);
  // Assigning ends what was there.
  // CHECK-NEXT: {{.*}}handled 2
  moved = Context();
  fails(moved);
  // A module does not call a handler of a context that is gone.
  Module module(moved, "module {}");
  {
    Context gone;
    gone.onDiagnostic(handler);
    gone.onRemark([&](const fuse_remark &) { ++count; });
    module = Module(gone, kText);
  }
  // CHECK-NEXT: pipeline fails, handled 2
  try {
    module.run("builtin.module(func.func(fuse-check-contracts{nonsense}))");
  } catch (const Error &) {
    std::printf("pipeline fails, handled %d\n", count);
  }
  // CHECK: func.func @f
  std::printf("%s", module.clone().print().c_str());
  // CHECK: compiled 0, then 1: @f
  if (argc < 3)
    return 2;
  Cache cache(argv[1]);
  (void)module.compile();
  fuse_cache_result first, second;
  Artifact artifact = module.compile({}, cache, &first);
  (void)module.compile({}, cache, &second);
  Program program(artifact, Device::cpu());
  std::printf("compiled %d, then %d: @%s\n", int(first), int(second),
              program.getSignature(0).name);
  // CHECK-NEXT: FUSE_ERROR_INVALID_ARGUMENT: {{.*}}'0123' is not a SHA-256
  artifact.save(argv[2]);
  try {
    Artifact::load(argv[2], "0123");
  } catch (const Error &error) {
    std::printf("%s: %s\n", fuse_status_name(error.getStatus()), error.what());
  }
  return 0;
}
