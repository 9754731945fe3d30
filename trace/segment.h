// A segment: a frozen, canonical piece of an op stream, and the values that one launch binds to it.
//
// Note [Segment code]
// A segment is a string of 32-bit words, written while ops are recorded and compared word by word, so
// that equal segments have equal code and nothing about them is outside it:
//
//   view    | tag 1 | dtype 4 | rank 5 | layout 2 | memory 1 | - |   then  buffer
//           size word per dimension:   0, 1 literal; 2 + k = the k-th distinct size of the segment
//           layout contiguous: nothing more; dense: the permutation, 4 bits a dimension;
//           strided: a word per dimension as for sizes (0, 1, 2 + k-th distinct stride, negatives included)
//   node    | tag 0 | op 16 | dtype 4 |   then  | inputs 8 | outputs 8 | attrs 8 | params 8 |
//           input words (view, or kScalarBit + scalar slot), output words (views), attribute words (64-bit: 2 each)
//   tail    per buffer its role, 16 a word; facts: per written buffer with several views their relations, 16 a word;
//           the numbers of views, buffers and nodes
//
// Views and buffers are numbered by first use. Sizes, strides, offsets and scalars are bound per launch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trace/op.h"

namespace openneuron::trace {

using BufferId = int32_t;
using ViewId = int32_t;

inline constexpr uint32_t kScalarBit = 0x8000'0000u;
// Highest rank that a trace records.
inline constexpr int kMaxTraceRank = 12;
// Upper bound on the inputs of one node (cat of many tensors): they are counted in a byte.
inline constexpr int kMaxNodeInputs = 255;
// Highest rank of a view whose layout is a permutation: it fits one word.
inline constexpr int kMaxDenseRank = 8;
// Views of one written buffer, newest first, whose relations are part of the code; further ones count as
// overlapping everything.
inline constexpr int kMaxRelatedViews = 8;

enum class LayoutKind : uint8_t { kContiguous, kDense, kStrided };

// What a buffer is to its segment.
enum class Role : uint8_t {
  kInput,      // has memory, only read
  kInOut,      // has memory, written
  kOutput,     // gets memory at the launch, can be read afterwards
  kTemporary,  // nobody can read it after the segment
};

// How two views of one written buffer relate.
enum class Relation : uint8_t { kSame, kDisjoint, kMayOverlap };

struct Key {
  uint64_t low = 0, high = 0;
  bool operator==(const Key&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const Key& key) {
    return H::combine(std::move(state), key.low);
  }
};

struct View {
  BufferId buffer;
  DType type;
  uint8_t rank;
  LayoutKind layout;
  uint32_t dims;  // index of the first size word in Segment::code
};

struct Node {
  Op op;
  DType type;  // dtype that the op is computed in, as PyTorch defines it
  uint8_t inputs, outputs, attrs, params;
  uint32_t operands;      // index of the first input word in Segment::code; outputs and attrs follow
  uint32_t first_scalar;  // slot of the first scalar of this node: scalar inputs first, then params
  uint32_t first_param;   // slot of the first parameter
};

// Immutable after construction.
struct Segment {
  std::vector<uint32_t> code;
  Key key;
  std::vector<View> views;
  std::vector<Node> nodes;
  std::vector<Role> roles;  // per buffer
  uint32_t size_symbols = 0, stride_symbols = 0, scalars = 0;

  absl::Span<const uint32_t> Inputs(const Node& n) const { return {&code[n.operands], n.inputs}; }
  absl::Span<const uint32_t> Outputs(const Node& n) const { return {&code[n.operands + n.inputs], n.outputs}; }
  int64_t Attr(const Node& n, int i) const {
    const uint32_t* w = &code[n.operands + n.inputs + n.outputs + 2 * i];
    return static_cast<int64_t>(uint64_t{w[0]} | uint64_t{w[1]} << 32);
  }
};

Key HashCode(absl::Span<const uint32_t> code);

// Sizes and strides (in elements) of `view` under the given symbol values; both arrays have room for
// kMaxTraceRank entries.
void BindView(const Segment& segment, const View& view, const int64_t* size_values, const int64_t* stride_values,
              int64_t* sizes, int64_t* strides);

// Decodes `code`, which must be well formed: from Trace::Seal, or from Parse, which calls Verify.
std::unique_ptr<Segment> Decode(absl::Span<const uint32_t> code);

// Says in one place what a legal segment is: canonical numbering, layouts that can be bound, operands, dtypes and
// shapes as the op table and the kernels' contracts ask, a role for every buffer that fits what is done to it, and a
// tail of the right length. (Reading a buffer that nothing wrote is legal: torch.empty.)
absl::Status Verify(const Segment& segment);

// The text form, one line per view and node, and its inverse: Parse(ToText(s))->code == s.code.
// Parse reports the line and what was expected.
std::string ToText(const Segment& segment);
absl::StatusOr<std::unique_ptr<Segment>> Parse(std::string_view text);

}  // namespace openneuron::trace
