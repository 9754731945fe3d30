// The text form of segments.
//
//   buffers in, out, inout, temp            roles, by number
//   facts 0 1 2                             tail words after the roles, when there are any
//   v0 = b0 f32 [s0, s1]                    contiguous
//   v1 = b0 f32 [s1, s0] dense(1, 0)        dense in another order, slowest dimension first
//   v2 = b1 f32 [s0, 1] strided(s0, 1)      strides named apart from sizes
//   add.f32 v3 <- v1, $                     $ is a scalar input
//   clamp.f32 v4 <- v3 params 2
//   _softmax.f32 v5 <- v4 attrs 1
#include <cctype>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "trace/code_reader.h"
#include "trace/segment.h"

namespace openneuron::trace {
namespace {

constexpr const char* kRoleNames[] = {"in", "inout", "out", "temp"};

std::string Word(uint32_t word) { return word < 2 ? absl::StrCat(word) : absl::StrCat("s", word - 2); }

// A cursor over one line.
class Line {
 public:
  explicit Line(absl::string_view text) : text_(text) {}

  void Blank() {
    while (!text_.empty() && text_[0] == ' ') text_.remove_prefix(1);
  }
  bool Eat(absl::string_view token) {
    Blank();
    return absl::ConsumePrefix(&text_, token);
  }
  bool AtEnd() {
    Blank();
    return text_.empty();
  }
  // A name: letters, digits, underscores.
  absl::string_view Name() {
    Blank();
    size_t n = 0;
    while (n < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[n])) || text_[n] == '_')) ++n;
    absl::string_view name = text_.substr(0, n);
    text_.remove_prefix(n);
    return name;
  }
  bool Number(int64_t* value) {
    Blank();
    size_t n = !text_.empty() && text_[0] == '-' ? 1 : 0;
    while (n < text_.size() && std::isdigit(static_cast<unsigned char>(text_[n]))) ++n;
    if (!absl::SimpleAtoi(text_.substr(0, n), value)) return false;
    text_.remove_prefix(n);
    return true;
  }
  bool Dim(uint32_t* word) {
    const bool symbol = Eat("s");
    int64_t value;
    if (!Number(&value) || value < 0 || value > (symbol ? INT32_MAX : 1)) return false;
    *word = static_cast<uint32_t>(symbol ? value + 2 : value);
    return true;
  }

 private:
  absl::string_view text_;
};

bool FindDType(absl::string_view name, DType* type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name == DTypeName(static_cast<DType>(i))) {
      *type = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

// Collects the code of a segment from its lines.
class Parser {
 public:
  absl::StatusOr<std::unique_ptr<Segment>> Run(absl::string_view text) {
    int number = 0;
    for (absl::string_view raw : absl::StrSplit(text, '\n')) {
      ++number;
      Line line(raw);
      if (line.AtEnd() || line.Eat("#")) continue;
      const char* expected = ParseLine(line);
      if (expected == nullptr && !line.AtEnd()) expected = "end of line";
      if (expected != nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("segment text, line ", number, ": expected ", expected, " in '", raw, "'"));
      }
    }
    if (nodes_ == 0) return absl::InvalidArgumentError("segment text: no ops");
    code_.insert(code_.end(), tail_.begin(), tail_.end());
    code_.push_back(views_);
    code_.push_back(roles_);
    code_.push_back(nodes_);
    std::unique_ptr<Segment> segment = Decode(code_);
    if (absl::Status status = Verify(*segment); !status.ok()) return status;
    return segment;
  }

 private:
  // Null when the line was understood, else what was expected.
  const char* ParseLine(Line& line) {
    if (line.Eat("buffers")) return Buffers(line);
    if (line.Eat("facts")) {
      if (tail_.empty()) return "the line 'buffers' first";
      int64_t value;
      while (!line.AtEnd()) {
        if (!line.Number(&value) || value < 0 || value > UINT32_MAX) return "a 32-bit number";
        tail_.push_back(static_cast<uint32_t>(value));
      }
      return nullptr;
    }
    absl::string_view name = line.Name();
    if (line.Eat("=")) return DefineView(line, name);
    return DefineNode(line, name);
  }

  const char* Buffers(Line& line) {
    if (roles_ != 0) return "one line 'buffers'";
    uint32_t word = 0;
    do {
      absl::string_view name = line.Name();
      uint32_t role = 0;
      while (role < 4 && name != kRoleNames[role]) ++role;
      if (role == 4) return "in, inout, out or temp";
      has_memory_.push_back(role < 2);
      word |= role << (2 * (roles_ % 16));
      if (++roles_ % 16 == 0) {
        tail_.push_back(word);
        word = 0;
      }
    } while (line.Eat(","));
    if (roles_ % 16 != 0) tail_.push_back(word);
    return nullptr;
  }

  const char* DefineView(Line& line, absl::string_view name) {
    if (name != absl::StrCat("v", views_)) return "the next view's number";
    int64_t buffer;
    if (!line.Eat("b") || !line.Number(&buffer) || buffer < 0 || buffer >= roles_) return "a buffer that exists";
    DType type;
    if (!FindDType(line.Name(), &type)) return "a dtype";
    if (!line.Eat("[")) return "'['";
    std::vector<uint32_t> sizes, more;
    while (!line.Eat("]")) {
      uint32_t word;
      if (!line.Dim(&word)) return "a size (0, 1 or s<number>)";
      sizes.push_back(word);
      line.Eat(",");
    }
    if (sizes.size() > kMaxTraceRank) return "at most 12 dimensions";
    LayoutKind layout = LayoutKind::kContiguous;
    if (line.Eat("dense(")) {
      if (sizes.size() > kMaxDenseRank) return "at most 8 dimensions in a dense view";
      layout = LayoutKind::kDense;
      uint32_t packed = 0;
      for (size_t i = 0; i < sizes.size(); ++i) {
        int64_t d;
        if (!line.Number(&d) || d < 0 || d >= static_cast<int64_t>(sizes.size())) return "a dimension";
        packed |= static_cast<uint32_t>(d) << (4 * i);
        line.Eat(",");
      }
      if (!line.Eat(")")) return "')'";
      more.push_back(packed);
    } else if (line.Eat("strided(")) {
      layout = LayoutKind::kStrided;
      for (size_t i = 0; i < sizes.size(); ++i) {
        uint32_t word;
        if (!line.Dim(&word)) return "a stride (0, 1 or s<number>)";
        more.push_back(word);
        line.Eat(",");
      }
      if (!line.Eat(")")) return "')'";
    }
    code_.push_back(1u | static_cast<uint32_t>(type) << 1 | static_cast<uint32_t>(sizes.size()) << 5 |
                    static_cast<uint32_t>(layout) << 10 | static_cast<uint32_t>(has_memory_[buffer]) << 12);
    code_.push_back(static_cast<uint32_t>(buffer));
    code_.insert(code_.end(), sizes.begin(), sizes.end());
    code_.insert(code_.end(), more.begin(), more.end());
    ++views_;
    return nullptr;
  }

  const char* DefineNode(Line& line, absl::string_view name) {
    Op op;
    if (!FindOp(name.data(), name.size(), &op)) return "an op of the op table";
    DType type;
    if (!line.Eat(".") || !FindDType(line.Name(), &type)) return "'.' and a dtype";
    std::vector<uint32_t> inputs, outputs;
    int64_t number;
    do {
      if (!line.Eat("v") || !line.Number(&number) || number < 0 || number >= views_) return "an output view";
      outputs.push_back(static_cast<uint32_t>(number));
    } while (line.Eat(","));
    if (line.Eat("<-")) {
      do {
        if (line.Eat("$")) {
          inputs.push_back(kScalarBit | scalars_++);
        } else if (line.Eat("v") && line.Number(&number) && number >= 0 && number < views_) {
          inputs.push_back(static_cast<uint32_t>(number));
        } else {
          return "an input view or $";
        }
      } while (line.Eat(","));
    }
    std::vector<int64_t> attrs;
    if (line.Eat("attrs")) {
      do {
        if (!line.Number(&number)) return "a number";
        attrs.push_back(number);
      } while (line.Eat(","));
    }
    int64_t params = 0;
    if (line.Eat("params") && (!line.Number(&params) || params < 0 || params > 255)) return "a count";
    if (inputs.size() > 255 || outputs.size() > 255 || attrs.size() > 255) return "fewer operands";
    scalars_ += static_cast<uint32_t>(params);
    code_.push_back(static_cast<uint32_t>(op) << 8 | static_cast<uint32_t>(type) << 1);
    code_.push_back(static_cast<uint32_t>(inputs.size() | outputs.size() << 8 | attrs.size() << 16) |
                    static_cast<uint32_t>(params) << 24);
    code_.insert(code_.end(), inputs.begin(), inputs.end());
    code_.insert(code_.end(), outputs.begin(), outputs.end());
    for (int64_t attr : attrs) {
      code_.push_back(static_cast<uint32_t>(attr));
      code_.push_back(static_cast<uint32_t>(static_cast<uint64_t>(attr) >> 32));
    }
    ++nodes_;
    return nullptr;
  }

  std::vector<uint32_t> code_, tail_;
  std::vector<bool> has_memory_;
  uint32_t roles_ = 0, nodes_ = 0, views_ = 0, scalars_ = 0;
};

}  // namespace

std::string ToText(const Segment& s) {
  std::string out = "buffers ";
  absl::StrAppend(&out, absl::StrJoin(s.roles, ", ", [](std::string* o, Role role) {
    absl::StrAppend(o, kRoleNames[static_cast<int>(role)]);
  }));
  absl::StrAppend(&out, "\n");
  CodeReader reader(s.code);
  std::string body;
  int views = 0;
  for (;;) {
    const CodeReader::Item item = reader.Next();
    if (item == CodeReader::Item::kEnd) break;
    if (item == CodeReader::Item::kView) {
      const View& v = reader.view();
      const uint32_t* words = &s.code[v.dims];
      absl::StrAppend(&body, "v", views++, " = b", v.buffer, " ", DTypeName(v.type), " [");
      for (int d = 0; d < v.rank; ++d) absl::StrAppend(&body, d ? ", " : "", Word(words[d]));
      absl::StrAppend(&body, "]");
      if (v.layout == LayoutKind::kDense) {
        absl::StrAppend(&body, " dense(");
        for (int d = 0; d < v.rank; ++d) absl::StrAppend(&body, d ? ", " : "", words[v.rank] >> (4 * d) & 15);
        absl::StrAppend(&body, ")");
      } else if (v.layout == LayoutKind::kStrided) {
        absl::StrAppend(&body, " strided(");
        for (int d = 0; d < v.rank; ++d) absl::StrAppend(&body, d ? ", " : "", Word(words[v.rank + d]));
        absl::StrAppend(&body, ")");
      }
    } else {
      const Node& n = reader.node();
      absl::StrAppend(&body, Info(n.op).text, ".", DTypeName(n.type), " ");
      bool first = true;
      for (uint32_t word : s.Outputs(n)) {
        absl::StrAppend(&body, first ? "v" : ", v", word);
        first = false;
      }
      first = true;
      for (uint32_t word : s.Inputs(n)) {
        absl::StrAppend(&body, first ? " <- " : ", ");
        if (word & kScalarBit) {
          absl::StrAppend(&body, "$");
        } else {
          absl::StrAppend(&body, "v", word);
        }
        first = false;
      }
      for (int i = 0; i < n.attrs; ++i) absl::StrAppend(&body, i ? ", " : " attrs ", s.Attr(n, i));
      if (n.params > 0) absl::StrAppend(&body, " params ", static_cast<int>(n.params));
    }
    body += '\n';
  }
  if (const auto facts = reader.Facts(); !facts.empty())
    absl::StrAppend(&out, "facts ", absl::StrJoin(facts, " "), "\n");
  return out + body;
}

absl::StatusOr<std::unique_ptr<Segment>> Parse(std::string_view text) {
  return Parser().Run(absl::string_view(text.data(), text.size()));
}

}  // namespace openneuron::trace
