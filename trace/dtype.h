// Element types of the trace.
// The numbering is part of the segment key; append, never reorder.
#pragma once

#include <cstddef>
#include <cstdint>

namespace openneuron::trace {

enum class DType : uint8_t {
  kBool,  // one byte, 0 or 1
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,   // IEEE binary16, computed in float32
  kBFloat16,  // upper half of binary32, computed in float32
  kFloat32,
  kFloat64,
};
inline constexpr int kDTypeCount = 10;

// Bytes of one element.
constexpr int64_t ItemSize(DType type) {
  constexpr int8_t kSizes[kDTypeCount] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<size_t>(type)];
}
constexpr bool IsFloating(DType type) { return type >= DType::kFloat16; }
constexpr bool IsHalf(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }

// The type in which an op on `type` is computed: float32 for the two halves,
// `type` itself otherwise.
constexpr DType MathType(DType type) { return IsHalf(type) ? DType::kFloat32 : type; }

// Short name as in the text form of a segment: "f32", "bf16", "bool", ...
const char* DTypeName(DType type);

}  // namespace openneuron::trace
