// The text form: what it looks like, that it loses nothing, and what the parser says about mistakes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "trace/trace.h"

namespace openneuron::trace {
namespace {

// Every kind of line.
constexpr const char* kExample =
    "buffers in, inout, out, temp\n"
    "facts 10\n"
    "v0 = b0 f32 [s0, 1, s1]\n"
    "v1 = b1 bf16 [s0, s1] dense(1, 0)\n"
    "v2 = b1 bf16 [s0, s1] strided(s0, 0)\n"
    "copy.bf16 v2 <- v1\n"
    "v3 = b2 f32 [s0, s0, s1]\n"
    "v4 = b3 bool []\n"
    "add_scaled.f32 v3 <- v0, $ params 1\n"
    "any.bool v4 <- v3 attrs 3\n"
    "v5 = b2 f32 [s0, s1] strided(s1, 1)\n"
    "_softmax.f32 v5 <- v5 attrs -1, 1099511627776\n"
    "uniform.f32 v5 params 4\n";

std::unique_ptr<Segment> Parsed(const std::string& text) {
  absl::StatusOr<std::unique_ptr<Segment>> segment = Parse(text);
  EXPECT_TRUE(segment.ok()) << segment.status() << "\n" << text;
  return segment.ok() ? *std::move(segment) : nullptr;
}

TEST(Text, KeepsEveryKindOfLine) {
  const std::unique_ptr<Segment> segment = Parsed(kExample);
  ASSERT_NE(segment, nullptr);
  EXPECT_EQ(ToText(*segment), kExample);
  EXPECT_EQ(segment->size_symbols, 2u);
  EXPECT_EQ(segment->stride_symbols, 2u);
  EXPECT_EQ(segment->scalars, 6u);
  ASSERT_EQ(segment->nodes.size(), 5u);
  EXPECT_EQ(segment->Attr(segment->nodes[3], 0), -1);
  EXPECT_EQ(segment->Attr(segment->nodes[3], 1), int64_t{1} << 40);
}

TEST(Text, IgnoresBlankLinesCommentsAndBlanks) {
  const std::string text =
      absl::StrCat("\n# a comment\n   # another\n", absl::StrReplaceAll(kExample, {{", ", " ,  "}}), "\n\n");
  const std::unique_ptr<Segment> plain = Parsed(kExample), loose = Parsed(text);
  ASSERT_TRUE(plain != nullptr && loose != nullptr);
  EXPECT_EQ(loose->code, plain->code);
  EXPECT_EQ(loose->key, plain->key);
}

TEST(Text, OfARecordedTraceIsReadBack) {
  Trace trace;
  const BufferId x = trace.AddBuffer(true), y = trace.AddBuffer(false), z = trace.AddBuffer(false);
  const ViewId whole = trace.AddView(x, DType::kFloat32, 0, {6, 8}, {8, 1}, -1);
  const ViewId half = trace.AddView(x, DType::kFloat32, 24, {3, 8}, {8, 1}, -1);
  const ViewId turned = trace.AddView(x, DType::kFloat32, 0, {8, 6}, {1, 8}, -1);
  trace.BeginNode(Op::kMul, DType::kFloat32, 2, 1, 0, 0);
  trace.Input(half);
  trace.ScalarInput(3);
  trace.Output(half);
  const ViewId product = trace.AddView(y, DType::kFloat32, 0, {6, 6}, {6, 1}, -1);
  trace.BeginNode(Op::kMm, DType::kFloat32, 2, 1, 0, 0);
  trace.Input(whole);
  trace.Input(turned);
  trace.Output(product);
  const ViewId sums = trace.AddView(z, DType::kFloat32, 0, {6}, {1}, -1);
  trace.BeginNode(Op::kSum, DType::kFloat32, 1, 1, 1, 0);
  trace.Input(product);
  trace.Output(sums);
  trace.Attr(1);
  trace.Seal({0, 0, 1});
  const std::unique_ptr<Segment> recorded = Decode(trace.code());
  const std::string text = ToText(*recorded);
  EXPECT_EQ(text,
            "buffers inout, temp, out\n"
            "facts 42\n"
            "v0 = b0 f32 [s0, s1]\n"
            "v1 = b0 f32 [s2, s1]\n"
            "v2 = b0 f32 [s1, s0] dense(1, 0)\n"
            "mul.f32 v1 <- v1, $\n"
            "v3 = b1 f32 [s0, s0]\n"
            "mm.f32 v3 <- v0, v2\n"
            "v4 = b2 f32 [s0]\n"
            "sum.f32 v4 <- v3 attrs 1\n");
  const std::unique_ptr<Segment> read = Parsed(text);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->code, recorded->code);
  EXPECT_EQ(read->key, recorded->key);
  EXPECT_EQ(read->roles, recorded->roles);
}

TEST(Parser, NamesTheLineAndWhatItExpected) {
  const struct {
    const char *line, *instead, *message;
  } mistakes[] = {
      {"buffers in, inout, out, temp", "buffers in, inout, output, temp", "line 1: expected in, inout, out or temp"},
      {"buffers in, inout, out, temp", "buffers in, inout, out temp", "line 1: expected end of line"},
      {"buffers in, inout, out, temp", "", "line 2: expected the line 'buffers' first"},
      {"facts 10", "buffers in", "line 2: expected one line 'buffers'"},
      {"facts 10", "facts two", "line 2: expected a 32-bit number"},
      {"facts 10", "facts 4294967296", "line 2: expected a 32-bit number"},
      {"v0 = b0 f32 [s0, 1, s1]", "v7 = b0 f32 [s0, 1, s1]", "line 3: expected the next view's number"},
      {"v0 = b0 f32 [s0, 1, s1]", "v0 = b4 f32 [s0, 1, s1]", "line 3: expected a buffer that exists"},
      {"v0 = b0 f32 [s0, 1, s1]", "v0 = b0 f31 [s0, 1, s1]", "line 3: expected a dtype"},
      {"v0 = b0 f32 [s0, 1, s1]", "v0 = b0 f32 s0, 1, s1", "line 3: expected '['"},
      {"v0 = b0 f32 [s0, 1, s1]", "v0 = b0 f32 [s0, 2, s1]", "line 3: expected a size (0, 1 or s<number>)"},
      {"v0 = b0 f32 [s0, 1, s1]", "v0 = b0 f32 [s0, s4294967296]", "line 3: expected a size (0, 1 or s<number>)"},
      {"v0 = b0 f32 [s0, 1, s1]", "v0 = b0 f32 [s0, 1", "line 3: expected a size (0, 1 or s<number>)"},
      {"v0 = b0 f32 [s0, 1, s1]", "v0 = b0 f32 [s0, 1] and more", "line 3: expected end of line"},
      {"v0 = b0 f32 [s0, 1, s1]", "v0 = b0 f32 [1,1,1,1,1,1,1,1,1,1,1,1,1]", "line 3: expected at most 12 dimensions"},
      {"v0 = b0 f32 [s0, 1, s1]", "v0 = b0 f32 [1,1,1,1,1,1,1,1,1] dense(0)", "line 3: expected at most 8 dimensions"},
      {"v1 = b1 bf16 [s0, s1] dense(1, 0)", "v1 = b1 bf16 [s0, s1] dense(1, 2)", "line 4: expected a dimension"},
      {"v1 = b1 bf16 [s0, s1] dense(1, 0)", "v1 = b1 bf16 [s0, s1] dense(1)", "line 4: expected a dimension"},
      {"v1 = b1 bf16 [s0, s1] dense(1, 0)", "v1 = b1 bf16 [s0, s1] dense(1, 0, 1)", "line 4: expected ')'"},
      {"v2 = b1 bf16 [s0, s1] strided(s0, 0)", "v2 = b1 bf16 [s0, s1] strided(s0, 3)", "line 5: expected a stride"},
      {"v2 = b1 bf16 [s0, s1] strided(s0, 0)", "v2 = b1 bf16 [s0, s1] strided(s0, 0, 0)", "line 5: expected ')'"},
      {"copy.bf16 v2 <- v1", "cpoy.bf16 v2 <- v1", "line 6: expected an op of the op table"},
      {"copy.bf16 v2 <- v1", "copy v2 <- v1", "line 6: expected '.' and a dtype"},
      {"copy.bf16 v2 <- v1", "copy.bf17 v2 <- v1", "line 6: expected '.' and a dtype"},
      {"copy.bf16 v2 <- v1", "copy.bf16 <- v1", "line 6: expected an output view"},
      {"copy.bf16 v2 <- v1", "copy.bf16 v3 <- v1", "line 6: expected an output view"},
      {"copy.bf16 v2 <- v1", "copy.bf16 v2 <- v3", "line 6: expected an input view or $"},
      {"copy.bf16 v2 <- v1", "copy.bf16 v2 <- 5", "line 6: expected an input view or $"},
      {"copy.bf16 v2 <- v1", "copy.bf16 v2 <- v1 params many", "line 6: expected a count"},
      {"copy.bf16 v2 <- v1", "copy.bf16 v2 <- v1 attrs x", "line 6: expected a number"},
      {"copy.bf16 v2 <- v1", "copy.bf16 v2 <- v1 params 256", "line 6: expected a count"},
  };
  for (const auto& mistake : mistakes) {
    ASSERT_TRUE(absl::StrContains(kExample, mistake.line)) << mistake.line;
    const std::string text = absl::StrReplaceAll(kExample, {{mistake.line, mistake.instead}});
    const absl::Status status = Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << mistake.instead;
    EXPECT_TRUE(absl::StrContains(status.message(), mistake.message)) << mistake.instead << "\n" << status.message();
    if (*mistake.instead != '\0') {
      EXPECT_TRUE(absl::StrContains(status.message(), mistake.instead))
          << "does not quote the line: " << status.message();
    }
  }
}

TEST(Parser, RefusesATextWithoutOps) {
  for (const char* text : {"", "\n\n# nothing\n", "buffers in\n", "buffers in\nv0 = b0 f32 []\n"}) {
    const absl::Status status = Parse(text).status();
    EXPECT_TRUE(absl::StrContains(status.message(), "no ops")) << text << ": " << status;
  }
}

}  // namespace
}  // namespace openneuron::trace
