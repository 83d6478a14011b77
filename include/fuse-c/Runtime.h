/*===- fuse-c/Runtime.h - C interface to compiled code ------------*- C -*-===*
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * Loads artifacts and runs them on tensors of the caller. The library of this
 * header, libfuse-rt, links neither MLIR nor LLVM; fuse-c/Compiler.h makes
 * artifacts from IR in the same process.
 *
 *   artifact   what fuse-compile wrote: code, launch plan, fused IR
 *   device     the CPU, or one CUDA device
 *   program    an artifact whose code is on a device
 *   instance   a function of a program, and the weights bound to it
 *
 * Every function that can fail returns a status; `fuse_last_error` has a
 * sentence. No exception leaves a function. Handles may be used by several
 * threads at once, except that binding waits for launches of the same instance
 * in other threads. A handle keeps what it was made from alive, so handles may
 * be destroyed in any order. Destroying null is allowed.
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

/* The same for bytes in memory, which are copied. */
FUSE_C_EXPORT fuse_status fuse_artifact_from_bytes(const void *bytes,
                                                   size_t size,
                                                   fuse_artifact **artifact);

/* Writes a file. Readers see the old file or the whole new one. */
FUSE_C_EXPORT fuse_status fuse_artifact_save(const fuse_artifact *artifact,
                                             const char *path);

FUSE_C_EXPORT void fuse_artifact_destroy(fuse_artifact *artifact);

/* The bytes of the file; they live as long as the artifact. Null, and the last
 * error, if code that fuse_module_compile has left for later cannot be made,
 * which this, saving and sections wait for. */
FUSE_C_EXPORT const void *fuse_artifact_bytes(const fuse_artifact *artifact,
                                              size_t *size);

typedef enum fuse_section_kind {
  FUSE_SECTION_MANIFEST = 1,     /* JSON: signatures, plans, provenance */
  FUSE_SECTION_IR = 2,           /* the fused IR as text */
  FUSE_SECTION_HOST_LIBRARY = 3, /* an ELF shared object */
  FUSE_SECTION_HOST_OBJECT = 4,  /* an ELF relocatable object or, for code that
                                  * several threads made, an ar archive */
  FUSE_SECTION_PTX = 5,          /* text */
  FUSE_SECTION_CUBIN = 6,        /* code for one chip */
  FUSE_SECTION_SLOTS = 7         /* JSON: what slots are bound to */
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

/* Loads the CUDA driver when it is first called and takes the primary context
 * of a device, which is the one that CUDA libraries share. */
FUSE_C_EXPORT fuse_status fuse_device_open_cuda(int32_t ordinal,
                                                fuse_device **device);

FUSE_C_EXPORT void fuse_device_destroy(fuse_device *device);

/* FUSE_OK, or why the device cannot be used any more. */
FUSE_C_EXPORT fuse_status fuse_device_check(const fuse_device *device);

/* Waits until everything launched on `stream` so far has finished. After
 * FUSE_ERROR_TIMEOUT the device handle is unusable, because nothing can stop
 * what still runs. Launches on the CPU have finished when they return. */
FUSE_C_EXPORT fuse_status fuse_device_wait(fuse_device *device, void *stream,
                                           uint64_t timeout_ms);

/* Nonzero is the caller's promise that no two kernels whose blocks wait for
 * each other run on a CUDA device at the same time: those of this library are
 * launched on one stream, or in an order that events or waiting make, and
 * no other kernels run there meanwhile, such as collectives or those of another
 * process under MPS. Launches that overlap the one before them are then not
 * cooperative: their blocks start as others end, instead of when there is room
 * for all. Where the promise is broken, kernels may wait for ever.
 *
 * Other launches and those in clusters stay as they are, and results do not
 * change. A launch through this handle on another stream than the last one is
 * FUSE_ERROR_STATE until fuse_device_wait has seen the end of that, or with
 * FUSE_LAUNCH_ORDERED; those that a graph captures are not counted, nor are its
 * replays. Every call forgets the last launch: call it while none runs.
 * FUSE_ERROR_UNSUPPORTED for the CPU. */
FUSE_C_EXPORT fuse_status fuse_device_set_exclusive(fuse_device *device,
                                                    int32_t exclusive);

/* Threads that launches on the CPU share, the calling one among them: at first
 * as many as FUSE_NUM_THREADS says, or as there are processors that the process
 * may run on. 0 stands for that number again, 1024 is the most. Waits for
 * a launch that runs. Results do not depend on it. */
FUSE_C_EXPORT fuse_status fuse_set_num_threads(uint32_t num_threads);

FUSE_C_EXPORT fuse_status fuse_num_threads(uint32_t *num_threads);

/*===----------------------------------------------------------------------===*
 * Programs
 *===----------------------------------------------------------------------===*/

/* Checks that the code is for this machine and this device, and puts it there.
 * GPU code is loaded when the first instance is prepared. */
FUSE_C_EXPORT fuse_status fuse_program_load(const fuse_artifact *artifact,
                                            fuse_device *device,
                                            fuse_program **program);

FUSE_C_EXPORT void fuse_program_destroy(fuse_program *program);

FUSE_C_EXPORT size_t fuse_program_num_functions(const fuse_program *program);

/* A tensor of a signature. Strings and arrays live as long as the program. */
typedef struct fuse_tensor_type {
  DLDataType dtype;
  int32_t ndim;
  /* -1 where the size is known at run time only. */
  const int64_t *shape;
  /* Name of the model's parameter that belongs here, or null. */
  const char *parameter;
} fuse_tensor_type;

typedef struct fuse_signature {
  const char *name;
  size_t num_arguments;
  const fuse_tensor_type *arguments;
  size_t num_results;
  const fuse_tensor_type *results;
  /* Most rows of the token dimension that the code takes, 0 for any. */
  int64_t max_tokens;
} fuse_signature;

FUSE_C_EXPORT fuse_status fuse_program_signature(const fuse_program *program,
                                                 size_t function,
                                                 fuse_signature *signature);

/*===----------------------------------------------------------------------===*
 * Instances
 *===----------------------------------------------------------------------===*/

/* `function` is a name, or null if there is one only. */
FUSE_C_EXPORT fuse_status fuse_instance_create(fuse_program *program,
                                               const char *function,
                                               fuse_instance **instance);

FUSE_C_EXPORT void fuse_instance_destroy(fuse_instance *instance);

/* Binds a tensor to an argument for all launches. On the CPU nothing is copied
 * but weights that kernels want in another order, by fuse_instance_prepare.
 * On success the instance owns the tensor and calls its deleter once, when
 * another one is bound in its place or the instance is destroyed. On failure
 * the tensor stays the caller's. */
FUSE_C_EXPORT fuse_status
fuse_instance_bind(fuse_instance *instance, size_t argument,
                   struct DLManagedTensorVersioned *tensor);

/* The same for tensors of DLPack before 1.0. */
FUSE_C_EXPORT fuse_status fuse_instance_bind_legacy(fuse_instance *instance,
                                                    size_t argument,
                                                    DLManagedTensor *tensor);

/* The same for memory that the caller keeps alive. */
FUSE_C_EXPORT fuse_status fuse_instance_bind_view(fuse_instance *instance,
                                                  size_t argument,
                                                  const DLTensor *tensor);

/* Binds a tensor to the argument of a parameter, by the parameter's name. */
FUSE_C_EXPORT fuse_status fuse_instance_bind_parameter(fuse_instance *instance,
                                                       const char *parameter,
                                                       const DLTensor *tensor);

/* Does everything that a launch must not do: packs and copies weights, loads
 * code. Whether a later change of a bound tensor's values is seen is open: bind
 * it again. Every argument with a parameter name has to be bound. Binding again
 * undoes this. What was packed of the same tensors is then replaced where it
 * is, after waiting for the device, so that graphs that were captured before
 * read it.
 *
 * Where fuse_module_compile has left kernels for later, this compiles those of
 * all ranges of tokens: some 0.6 s of processor time for a small block and the
 * default of 16384 tokens, on several threads. To pay for what is needed alone,
 * limit the tokens before (fuse_instance_limit_tokens; one range takes some
 * 30 ms), compile for fewer (`tokens`), or keep artifacts in a cache, which
 * have all of it. */
FUSE_C_EXPORT fuse_status fuse_instance_prepare(fuse_instance *instance);

/* The most tokens that launches will have; by default as many as the code
 * takes. Code for more is not loaded when the instance is prepared, nor
 * compiled if fuse_module_compile has left it for later. An instance that is
 * prepared loads at once what it lacks, while launches of other threads go on;
 * it stays prepared, and nothing is unloaded. Several modules are compiled and
 * loaded on as many threads as FUSE_NUM_THREADS says, or as there are
 * processors. */
FUSE_C_EXPORT fuse_status fuse_instance_limit_tokens(fuse_instance *instance,
                                                     int64_t tokens);

/* What several instances read, such as variants of the kernels of one block;
 * those of each device share theirs. Weights that were packed before are found
 * again by where they lie: after they changed, prepare with another handle. */
FUSE_C_EXPORT fuse_status
fuse_shared_weights_create(fuse_shared_weights **shared);

FUSE_C_EXPORT void fuse_shared_weights_destroy(fuse_shared_weights *shared);

/* The same as `fuse_instance_prepare`, without packing again what another
 * instance has packed with `shared`, which may go before the instances. */
FUSE_C_EXPORT fuse_status fuse_instance_prepare_shared(
    fuse_instance *instance, fuse_shared_weights *shared);

/* Inputs of a launch are the arguments that are not bound, in their order. On a
 * CUDA device tensors begin at multiples of 16 bytes where the signature has
 * most tokens: kernels read vectors then. */
FUSE_C_EXPORT fuse_status
fuse_instance_num_inputs(const fuse_instance *instance, size_t *num_inputs);

/* The shape of a result for inputs of certain shapes; their data may be null.
 * `shape` has room for the ndim of the result in the signature. */
FUSE_C_EXPORT fuse_status fuse_instance_result_shape(
    const fuse_instance *instance, const DLTensor *const *inputs,
    size_t num_inputs, size_t result, int64_t *shape);

/* Bytes of workspace that a launch on such inputs needs, or one with fewer
 * tokens. */
FUSE_C_EXPORT fuse_status fuse_instance_workspace_size(
    const fuse_instance *instance, const DLTensor *const *inputs,
    size_t num_inputs, size_t *bytes);

/* Allocates a workspace on the device of an instance and initializes it, for
 * all instances of the same function of an artifact. One workspace serves one
 * launch at a time: launches that may overlap, on different streams, need one
 * each. A launch on another stream than the last one is FUSE_ERROR_STATE until
 * fuse_device_wait has seen the end of that. */
FUSE_C_EXPORT fuse_status fuse_workspace_create(fuse_instance *instance,
                                                size_t bytes,
                                                fuse_workspace **workspace);

FUSE_C_EXPORT void fuse_workspace_destroy(fuse_workspace *workspace);

typedef enum fuse_launch_flags {
  /* The launch before this one on the stream is of the same kind, and the
   * kernel may start while it ends (programmatic dependent launch). Ignored
   * where the code is not made for it. */
  FUSE_LAUNCH_OVERLAP = 1,
  /* The caller has ordered this launch after the last one with the same
   * workspace, and after the last one of an exclusive device, if that was on
   * another stream: by an event, by waiting for it without fuse_device_wait, or
   * because it was only captured in a graph. */
  FUSE_LAUNCH_ORDERED = 2
} fuse_launch_flags;

typedef struct fuse_launch_args {
  /* sizeof(fuse_launch_args). */
  size_t size;
  const DLTensor *const *inputs;
  size_t num_inputs;
  /* Tensors of the caller that the results are written to, and that overlap
   * neither arguments nor each other. */
  const DLTensor *const *outputs;
  size_t num_outputs;
  /* Null where no workspace is needed. On the CPU null stands for memory that
   * the calling thread keeps and that grows when it is too small. */
  fuse_workspace *workspace;
  /* CUstream; null for the default stream. Ignored on the CPU. */
  void *stream;
  uint32_t flags;
} fuse_launch_args;

/* Runs the function, unless no result has an element. On a CUDA device this
 * enqueues kernels on the stream, allocates nothing and waits for nothing, so
 * that it can be captured in a graph. On the CPU the results are complete on
 * return. */
FUSE_C_EXPORT fuse_status fuse_launch(fuse_instance *instance,
                                      const fuse_launch_args *args);

/* Checks version and flags of a tensor of DLPack 1.x and gives its view, which
 * lives as long as it. `writable` is nonzero for outputs. */
FUSE_C_EXPORT fuse_status
fuse_tensor_view(const struct DLManagedTensorVersioned *tensor, int writable,
                 const DLTensor **view);

/*===----------------------------------------------------------------------===*
 * Object code
 *===----------------------------------------------------------------------===*/

/* How to load FUSE_SECTION_HOST_OBJECT, which needs a linker. fuse-c/Compiler.h
 * sets it to LLVM's; without one only linked artifacts run on the CPU. */
typedef struct fuse_object_linker {
  /* Gives a handle, or sets the last error and returns a status. */
  fuse_status (*link)(const void *object, size_t size, void **handle);
  /* The address of a symbol, or null; the last error may say why. */
  void *(*lookup)(void *handle, const char *symbol);
  void (*unlink)(void *handle);
} fuse_object_linker;

/* The functions have to stay valid until the process ends. */
FUSE_C_EXPORT void fuse_set_object_linker(const fuse_object_linker *linker);

/* What makes the code that the bytes of an artifact lack, such as the compiler
 * behind fuse_module_compile. Several threads call it at once; on failure a
 * function sets the last error and returns a status. */
typedef struct fuse_code_source {
  /* PTX of the module that the manifest calls "deferred": `number`. It lives
   * until `destroy`. */
  fuse_status (*compile)(void *data, size_t number, const char **text,
                         size_t *length);
  /* The bytes of the artifact with all of its code; they live as long. */
  fuse_status (*complete)(void *data, const void **bytes, size_t *size);
  /* May be null. */
  void (*destroy)(void *data);
  void *data;
} fuse_code_source;

/* As fuse_artifact_from_bytes. On success the artifact and what is made from it
 * own the data of the source; on failure it stays the caller's. */
FUSE_C_EXPORT fuse_status fuse_artifact_from_source(
    const void *bytes, size_t size, const fuse_code_source *source,
    fuse_artifact **artifact);

#ifdef __cplusplus
}
#endif

#endif /* FUSE_C_RUNTIME_H */
