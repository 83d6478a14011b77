/*===- fuse-c/Runtime.h - C interface to compiled code ------------*- C -*-===*
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * Loads artifacts and runs them on tensors of the caller. The library of this
 * header, libfuse-rt, links neither MLIR nor LLVM. fuse-c/Compiler.h compiles
 * IR to artifacts in the same process.
 *
 *   artifact   output of fuse-compile: code, launch plan, fused IR
 *   device     the CPU, or one CUDA device
 *   program    an artifact whose code is on a device
 *   instance   a function of a program, and the weights bound to it
 *
 * Every function that can fail returns a status; `fuse_last_error` returns a
 * message. No function throws an exception. Several threads may use a handle at
 * once; binding waits for launches of the same instance in other threads. A
 * handle keeps the handles that it was made from alive, so handles may be
 * destroyed in any order. Destroying null is allowed.
 *
 *===----------------------------------------------------------------------===*/

#ifndef FUSE_C_RUNTIME_H
#define FUSE_C_RUNTIME_H

#include "dlpack/dlpack.h"
#include "fuse-c/Status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fuse_artifact fuse_artifact;
typedef struct fuse_device fuse_device;
typedef struct fuse_program fuse_program;
typedef struct fuse_instance fuse_instance;
typedef struct fuse_workspace fuse_workspace;
typedef struct fuse_shared_weights fuse_shared_weights;

/*===----------------------------------------------------------------------===*
 * Artifacts
 *===----------------------------------------------------------------------===*/

/* Reads a file and checks all of it: lengths before anything is allocated, the
 * checksum, and every field of the manifest. */
FUSE_C_EXPORT fuse_status fuse_artifact_load(const char *path,
                                             fuse_artifact **artifact);

/* Does the same for a file whose SHA-256 is known, and checks the digest before
 * it looks at the content. `sha256` is 64 hexadecimal digits of either case,
 * else FUSE_ERROR_INVALID_ARGUMENT. Another digest is FUSE_ERROR_FORMAT. The
 * file is read once, so the checked bytes are those that later run. */
FUSE_C_EXPORT fuse_status fuse_artifact_load_checked(const char *path,
                                                     const char *sha256,
                                                     fuse_artifact **artifact);

/* Loads an artifact from bytes in memory, which are copied. */
FUSE_C_EXPORT fuse_status fuse_artifact_from_bytes(const void *bytes,
                                                   size_t size,
                                                   fuse_artifact **artifact);

/* Writes a file atomically: readers see the old file or the complete new one.
 */
FUSE_C_EXPORT fuse_status fuse_artifact_save(const fuse_artifact *artifact,
                                             const char *path);

FUSE_C_EXPORT void fuse_artifact_destroy(fuse_artifact *artifact);

/* The bytes of the file, which live as long as the artifact. If
 * fuse_module_compile has deferred code, this call compiles it, as do saving
 * and reading sections. On failure the result is null and the last error is
 * set. */
FUSE_C_EXPORT const void *fuse_artifact_bytes(const fuse_artifact *artifact,
                                              size_t *size);

typedef enum fuse_section_kind {
  FUSE_SECTION_MANIFEST = 1,     /* JSON: signatures, plans, provenance */
  FUSE_SECTION_IR = 2,           /* the fused IR as text */
  FUSE_SECTION_HOST_LIBRARY = 3, /* an ELF shared object */
  FUSE_SECTION_HOST_OBJECT = 4,  /* an ELF relocatable object or, if several
                                  * threads generated the code, an ar archive */
  FUSE_SECTION_PTX = 5,          /* text */
  FUSE_SECTION_CUBIN = 6,        /* code for one chip */
  FUSE_SECTION_SLOTS = 7,        /* JSON: bindings of the slots */
  FUSE_SECTION_CONSTANTS = 8     /* tensors that kernels read */
} fuse_section_kind;

typedef struct fuse_section {
  uint32_t kind;
  const void *data;
  size_t size;
} fuse_section;

FUSE_C_EXPORT size_t fuse_artifact_num_sections(const fuse_artifact *artifact);

/* `section` points into the artifact. */
FUSE_C_EXPORT fuse_status fuse_artifact_section(const fuse_artifact *artifact,
                                                size_t index,
                                                fuse_section *section);

/*===----------------------------------------------------------------------===*
 * Devices
 *===----------------------------------------------------------------------===*/

FUSE_C_EXPORT fuse_status fuse_device_open_cpu(fuse_device **device);

/* Loads the CUDA driver on the first call and retains the primary context of a
 * device, which CUDA libraries share. */
FUSE_C_EXPORT fuse_status fuse_device_open_cuda(int32_t ordinal,
                                                fuse_device **device);

FUSE_C_EXPORT void fuse_device_destroy(fuse_device *device);

/* FUSE_OK, or the reason that the device cannot be used any more. */
FUSE_C_EXPORT fuse_status fuse_device_check(const fuse_device *device);

/* Waits until everything launched on `stream` so far has finished, for at most
 * `timeout_ms` milliseconds. After FUSE_ERROR_TIMEOUT the device handle is
 * unusable, because running work cannot be stopped. Launches on the CPU have
 * finished when they return. */
FUSE_C_EXPORT fuse_status fuse_device_wait(fuse_device *device, void *stream,
                                           uint64_t timeout_ms);

/* A nonzero value is a promise of the caller: no two kernels whose blocks wait
 * for each other run on the CUDA device at once. Such kernels of this library
 * must be launched on one stream, or be ordered by events or by waiting. No
 * other such kernels may run meanwhile, for example collectives or kernels of
 * another process under MPS. If the promise is broken, kernels may hang.
 *
 * Launches that overlap their predecessor are then not cooperative: their
 * blocks start as others end, instead of when there is room for all. Other
 * launches and launches with clusters are unaffected, and results do not
 * change.
 *
 * A launch through this handle on another stream than the last one is
 * FUSE_ERROR_STATE. It is permitted once fuse_device_wait has seen the last one
 * end, or with FUSE_LAUNCH_ORDERED. Launches that a graph captures are not
 * counted, nor are replays of the graph. Every call forgets the last launch, so
 * call it while no launch runs. FUSE_ERROR_UNSUPPORTED for the CPU. */
FUSE_C_EXPORT fuse_status fuse_device_set_exclusive(fuse_device *device,
                                                    int32_t exclusive);

/* Sets the number of threads that share a launch on the CPU, including the
 * calling thread. 1024 is the maximum. 0 restores the default:
 * FUSE_NUM_THREADS, or the number of processors that the process may use. Waits
 * for a running launch. Results do not depend on the number. */
FUSE_C_EXPORT fuse_status fuse_set_num_threads(uint32_t num_threads);

FUSE_C_EXPORT fuse_status fuse_num_threads(uint32_t *num_threads);

/* Lets launches on the CPU run on the threads of a library for OpenMP, while
 * that has as many threads as this library. `parallel` is its GOMP_parallel,
 * `max_threads` its omp_get_max_threads. A program that computes with OpenMP
 * between launches should do so: threads of two libraries that wait for work
 * take processors from each other. Null restores the threads of this library,
 * which a forked process uses in any case. Call it while no launch runs. */
typedef void (*fuse_parallel)(void (*body)(void *), void *data,
                              unsigned num_threads, unsigned flags);
FUSE_C_EXPORT fuse_status fuse_set_team(fuse_parallel parallel,
                                        int (*max_threads)(void));

/*===----------------------------------------------------------------------===*
 * Programs
 *===----------------------------------------------------------------------===*/

/* Checks that the code supports this machine and this device, and loads it
 * there. GPU code is loaded when the first instance is prepared. */
FUSE_C_EXPORT fuse_status fuse_program_load(const fuse_artifact *artifact,
                                            fuse_device *device,
                                            fuse_program **program);

FUSE_C_EXPORT void fuse_program_destroy(fuse_program *program);

FUSE_C_EXPORT size_t fuse_program_num_functions(const fuse_program *program);

/* A tensor of a signature. Strings and arrays live as long as the program. */
typedef struct fuse_tensor_type {
  DLDataType dtype;
  int32_t ndim;
  /* -1 for sizes that are known at run time only. */
  const int64_t *shape;
  /* Name of the model parameter that binds here, or null. */
  const char *parameter;
} fuse_tensor_type;

typedef struct fuse_signature {
  const char *name;
  size_t num_arguments;
  const fuse_tensor_type *arguments;
  size_t num_results;
  const fuse_tensor_type *results;
  /* Largest number of rows in the token dimension that the code supports, or 0
   * for any. */
  int64_t max_tokens;
} fuse_signature;

FUSE_C_EXPORT fuse_status fuse_program_signature(const fuse_program *program,
                                                 size_t function,
                                                 fuse_signature *signature);

/*===----------------------------------------------------------------------===*
 * Instances
 *===----------------------------------------------------------------------===*/

/* Creates an instance of the function with the name `function`, which may be
 * null if there is only one. */
FUSE_C_EXPORT fuse_status fuse_instance_create(fuse_program *program,
                                               const char *function,
                                               fuse_instance **instance);

FUSE_C_EXPORT void fuse_instance_destroy(fuse_instance *instance);

/* Binds a tensor to an argument for all launches. On the CPU nothing is copied
 * except weights that fuse_instance_prepare reorders for the kernels. On
 * success the instance owns the tensor. It calls the deleter once, when another
 * tensor replaces it or the instance is destroyed. On failure the caller keeps
 * the tensor. */
FUSE_C_EXPORT fuse_status
fuse_instance_bind(fuse_instance *instance, size_t argument,
                   struct DLManagedTensorVersioned *tensor);

/* Does the same for tensors of DLPack before 1.0. */
FUSE_C_EXPORT fuse_status fuse_instance_bind_legacy(fuse_instance *instance,
                                                    size_t argument,
                                                    DLManagedTensor *tensor);

/* Does the same for memory that the caller keeps alive. */
FUSE_C_EXPORT fuse_status fuse_instance_bind_view(fuse_instance *instance,
                                                  size_t argument,
                                                  const DLTensor *tensor);

/* Binds a tensor to the argument of a parameter, by the parameter's name. */
FUSE_C_EXPORT fuse_status fuse_instance_bind_parameter(fuse_instance *instance,
                                                       const char *parameter,
                                                       const DLTensor *tensor);

/* The static scales of a function's code: each value once, as it was compiled.
 * There are none if the code has no static scales, or has them as constants.
 * The array lives as long as the program. */
FUSE_C_EXPORT fuse_status fuse_program_scales(const fuse_program *program,
                                              size_t function,
                                              const float **scales,
                                              size_t *count);

/* Replaces the static scales of later launches of one instance, in the order of
 * fuse_program_scales. Layers of a model that differ only in scales can thus
 * share a program. Results are those of code that was compiled with these
 * scales. Captured graphs keep the scales that they were captured with. */
FUSE_C_EXPORT fuse_status fuse_instance_set_scales(fuse_instance *instance,
                                                   const float *scales,
                                                   size_t count);

/* Does all the work that a launch must not do: packs and copies weights, loads
 * code. Every argument with a parameter name has to be bound. It is unspecified
 * whether launches see later changes of a bound tensor's values: bind the
 * tensor again.
 *
 * Binding again undoes this call. The next call then waits for the device and
 * replaces packed copies of the same tensors in place. Captured graphs thus
 * read the new values.
 *
 * If fuse_module_compile has deferred kernels, this call compiles those of all
 * ranges of tokens on several threads. With the default of 16384 tokens, a
 * small block needs about 0.6 s of processor time. To reduce it, limit the
 * tokens before (fuse_instance_limit_tokens; one range needs about 30 ms),
 * compile for fewer (`tokens`), or keep artifacts in a cache, which stores all
 * code. */
FUSE_C_EXPORT fuse_status fuse_instance_prepare(fuse_instance *instance);

/* Limits the number of tokens of launches. The default is the largest number
 * that the code supports. Code for more tokens is not loaded when the instance
 * is prepared, nor compiled if fuse_module_compile has deferred it.
 *
 * If the instance is prepared, the call loads missing code at once, while
 * launches of other threads continue. The instance stays prepared, and nothing
 * is unloaded. Several modules are compiled and loaded on FUSE_NUM_THREADS
 * threads, or on one per processor. */
FUSE_C_EXPORT fuse_status fuse_instance_limit_tokens(fuse_instance *instance,
                                                     int64_t tokens);

/* Creates a handle for packed weights that several instances share, such as
 * variants of the kernels of one block. Instances share them per device. Packed
 * weights are identified by the address of the tensors. After their values have
 * changed, prepare with another handle. */
FUSE_C_EXPORT fuse_status
fuse_shared_weights_create(fuse_shared_weights **shared);

FUSE_C_EXPORT void fuse_shared_weights_destroy(fuse_shared_weights *shared);

/* Does the same as `fuse_instance_prepare`, but reuses weights that another
 * instance has packed with `shared`. `shared` may be destroyed before the
 * instances. */
FUSE_C_EXPORT fuse_status fuse_instance_prepare_shared(
    fuse_instance *instance, fuse_shared_weights *shared);

/* Number of inputs of a launch: the arguments that are not bound, in order. If
 * the signature limits the number of tokens, tensors on a CUDA device must be
 * aligned to 16 bytes, because kernels use vector loads. */
FUSE_C_EXPORT fuse_status
fuse_instance_num_inputs(const fuse_instance *instance, size_t *num_inputs);

/* Computes the shape of a result for inputs of given shapes; their data may be
 * null. `shape` has room for the ndim of the result in the signature. */
FUSE_C_EXPORT fuse_status fuse_instance_result_shape(
    const fuse_instance *instance, const DLTensor *const *inputs,
    size_t num_inputs, size_t result, int64_t *shape);

/* Size in bytes of the workspace for a launch on such inputs, or on inputs with
 * fewer tokens. */
FUSE_C_EXPORT fuse_status fuse_instance_workspace_size(
    const fuse_instance *instance, const DLTensor *const *inputs,
    size_t num_inputs, size_t *bytes);

/* Allocates and initializes a workspace on the device of an instance. All
 * instances of the same function of an artifact can use it. A workspace serves
 * one launch at a time, so launches that may overlap on different streams
 * require separate workspaces. A launch on another stream than the last one is
 * FUSE_ERROR_STATE until fuse_device_wait has seen the last one end. */
FUSE_C_EXPORT fuse_status fuse_workspace_create(fuse_instance *instance,
                                                size_t bytes,
                                                fuse_workspace **workspace);

FUSE_C_EXPORT void fuse_workspace_destroy(fuse_workspace *workspace);

typedef enum fuse_launch_flags {
  /* The previous launch on the stream was also made by this library, and the
   * kernel may start while it ends (programmatic dependent launch). Ignored if
   * the code does not support it. */
  FUSE_LAUNCH_OVERLAP = 1,
  /* The caller has ordered this launch after the last one with the same
   * workspace, if that was on another stream. On an exclusive device, the same
   * holds for its last launch. It is ordered by an event, by a wait other than
   * fuse_device_wait, or because it was only captured in a graph. */
  FUSE_LAUNCH_ORDERED = 2
} fuse_launch_flags;

typedef struct fuse_launch_args {
  /* sizeof(fuse_launch_args). */
  size_t size;
  const DLTensor *const *inputs;
  size_t num_inputs;
  /* Tensors of the caller for the results. They must overlap neither the
   * arguments nor each other. */
  const DLTensor *const *outputs;
  size_t num_outputs;
  /* Null if no workspace is needed. On the CPU, null stands for memory that the
   * calling thread keeps and that grows as needed. */
  fuse_workspace *workspace;
  /* CUstream; null for the default stream. Ignored on the CPU. */
  void *stream;
  uint32_t flags;
} fuse_launch_args;

/* Runs the function, unless all results are empty. On a CUDA device this call
 * enqueues kernels on the stream. It neither allocates nor waits, so it can be
 * captured in a graph. On the CPU the results are complete on return. */
FUSE_C_EXPORT fuse_status fuse_launch(fuse_instance *instance,
                                      const fuse_launch_args *args);

/* Checks version and flags of a tensor of DLPack 1.x and returns its view,
 * which lives as long as the tensor. `writable` is nonzero for outputs. */
FUSE_C_EXPORT fuse_status
fuse_tensor_view(const struct DLManagedTensorVersioned *tensor, int writable,
                 const DLTensor **view);

/*===----------------------------------------------------------------------===*
 * Object code
 *===----------------------------------------------------------------------===*/

/* Loads FUSE_SECTION_HOST_OBJECT, which requires a linker. fuse-c/Compiler.h
 * sets it to LLVM's linker. Without one, only linked artifacts run on the CPU.
 */
typedef struct fuse_object_linker {
  /* Returns a handle, or sets the last error and returns a status. */
  fuse_status (*link)(const void *object, size_t size, void **handle);
  /* The address of a symbol, or null. The last error may state the reason. */
  void *(*lookup)(void *handle, const char *symbol);
  void (*unlink)(void *handle);
} fuse_object_linker;

/* Sets the linker. The functions have to stay valid until the process ends. */
FUSE_C_EXPORT void fuse_set_object_linker(const fuse_object_linker *linker);

/* Generates the code that is missing in the bytes of an artifact. The compiler
 * behind fuse_module_compile is an example. Several threads call it at once. On
 * failure a function sets the last error and returns a status. */
typedef struct fuse_code_source {
  /* PTX of the module whose number in the manifest under "deferred" is
   * `number`. The text lives until `destroy`. */
  fuse_status (*compile)(void *data, size_t number, const char **text,
                         size_t *length);
  /* The bytes of the artifact with all of its code. They live until `destroy`.
   */
  fuse_status (*complete)(void *data, const void **bytes, size_t *size);
  /* May be null. */
  void (*destroy)(void *data);
  void *data;
} fuse_code_source;

/* Does the same as fuse_artifact_from_bytes with a source for missing code. On
 * success the artifact and everything made from it own the data of the source.
 * On failure the caller keeps them. */
FUSE_C_EXPORT fuse_status fuse_artifact_from_source(
    const void *bytes, size_t size, const fuse_code_source *source,
    fuse_artifact **artifact);

#ifdef __cplusplus
}
#endif

#endif /* FUSE_C_RUNTIME_H */
