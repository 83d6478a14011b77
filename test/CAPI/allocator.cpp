// A program with its own allocator: its operator delete only accepts memory of
// its operator new. libfuse-rt has its own C++ library, and must use no code of
// the program, not even templates that both instantiate.

#include "fuse-c/Runtime.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

static constexpr size_t kShift = 64;

void *operator new(size_t bytes) {
  auto *memory = static_cast<char *>(std::malloc(bytes + kShift));
  if (!memory)
    std::abort();
  return memory + kShift;
}

void operator delete(void *memory) noexcept {
  if (memory)
    std::free(static_cast<char *>(memory) - kShift);
}

void operator delete(void *memory, size_t) noexcept { operator delete(memory); }

int main() {
  // Templates that the runtime uses to build its messages.
  std::string name = "nowhere/" + std::to_string(123456789) + ".fuse";
  std::string longer = name + " is the name of a file that is not there";
  fuse_artifact *artifact = nullptr;
  fuse_status status = fuse_artifact_load(name.c_str(), &artifact);
  std::printf("%s: %s\n", fuse_status_name(status), fuse_last_error());
  std::printf("%s\n", longer.c_str());
  return 0;
}
