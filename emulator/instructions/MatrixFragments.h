//===- MatrixFragments.h - Operands of products -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How matrices lie in shared memory (PTX ISA 9.0, section 9.7.15.5.1), and what
// tensor cores compute of them. All types are subsets of double, which holds
// their products exactly.
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
/// Bytes of a row of an operand: what an instruction reads of K.
constexpr unsigned kRowBytes = 32;
/// Of what keeps together in shared memory.
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
  /// Registers of the sums of a thread.
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

/// An operand of wgmma in shared memory.
struct Descriptor {
  explicit Descriptor(uint64_t bits);

  /// Where the chunks of 16 bytes of `count` rows from `first` on are. The two
  /// of a row follow each other, or, if the operand is transposed, those of all
  /// rows with the same K.
  std::vector<uint32_t> getChunks(unsigned first, unsigned count,
                                  bool isTransposed) const;

  uint32_t start;
  /// Bytes between parts; which ones depends on the layout.
  uint32_t leading, stride;
  /// Rows of a swizzle before the start of its pattern.
  uint32_t base;
  /// Bytes of a row in which chunks are permuted, or zero.
  uint32_t swizzleBytes;
};

/// Bytes of chunks, merged where they are neighbors.
std::vector<SharedRange> getRanges(const std::vector<uint32_t> &chunks);

/// The chunks one behind the other.
std::vector<uint8_t> gather(const Block &block,
                            const std::vector<uint32_t> &chunks);

/// Numbers of an operand whose bytes are gathered, [row][k].
std::vector<double> decodeRows(const std::vector<uint8_t> &bytes,
                               Element element, unsigned count,
                               bool isTransposed);
/// The same as [k][row]. The last ones are kept, since the warps of a product
/// have the second operand in common.
std::shared_ptr<const std::vector<double>>
decodeColumns(std::vector<uint8_t> bytes, Element element, unsigned count,
              bool isTransposed, uint64_t key);

/// Adds the product of a [rows][k] and b [k][columns] to `sums`: all of an
/// instruction is added up in double and rounded once. `rows` and `columns` are
/// multiples of four and eight.
void multiply(const double *a, const double *b, unsigned rows, unsigned columns,
              unsigned depth, AccumulatorType sum, bool isSaturated,
              double *sums);

/// How the tensor cores of sm_90 add up the products of a wgmma and the sum
/// before in f32. With `e` the largest exponent among them, each is cut off,
/// towards zero, behind the digit `digits` behind 2^e; so is their exact sum
/// behind `sumDigits` of its own. The exponent of a product is the sum of its
/// factors', which are not below `leastA` and `leastB`, zeros' neither.
///
/// An H100 has these bits, see docs/explanation/emulator-design.md.
struct Alignment {
  int digits, sumDigits;
  int leastA, leastB;
};

/// That of products of floats of 8 or 16 bits, in f32; nothing for others,
/// which have not been looked at.
std::optional<Alignment> getAlignment(Element a, Element b,
                                      AccumulatorType sum);

/// The same as `multiply`, with the digits that are left.
void multiplyAligned(const double *a, const double *b, unsigned rows,
                     unsigned columns, unsigned depth,
                     const Alignment &alignment, double *sums);

/// A sum as bits of a register, and back.
uint32_t encodeSum(double value, AccumulatorType sum);
double decodeSum(uint32_t bits, AccumulatorType sum);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_INSTRUCTIONS_MATRIXFRAGMENTS_H
