// The op table as data.
#include "trace/op.h"

#include <string_view>

namespace openneuron::trace {
namespace {

constexpr OpInfo kTable[kOpCount] = {
#define OP(id, text, cls, inputs, params, types, result, form) \
  {#text, OpClass::k##cls, inputs, params, OpTypes::k##types, OpResult::k##result},
#include "trace/ops.def"
#undef OP
};

}  // namespace

const OpInfo& Info(Op op) { return kTable[static_cast<size_t>(op)]; }

bool FindOp(const char* text, size_t length, Op* op) {
  for (int i = 0; i < kOpCount; ++i) {
    if (std::string_view(kTable[i].text) == std::string_view(text, length)) {
      *op = static_cast<Op>(i);
      return true;
    }
  }
  return false;
}

bool HasType(Op op, DType type) {
  switch (Info(op).types) {
    case OpTypes::kFloat:
      return IsFloating(type);
    case OpTypes::kNumber:
      return type != DType::kBool;
    case OpTypes::kIntegral:
      return !IsFloating(type);
    case OpTypes::kAll:
      return true;
  }
  return false;
}

const char* DTypeName(DType type) {
  constexpr const char* kNames[kDTypeCount] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  return kNames[static_cast<size_t>(type)];
}

}  // namespace openneuron::trace
