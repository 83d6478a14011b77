//===- MatrixFragments.h - Operands of tensor cores -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layouts of matrices in shared memory (PTX ISA 9.0, section 9.7.15.5.1) and in
// registers, and the arithmetic of tensor cores. All element types are subsets
// of double, which holds their products exactly.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_INSTRUCTIONS_MATRIXFRAGMENTS_H
#define FUSE_EMULATOR_INSTRUCTIONS_MATRIXFRAGMENTS_H

#include "machine/Machine.h"

#include <optional>

namespace fuse::emulator {

enum class Element : uint8_t { BF16, F16, TF32, E4M3, E5M2, S8, U8 };
enum class AccumulatorType : uint8_t { F32, F16, S32 };

unsigned getBytes(Element element);
/// Bytes of a row that one instruction reads: its extent in K.
constexpr unsigned kRowBytes = 32;
/// Bytes of a chunk, the unit of layouts in shared memory.
constexpr uint32_t kChunkBytes = 16;
inline unsigned getDepth(Element element) {
  return kRowBytes / getBytes(element);
}

//===----------------------------------------------------------------------===//
// Forms of products
//===----------------------------------------------------------------------===//

/// Rows of A, and of the accumulators, that one warp holds.
constexpr unsigned kWarpRows = 16;

/// The form of a wgmma or an mma, which its decoder stores in
/// Instruction::detail.
struct ProductForm {
  uint8_t columns8;
  Element a : 4, b : 4;
  AccumulatorType sum : 4;
  bool isAInRegisters : 1, isANegated : 1, isBNegated : 1, isATransposed : 1,
      isBTransposed : 1, isSaturated : 1;

  unsigned getColumns() const { return columns8 * 8U; }
  /// Accumulator registers of one thread.
  unsigned getAccumulatorRegisters() const {
    return getColumns() / (sum == AccumulatorType::F16 ? 4 : 2);
  }
};
static_assert(sizeof(ProductForm) <= sizeof(Instruction::detail));

ProductForm getForm(const Instruction &instruction);

/// The types that an opcode names. Throws std::runtime_error for unknown ones.
Element parseElement(const std::string &name);
AccumulatorType parseAccumulatorType(const std::string &name);
/// Throws std::runtime_error if no product named `opcode` has these types.
void checkTypes(ProductForm form, const char *opcode);

//===----------------------------------------------------------------------===//
// Fragments in registers
//===----------------------------------------------------------------------===//

/// The accumulators of a warp as numbers, [row][column].
std::vector<double> readAccumulators(const Warp &warp, ProductForm form,
                                     const Value *registers);
void writeAccumulators(Warp &warp, ProductForm form, const Value *registers,
                       const std::vector<double> &values);

/// The bytes of an operand in registers, in the order of its rows in shared
/// memory. `numGroups` counts groups of eight rows.
std::vector<uint8_t> readFragments(const Warp &warp, const Value *operands,
                                   unsigned numGroups);

//===----------------------------------------------------------------------===//
// Operands in shared memory
//===----------------------------------------------------------------------===//

/// The descriptor of an operand of wgmma in shared memory.
struct Descriptor {
  explicit Descriptor(uint64_t bits);

  /// The offsets of the 16-byte chunks of `count` rows from `first` on: row by
  /// row, two for each, or, if the operand is transposed, k by k.
  std::vector<uint32_t> getChunks(unsigned first, unsigned count,
                                  bool isTransposed) const;

  uint32_t start;
  /// Bytes between parts of the matrix. Which parts depends on the layout.
  uint32_t leading, stride;
  /// Row of the swizzle pattern at which the operand starts.
  uint32_t base;
  /// Bytes of a row in which chunks are permuted, or zero.
  uint32_t swizzleBytes;
};

/// The ranges of chunks. Adjacent ranges are merged.
std::vector<SharedRange> getRanges(const std::vector<uint32_t> &chunks);

/// The bytes of chunks, concatenated.
std::vector<uint8_t> gather(const Block &block,
                            const std::vector<uint32_t> &chunks);

/// Decodes the gathered bytes of an operand to [row][k].
std::vector<double> decodeRows(const std::vector<uint8_t> &bytes,
                               Element element, unsigned count,
                               bool isTransposed);
/// Decodes to [k][row]. Recent results are cached, since the four warps of a
/// wgmma share the second operand.
std::shared_ptr<const std::vector<double>>
decodeColumns(std::vector<uint8_t> bytes, Element element, unsigned count,
              bool isTransposed, uint64_t key);

/// Adds the product of a [rows][k] and b [k][columns] to `sums`. Each sum is
/// accumulated in double and rounded once. `rows` must be a multiple of four,
/// `columns` of eight.
void multiply(const double *a, const double *b, unsigned rows, unsigned columns,
              unsigned depth, AccumulatorType sum, bool isSaturated,
              double *sums);

/// How tensor cores of sm_90 add the products of a wgmma and the previous sum
/// in f32. Let `e` be the largest exponent among them. Each is truncated toward
/// zero after `digits` binary digits below 2^e. Their exact sum is truncated
/// after `sumDigits` digits below its own exponent. The exponent of a product
/// is the sum of the exponents of its factors. These are at least `leastA` and
/// `leastB`, for zeros too.
///
/// Measured on an H100, see docs/explanation/emulator-design.md.
struct Alignment {
  int digits, sumDigits;
  int leastA, leastB;
};

/// The truncation for products of 8-bit or 16-bit floats in f32. Not measured,
/// and therefore nullopt, for other types.
std::optional<Alignment> getAlignment(Element a, Element b,
                                      AccumulatorType sum);

/// Like `multiply`, with truncated sums.
void multiplyAligned(const double *a, const double *b, unsigned rows,
                     unsigned columns, unsigned depth,
                     const Alignment &alignment, double *sums);

/// Converts an accumulator to the bits of a register, and back.
uint32_t encodeSum(double value, AccumulatorType sum);
double decodeSum(uint32_t bits, AccumulatorType sum);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_INSTRUCTIONS_MATRIXFRAGMENTS_H
