// The op table: what its lines say, and that they can be looked up.
#include "trace/op.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

namespace openneuron::trace {
namespace {

// The lines of the table written out once more by the preprocessor, to compare Info() with.
struct Line {
  Op op;
  const char* text;
  OpClass cls;
  int inputs, params;
};
constexpr Line kLines[] = {
#define OP(id, text, cls, inputs, params, ...) {Op::k##id, #text, OpClass::k##cls, inputs, params},
#include "trace/ops.def"
#undef OP
};

TEST(OpTable, HasALineForEveryOp) {
  ASSERT_EQ(std::size(kLines), static_cast<size_t>(kOpCount));
  EXPECT_GE(kOpCount, 120);
  for (const Line& line : kLines) {
    const OpInfo& info = Info(line.op);
    EXPECT_STREQ(info.text, line.text);
    EXPECT_EQ(info.cls, line.cls) << line.text;
    EXPECT_EQ(info.inputs, line.inputs) << line.text;
    EXPECT_EQ(info.params, line.params) << line.text;
  }
}

TEST(OpTable, ArityFitsTheClass) {
  for (const Line& line : kLines) {
    const OpInfo& info = Info(line.op);
    EXPECT_LE(info.params, 4) << info.text;
    switch (info.cls) {
      case OpClass::kElementwise:
        EXPECT_TRUE(info.inputs >= 0 && info.inputs <= 4) << info.text;
        break;
      case OpClass::kReduce:
        EXPECT_EQ(info.inputs, 1) << info.text;
        break;
      case OpClass::kRandom:
        EXPECT_EQ(info.inputs, 0) << info.text;
        EXPECT_GE(info.params, 2) << info.text << " has no seed and offset";
        break;
      case OpClass::kIndex:
      case OpClass::kHeavy:
        EXPECT_TRUE(info.inputs >= -1) << info.text;
        break;
    }
  }
}

TEST(OpTable, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const Line& line : kLines) {
    EXPECT_TRUE(names.insert(line.text).second) << line.text << " is there twice";
    Op found;
    ASSERT_TRUE(FindOp(line.text, std::strlen(line.text), &found)) << line.text;
    EXPECT_EQ(found, line.op);
  }
  Op found = Op::kNeg;
  for (const char* name : {"", "ad", "add_", "Add", "no_such_op"}) {
    EXPECT_FALSE(FindOp(name, std::strlen(name), &found)) << name;
  }
  EXPECT_EQ(found, Op::kNeg) << "a failed look-up changed its result";
  ASSERT_TRUE(FindOp("addmm(", 3, &found)) << "the length counts";
  EXPECT_EQ(found, Op::kAdd);
}

TEST(OpTable, TypesFollowTheirGroup) {
  for (const Line& line : kLines) {
    const OpTypes types = Info(line.op).types;
    for (int t = 0; t < kDTypeCount; ++t) {
      const DType type = static_cast<DType>(t);
      const bool expected = types == OpTypes::kAll || (types == OpTypes::kFloat && IsFloating(type)) ||
                            (types == OpTypes::kNumber && type != DType::kBool) ||
                            (types == OpTypes::kIntegral && !IsFloating(type));
      EXPECT_EQ(HasType(line.op, type), expected) << line.text << " " << DTypeName(type);
    }
  }
}

TEST(DTypes, SizesAndNames) {
  const struct {
    DType type;
    const char* name;
    int64_t size;
    bool floating, half;
    DType maths;
  } rows[] = {
      {DType::kBool, "bool", 1, false, false, DType::kBool},
      {DType::kUInt8, "u8", 1, false, false, DType::kUInt8},
      {DType::kInt8, "i8", 1, false, false, DType::kInt8},
      {DType::kInt16, "i16", 2, false, false, DType::kInt16},
      {DType::kInt32, "i32", 4, false, false, DType::kInt32},
      {DType::kInt64, "i64", 8, false, false, DType::kInt64},
      {DType::kFloat16, "f16", 2, true, true, DType::kFloat32},
      {DType::kBFloat16, "bf16", 2, true, true, DType::kFloat32},
      {DType::kFloat32, "f32", 4, true, false, DType::kFloat32},
      {DType::kFloat64, "f64", 8, true, false, DType::kFloat64},
  };
  ASSERT_EQ(std::size(rows), static_cast<size_t>(kDTypeCount));
  for (const auto& row : rows) {
    EXPECT_STREQ(DTypeName(row.type), row.name);
    EXPECT_EQ(ItemSize(row.type), row.size) << row.name;
    EXPECT_EQ(IsFloating(row.type), row.floating) << row.name;
    EXPECT_EQ(IsHalf(row.type), row.half) << row.name;
    EXPECT_EQ(MathType(row.type), row.maths) << row.name;
  }
}

}  // namespace
}  // namespace openneuron::trace
