// The verifier: one legal segment, and every way to spoil it.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "trace/trace.h"

namespace openneuron::trace {
namespace {

constexpr const char* kLegal =
    "buffers in, inout, out, temp\n"
    "facts 1\n"
    "v0 = b0 f32 [s0, s1]\n"
    "v1 = b1 f32 [s1]\n"
    "v2 = b2 f32 [s0, s1]\n"
    "add.f32 v2 <- v0, v1\n"
    "v3 = b1 f32 [s1] strided(s0)\n"
    "mul.f32 v3 <- v1, $\n"
    "v4 = b3 i64 [s0]\n"
    "argmax.f32 v4 <- v2 attrs 1\n";

absl::Status StatusOf(const std::string& text) { return Parse(text).status(); }

TEST(Verify, AcceptsALegalSegment) { EXPECT_TRUE(StatusOf(kLegal).ok()) << StatusOf(kLegal); }

TEST(Verify, ReadingWhatNobodyWroteIsLegal) {
  EXPECT_TRUE(StatusOf("buffers temp, out\nv0 = b0 f32 [s0]\nv1 = b1 f32 [s0]\nneg.f32 v1 <- v0\n").ok());
}

TEST(Verify, NamesWhatIsWrong) {
  const struct {
    const char *part, *instead, *message;
  } mistakes[] = {
      // Operands and the op table.
      {"add.f32 v2 <- v0, v1", "add.f32 v2 <- v0", "node 0 (add): 1 inputs, its op takes 2"},
      {"add.f32 v2 <- v0, v1", "add.f32 v2 <- v0, v1, v1", "node 0 (add): 3 inputs, its op takes 2"},
      {"add.f32 v2 <- v0, v1", "add.f32 v2 <- v0, v1 params 1", "node 0 (add): 1 params, its op takes 0"},
      {"add.f32 v2 <- v0, v1", "add.f32 v2, v0 <- v0, v1", "node 0 (add): writes buffer 0, whose role is input"},
      {"add.f32 v2 <- v0, v1", "add.f32 v2, v1 <- v0, v1", "node 0 (add): has 2 outputs"},
      {"add.f32 v2 <- v0, v1", "add.f32 v2 <- v0, v1 attrs 1", "node 0 (add): has 1 attributes"},
      {"add.f32 v2 <- v0, v1", "div.i32 v2 <- v0, v1", "node 0 (div): not defined for its dtype"},
      {"add.f32 v2 <- v0, v1", "bitwise_and.f32 v2 <- v0, v1", "node 0 (bitwise_and): not defined for its dtype"},
      // Shapes.
      {"add.f32 v2 <- v0, v1", "neg.f32 v1 <- v0", "node 0 (neg): view 0 does not broadcast"},
      {"v1 = b1 f32 [s1]", "v1 = b1 f32 [s0]", "node 0 (add): view 1 does not broadcast"},
      {"attrs 1", "attrs 3", "reduces 3 dimensions of 2"},
      {"attrs 1", "attrs -1", "reduces -1 dimensions of 2"},
      {"attrs 1", "attrs 2", "other sizes than it keeps"},
      {" attrs 1", "", "node 2 (argmax): has 0 attributes"},
      {"v4 = b3 i64 [s0]", "v4 = b3 i32 [s0]", "node 2 (argmax): its positions or counts are not i64"},
      {"argmax.f32 v4 <- v2", "argmax.f32 v4 <- $", "node 2 (argmax): takes no scalar"},
      {"argmax.f32 v4 <- v2", "max.f32 v4 <- v2", "node 2 (max): has 1 outputs"},
      {"argmax.f32 v4 <- v2 attrs 1", "arange.i64 v2 params 2", "node 2 (arange): result has rank 2"},
      {"argmax.f32 v4 <- v2 attrs 1", "tril.i64 v4 <- v2 params 1", "node 2 (tril): result has rank 1"},
      {"argmax.f32 v4 <- v2 attrs 1", "normal.f32 v4 params 4", "node 2 (normal): its result has another dtype"},
      // Numbering.
      {"v0 = b0 f32 [s0, s1]", "v0 = b1 f32 [s0, s1]", "view 0: buffer 1 is not numbered by first use"},
      {"v0 = b0 f32 [s0, s1]", "v0 = b0 f32 [s1, s0]", "view 0: sizes are not named by first use"},
      {"strided(s0)", "strided(s1)", "view 3: strides are not named by first use"},
      {"[s1] strided(s0)", "[s1, s1] dense(1, 1)", "view 3: its order is no permutation"},
      // Roles and facts.
      {"buffers in, inout", "buffers inout, inout", "buffer 0 is in-out but never written"},
      {"out, temp", "out, temp, temp", "only 4 of 5 buffers are used"},
      {"facts 1\n", "", "has 0 words of facts, its views need 1"},
      {"facts 1\n", "facts 1 0\n", "has 2 words of facts, its views need 1"},
      {"facts 1\n", "facts 3\n", "fact 0 is 3"},
      {"facts 1\n", "facts 4\n", "fact 1 is 1"},
  };
  for (const auto& mistake : mistakes) {
    ASSERT_TRUE(absl::StrContains(kLegal, mistake.part)) << mistake.part;
    const absl::Status status = StatusOf(absl::StrReplaceAll(kLegal, {{mistake.part, mistake.instead}}));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << mistake.instead;
    EXPECT_TRUE(absl::StrContains(status.message(), mistake.message)) << mistake.instead << "\n" << status.message();
  }
}

// What the text form cannot say.
TEST(Verify, LooksAtTheCodeItself) {
  const std::unique_ptr<Segment> legal = *Parse(kLegal);
  const auto spoiled = [&](const std::function<void(Segment&)>& spoil) {
    std::unique_ptr<Segment> segment = Decode(legal->code);
    spoil(*segment);
    return std::string(Verify(*segment).message());
  };
  EXPECT_EQ(spoiled([](Segment&) {}), "");
  const uint32_t node = legal->nodes[0].operands - 2, view = legal->views[0].dims - 2;
  const auto word = [&](uint32_t at, uint32_t value) {
    return spoiled([=](Segment& s) {
      s.code[at] = value;
      s = *Decode(std::vector<uint32_t>(s.code));
    });
  };
  EXPECT_EQ(word(node, static_cast<uint32_t>(kOpCount) << 8), "node 0: no such op");
  EXPECT_EQ(word(node, static_cast<uint32_t>(Op::kAdd) << 8 | 12 << 1), "node 0 (add): not defined for its dtype");
  EXPECT_EQ(word(node + 2, 9), "node 0 (add): reads view 9 of 3");
  EXPECT_EQ(word(node + 4, 9), "node 0 (add): writes view 9 of 3");
  EXPECT_EQ(word(node + 2, 3), "node 0 (add): reads view 3 of 3") << "it is defined later";
  EXPECT_EQ(word(legal->nodes[1].operands + 1, kScalarBit | 1), "node 1 (mul): scalars are not numbered in order");
  EXPECT_EQ(word(view, legal->code[view] & ~(1u << 12)), "view 0: its buffer's role and memory disagree");
  EXPECT_EQ(word(view, (legal->code[view] & ~30u) | 11u << 1), "view 0: no such dtype");
  EXPECT_EQ(word(view, legal->code[view] | 3u << 10), "view 0: no such layout");
  EXPECT_EQ(word(view + 1, 77), "view 0: refers to buffer 77 of 4");
}

}  // namespace
}  // namespace openneuron::trace
