/*===- fuse-c/Status.h - Status codes of fuse functions -----------*- C -*-===*
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef FUSE_C_STATUS_H
#define FUSE_C_STATUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FUSE_C_EXPORT __attribute__((visibility("default")))
#else
#define FUSE_C_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. Functions are only added within a major version.
 */
#define FUSE_C_VERSION_MAJOR 0
#define FUSE_C_VERSION_MINOR 5

/* The version that the library was built with: major << 16 | minor. */
FUSE_C_EXPORT uint32_t fuse_c_version(void);

typedef enum fuse_status {
  FUSE_OK = 0,
  /* A null handle or pointer, or an option that does not exist. */
  FUSE_ERROR_INVALID_ARGUMENT = 1,
  /* Text that is not fuse IR, or that exceeds a limit of the reader. */
  FUSE_ERROR_PARSE = 2,
  /* A pass failed; the module is unchanged. */
  FUSE_ERROR_PASS = 3,
  /* The host ran out of memory. */
  FUSE_ERROR_OUT_OF_MEMORY = 4,
  /* An internal error; please report it. */
  FUSE_ERROR_INTERNAL = 5,
  /* The operating system refused to read or write a file. */
  FUSE_ERROR_IO = 6,
  /* Not an artifact, or a damaged one. */
  FUSE_ERROR_FORMAT = 7,
  /* An artifact of another version of the format. */
  FUSE_ERROR_VERSION = 8,
  /* Code for another machine or GPU than this one. */
  FUSE_ERROR_TARGET = 9,
  /* A tensor that does not fit the signature, or breaks a rule of DLPack. */
  FUSE_ERROR_TENSOR = 10,
  /* A call that is too early, such as a launch before all weights are bound. */
  FUSE_ERROR_STATE = 11,
  /* This build or this code does not support the operation. */
  FUSE_ERROR_UNSUPPORTED = 12,
  /* There is no CUDA driver, or it has no device. */
  FUSE_ERROR_NO_DRIVER = 13,
  /* The CUDA driver is older than the code. */
  FUSE_ERROR_DRIVER_TOO_OLD = 14,
  /* The device ran out of memory. */
  FUSE_ERROR_DEVICE_MEMORY = 15,
  /* Only a new process can use the device again. */
  FUSE_ERROR_DEVICE_LOST = 16,
  /* The device did not finish in time. Its handle is unusable now. */
  FUSE_ERROR_TIMEOUT = 17,
  /* Any other error of the device or its driver. */
  FUSE_ERROR_DEVICE = 18
} fuse_status;

/* Name of a status, such as "FUSE_ERROR_PARSE"; never null. */
FUSE_C_EXPORT const char *fuse_status_name(fuse_status status);

/* Message of the last failure in this thread, or "" if there was none. Valid
 * until the next call of this thread that fails. */
FUSE_C_EXPORT const char *fuse_last_error(void);

/* Sets the message of the last failure and returns `status`, for libraries
 * built on this one. An unknown status becomes FUSE_ERROR_INTERNAL. A null
 * message is stored as "". */
FUSE_C_EXPORT fuse_status fuse_set_last_error(fuse_status status,
                                              const char *message);

/* Frees a string that a function has returned. Null is allowed. */
FUSE_C_EXPORT void fuse_string_free(char *text);

#ifdef __cplusplus
}
#endif

#endif /* FUSE_C_STATUS_H */
