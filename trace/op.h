// The ops as an enumeration, and the facts that the op table states about them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/dtype.h"

namespace openneuron::trace {

enum class Op : uint16_t {
#define OP(id, text, cls, inputs, params, types, result, form) k##id,
#include "trace/ops.def"
#undef OP
};

#define OP(...) +1
inline constexpr int kOpCount = 0
#include "trace/ops.def"
    ;
#undef OP

enum class OpClass : uint8_t { kElementwise, kReduce, kIndex, kRandom, kHeavy };
enum class OpTypes : uint8_t { kFloat, kNumber, kAll, kIntegral };
enum class OpResult : uint8_t { kSame, kBool };

struct OpInfo {
  const char* text;
  OpClass cls;
  int8_t inputs;  // -1: variable
  int8_t params;
  OpTypes types;
  OpResult result;
};

// The table's line for `op`.
const OpInfo& Info(Op op);

// The op whose text name is `text`; false when there is none.
bool FindOp(const char* text, size_t length, Op* op);

// True when a kernel for `op` exists in compute type `type` (halves count through float32).
bool HasType(Op op, DType type);

}  // namespace openneuron::trace
