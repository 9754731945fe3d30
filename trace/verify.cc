// What a legal segment is.
#include <algorithm>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "trace/code_reader.h"
#include "trace/segment.h"

namespace openneuron::trace {
namespace {

constexpr int kMaxElementwiseInputs = 4;

template <class... Parts>
absl::Status Illegal(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

using Words = absl::Span<const uint32_t>;

class Verifier {
 public:
  explicit Verifier(const Segment& segment) : s_(segment), written_(s_.roles.size()), views_of_(s_.roles.size()) {}

  absl::Status Run() {
    CodeReader reader(s_.code);
    for (;;) {
      const CodeReader::Item item = reader.Next();
      if (item == CodeReader::Item::kEnd) return CheckTail(reader.Facts());
      absl::Status status;
      if (item == CodeReader::Item::kView) {
        status = CheckView(s_.views[views_]);
        if (!status.ok()) return Illegal("view ", views_, ": ", status.message());
        ++views_;
      } else {
        const Node& node = s_.nodes[nodes_];
        if (static_cast<int>(node.op) >= kOpCount) return Illegal("node ", nodes_, ": no such op");
        status = CheckNode(node, Info(node.op));
        if (!status.ok()) return Illegal("node ", nodes_, " (", Info(node.op).text, "): ", status.message());
        ++nodes_;
      }
    }
  }

 private:
  // Literals, symbols seen before, or the next new one.
  static bool AreNamedInOrder(Words words, uint32_t* symbols) {
    for (uint32_t word : words) {
      if (word >= 2 + *symbols && word != 2 + (*symbols)++) return false;
    }
    return true;
  }

  Words Sizes(const View& v) const { return {&s_.code[v.dims], v.rank}; }
  const View& ViewOf(uint32_t word) const { return s_.views[word]; }

  absl::Status CheckView(const View& v) {
    if (v.buffer < 0 || static_cast<size_t>(v.buffer) >= s_.roles.size()) {
      return Illegal("refers to buffer ", v.buffer, " of ", s_.roles.size());
    }
    if (v.buffer > buffers_) return Illegal("buffer ", v.buffer, " is not numbered by first use");
    if (v.buffer == buffers_) ++buffers_;
    if (static_cast<int>(v.type) >= kDTypeCount) return Illegal("no such dtype");
    if (v.rank > kMaxTraceRank) return Illegal("has rank ", v.rank);
    if (!AreNamedInOrder(Sizes(v), &sizes_)) return Illegal("sizes are not named by first use");
    const bool has_memory = (s_.code[v.dims - 2] >> 12 & 1) != 0;
    if (has_memory != (s_.roles[v.buffer] == Role::kInput || s_.roles[v.buffer] == Role::kInOut)) {
      return Illegal("its buffer's role and memory disagree");
    }
    views_of_[v.buffer].push_back(views_);
    const uint32_t* layout = &s_.code[v.dims + v.rank];
    switch (v.layout) {
      case LayoutKind::kContiguous:
        return absl::OkStatus();
      case LayoutKind::kDense: {
        if (v.rank > kMaxDenseRank) return Illegal("is dense with rank ", v.rank);
        uint32_t seen = 0;
        for (int i = 0; i < v.rank; ++i) seen |= 1u << (*layout >> (4 * i) & 15);
        if (seen != (1u << v.rank) - 1) return Illegal("its order is no permutation");
        return absl::OkStatus();
      }
      case LayoutKind::kStrided:
        if (!AreNamedInOrder({layout, v.rank}, &strides_)) return Illegal("strides are not named by first use");
        return absl::OkStatus();
    }
    return Illegal("no such layout");
  }

  absl::Status CheckNode(const Node& n, const OpInfo& info) {
    if (info.inputs >= 0 && n.inputs != info.inputs) return Illegal(n.inputs, " inputs, its op takes ", info.inputs);
    if (n.params != info.params) return Illegal(n.params, " params, its op takes ", info.params);
    if (static_cast<int>(n.type) >= kDTypeCount || !HasType(n.op, n.type)) return Illegal("not defined for its dtype");
    for (uint32_t word : s_.Inputs(n)) {
      if (word & kScalarBit) {
        if ((word & ~kScalarBit) != scalars_++) return Illegal("scalars are not numbered in order");
        if (info.cls != OpClass::kElementwise) return Illegal("takes no scalar");
      } else if (word >= views_) {
        return Illegal("reads view ", word, " of ", views_);
      }
    }
    scalars_ += n.params;
    for (uint32_t word : s_.Outputs(n)) {
      if (word >= views_) return Illegal("writes view ", word, " of ", views_);
      const BufferId buffer = ViewOf(word).buffer;
      if (s_.roles[buffer] == Role::kInput) return Illegal("writes buffer ", buffer, ", whose role is input");
      written_[buffer] = true;
    }
    return CheckOperands(n, info.cls);
  }

  absl::Status CheckOperands(const Node& n, OpClass cls) const {
    const Words in = s_.Inputs(n), out = s_.Outputs(n);
    const bool two_outputs = n.op == Op::kMaxIndexed || n.op == Op::kMinIndexed;
    if (cls == OpClass::kHeavy) return out.empty() ? Illegal("has no output") : absl::OkStatus();
    if (out.size() != (two_outputs ? 2 : 1)) return Illegal("has ", out.size(), " outputs");
    if (n.attrs != (cls == OpClass::kReduce ? 1 : 0)) return Illegal("has ", n.attrs, " attributes");
    const View& to = ViewOf(out[0]);
    switch (cls) {
      case OpClass::kElementwise:
        if (in.size() > kMaxElementwiseInputs) return Illegal("has ", in.size(), " inputs");
        for (uint32_t word : in) {
          if (!(word & kScalarBit) && !Broadcasts(ViewOf(word), to)) {
            return Illegal("view ", word, " does not broadcast to its result");
          }
        }
        break;
      case OpClass::kReduce: {
        const View& from = ViewOf(in[0]);
        const int64_t reduced = s_.Attr(n, 0);
        if (reduced < 0 || reduced > from.rank) return Illegal("reduces ", reduced, " dimensions of ", from.rank);
        const auto kept = WithoutOnes(Sizes(from).first(from.rank - reduced));
        for (uint32_t word : out) {
          if (WithoutOnes(Sizes(ViewOf(word))) != kept) return Illegal("its result has other sizes than it keeps");
        }
        const bool position = two_outputs || n.op == Op::kArgmax || n.op == Op::kArgmin || n.op == Op::kCountNonzero;
        if (position && ViewOf(out.back()).type != DType::kInt64) return Illegal("its positions or counts are not i64");
        break;
      }
      case OpClass::kIndex:
        if (n.op == Op::kIota ? to.rank != 1 : to.rank < 2) return Illegal("result has rank ", to.rank);
        if (n.op != Op::kIota && Sizes(ViewOf(in[0])) != Sizes(to)) return Illegal("operand and result differ in size");
        break;
      case OpClass::kRandom:
        if (to.type != n.type) return Illegal("its result has another dtype");
        break;
      case OpClass::kHeavy:
        break;
    }
    return absl::OkStatus();
  }

  bool Broadcasts(const View& from, const View& to) const {
    if (from.rank > to.rank) return false;
    const Words a = Sizes(from), b = Sizes(to).last(from.rank);
    for (size_t d = 0; d < a.size(); ++d) {
      if (a[d] != 1 && a[d] != b[d]) return false;
    }
    return true;
  }

  static absl::InlinedVector<uint32_t, kMaxTraceRank> WithoutOnes(Words sizes) {
    absl::InlinedVector<uint32_t, kMaxTraceRank> kept;
    for (uint32_t size : sizes) {
      if (size != 1) kept.push_back(size);
    }
    return kept;
  }

  absl::Status CheckTail(Words facts) const {
    if (static_cast<size_t>(buffers_) != s_.roles.size()) {
      return Illegal("only ", buffers_, " of ", s_.roles.size(), " buffers are used");
    }
    size_t pairs = 0;
    for (size_t b = 0; b < s_.roles.size(); ++b) {
      if (s_.roles[b] == Role::kInOut && !written_[b]) return Illegal("buffer ", b, " is in-out but never written");
      const size_t related = std::min<size_t>(views_of_[b].size(), kMaxRelatedViews);
      if (written_[b]) pairs += related * (related - 1) / 2;
    }
    if (facts.size() != (pairs + 15) / 16) {
      return Illegal("has ", facts.size(), " words of facts, its views need ", (pairs + 15) / 16);
    }
    for (size_t i = 0; i < facts.size() * 16; ++i) {
      const uint32_t fact = facts[i / 16] >> (2 * (i % 16)) & 3;
      if (fact > (i < pairs ? 2u : 0u)) return Illegal("fact ", i, " is ", fact);
    }
    return absl::OkStatus();
  }

  const Segment& s_;
  // What has been read of the code so far.
  uint32_t views_ = 0, nodes_ = 0, scalars_ = 0, sizes_ = 0, strides_ = 0;
  BufferId buffers_ = 0;
  std::vector<bool> written_;
  std::vector<std::vector<uint32_t>> views_of_;  // per buffer
};

}  // namespace

absl::Status Verify(const Segment& segment) { return Verifier(segment).Run(); }

}  // namespace openneuron::trace
