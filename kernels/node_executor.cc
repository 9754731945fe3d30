// Planning and running a segment node by node.
#include "kernels/node_executor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "kernels/index.h"
#include "kernels/random.h"

namespace openneuron::kernels {
namespace {

using trace::kScalarBit;
using trace::OpClass;
using trace::Role;

constexpr int64_t kNoStrides[1] = {0};

Layout ScalarLayout(DType type) {
  return {trace::IsFloating(type) ? DType::kFloat64 : DType::kInt64, 0, kNoStrides, kNoStrides};
}

// Which nodes must run: those that can fail, and those that somebody still needs. A write ends no need: it may be
// partial.
std::vector<bool> LiveNodes(const trace::Segment& segment) {
  std::vector<bool> needed(segment.roles.size());
  std::vector<bool> live(segment.nodes.size());
  for (size_t b = 0; b < needed.size(); ++b) needed[b] = segment.roles[b] != Role::kTemporary;
  for (size_t i = segment.nodes.size(); i-- > 0;) {
    const trace::Node& node = segment.nodes[i];
    bool keep = trace::Info(node.op).cls == OpClass::kHeavy;
    for (uint32_t word : segment.Outputs(node)) keep = keep || needed[segment.views[word].buffer];
    if (!keep) continue;
    live[i] = true;
    for (uint32_t word : segment.Inputs(node)) {
      if (!(word & kScalarBit)) needed[segment.views[word].buffer] = true;
    }
  }
  return live;
}

}  // namespace

Plan::Plan(const trace::Segment& segment, absl::Span<const int64_t> size_values,
           absl::Span<const int64_t> stride_values, absl::Span<const int64_t> buffer_bytes, const HeavyTable& heavy)
    : segment_(segment), heavy_(heavy) {
  size_t total = 0;
  for (const trace::View& v : segment.views) total += size_t{2} * v.rank;
  dims_.resize(total);
  dims_of_.reserve(segment.views.size());
  size_t at = 0;
  for (const trace::View& v : segment.views) {
    dims_of_.push_back(static_cast<uint32_t>(at));
    trace::BindView(segment, v, size_values.data(), stride_values.data(), dims_.data() + at,
                    dims_.data() + at + v.rank);
    at += size_t{2} * v.rank;
  }
  const std::vector<bool> live = LiveNodes(segment);
  steps_.reserve(segment.nodes.size());
  for (size_t i = 0; i < segment.nodes.size(); ++i) {
    if (live[i]) AddStep(static_cast<int>(i), segment.nodes[i]);
  }
  PlaceTemporaries(buffer_bytes);
}

void Plan::AddStep(int index, const trace::Node& node) {
  Step step{};
  step.inputs = node.inputs;
  step.outputs = node.outputs;
  step.op = node.op;
  step.type = node.type;
  step.node = index;
  step.operands = node.operands;
  step.first_param = node.first_param;
  const auto inputs = segment_.Inputs(node);
  const auto outputs = segment_.Outputs(node);
  switch (trace::Info(node.op).cls) {
    case OpClass::kElementwise: {
      absl::InlinedVector<Layout, kMaxInputs> in;
      for (uint32_t word : inputs) {
        in.push_back(word & kScalarBit ? ScalarLayout(node.type) : LayoutOf(static_cast<int>(word)));
      }
      const Layout out = LayoutOf(static_cast<int>(outputs[0]));
      if (Elements(out) == 0) return;
      step.kind = Kind::kLoop;
      step.payload = static_cast<uint32_t>(loops_.size());
      loops_.push_back(BindElementwise(node.op, node.type, out, in));
      break;
    }
    case OpClass::kReduce: {
      absl::InlinedVector<Layout, 2> out;
      for (uint32_t word : outputs) out.push_back(LayoutOf(static_cast<int>(word)));
      const int reduced = static_cast<int>(segment_.Attr(node, 0));
      step.kind = Kind::kReduce;
      step.payload = static_cast<uint32_t>(reduces_.size());
      reduces_.push_back(BindReduce(node.op, node.type, LayoutOf(static_cast<int>(inputs[0])), reduced, out));
      break;
    }
    case OpClass::kIndex:
      step.kind = Kind::kIndex;
      break;
    case OpClass::kRandom:
      step.kind = Kind::kRandom;
      break;
    case OpClass::kHeavy:
      step.kind = Kind::kHeavy;
      break;
  }
  steps_.push_back(step);
}

// Lifetimes to scratch offsets: a buffer lives from the first step that touches it to the last; a freed block
// serves the next buffer that it fits without wasting more than itself.
void Plan::PlaceTemporaries(absl::Span<const int64_t> buffer_bytes) {
  const int buffers = static_cast<int>(segment_.roles.size());
  std::vector<int> last(buffers, -1);
  auto each_temporary = [&](const Step& step, auto&& visit) {
    for (int i = 0; i < step.inputs + step.outputs; ++i) {
      const uint32_t word = segment_.code[step.operands + i];
      if (word & kScalarBit) continue;
      const trace::BufferId b = segment_.views[word].buffer;
      if (segment_.roles[b] == Role::kTemporary) visit(b);
    }
  };
  for (size_t s = 0; s < steps_.size(); ++s) {
    each_temporary(steps_[s], [&](trace::BufferId b) { last[b] = static_cast<int>(s); });
  }
  struct FreeBlock {
    int64_t offset, bytes;
  };
  std::vector<FreeBlock> free_blocks;
  std::vector<FreeBlock> placed(buffers, {-1, 0});
  for (size_t s = 0; s < steps_.size(); ++s) {
    each_temporary(steps_[s], [&](trace::BufferId b) {
      if (placed[b].offset >= 0) return;
      const int64_t bytes = (std::max<int64_t>(buffer_bytes[b], 1) + 64 + 63) / 64 * 64;  // 64 of slack
      int best = -1;
      for (size_t f = 0; f < free_blocks.size(); ++f) {
        if (free_blocks[f].bytes >= bytes && free_blocks[f].bytes <= 2 * bytes &&
            (best < 0 || free_blocks[f].bytes < free_blocks[best].bytes)) {
          best = static_cast<int>(f);
        }
      }
      if (best >= 0) {
        placed[b] = free_blocks[best];
        free_blocks.erase(free_blocks.begin() + best);
      } else {
        placed[b] = {scratch_bytes_, bytes};
        scratch_bytes_ += bytes;
      }
      scratch_.push_back({b, placed[b].offset});
    });
    each_temporary(steps_[s], [&](trace::BufferId b) {
      if (last[b] == static_cast<int>(s) && placed[b].bytes > 0) {
        free_blocks.push_back(placed[b]);
        placed[b].bytes = 0;
      }
    });
  }
}

int64_t Plan::memory_bytes() const {
  return static_cast<int64_t>(sizeof(*this) + steps_.capacity() * sizeof(Step) +
                              loops_.capacity() * sizeof(ElementwiseLoop) + reduces_.capacity() * sizeof(ReduceLoop) +
                              dims_of_.capacity() * sizeof(uint32_t) + dims_.capacity() * sizeof(int64_t) +
                              scratch_.capacity() * sizeof(Scratch));
}

void Plan::RunStep(const Step& step, void* const* addresses, const Scalar* scalars) const {
  const uint32_t* words = &segment_.code[step.operands];
  const Scalar* params = scalars + step.first_param;
  auto address = [&](uint32_t word) -> void* {
    return word & kScalarBit ? const_cast<Scalar*>(scalars + (word & ~kScalarBit)) : addresses[word];
  };
  switch (step.kind) {
    case Kind::kLoop: {
      const void* in[kMaxInputs];
      for (int i = 0; i < step.inputs; ++i) in[i] = address(words[i]);
      RunElementwise(loops_[step.payload], addresses[words[step.inputs]], in, params);
      break;
    }
    case Kind::kReduce: {
      void* out[2];
      for (int i = 0; i < step.outputs; ++i) out[i] = addresses[words[step.inputs + i]];
      RunReduce(reduces_[step.payload], address(words[0]), out, params);
      break;
    }
    case Kind::kIndex: {
      const Layout out = LayoutOf(static_cast<int>(words[step.inputs]));
      if (step.inputs == 0) {
        RunIndex(step.op, step.type, out, addresses[words[0]], nullptr, nullptr, params);
      } else {
        const Layout in = LayoutOf(static_cast<int>(words[0]));
        RunIndex(step.op, step.type, out, addresses[words[1]], &in, addresses[words[0]], params);
      }
      break;
    }
    case Kind::kRandom:
      RunRandom(step.op, step.type, LayoutOf(static_cast<int>(words[0])), addresses[words[0]], params);
      break;
    case Kind::kHeavy:
      RunHeavy(step, addresses, scalars);
      break;
  }
}

void Plan::RunHeavy(const Step& step, void* const* addresses, const Scalar* scalars) const {
  const trace::Node& node = segment_.nodes[step.node];
  absl::InlinedVector<HeavyOperand, 8> operands;
  for (uint32_t word : segment_.Inputs(node)) {
    operands.push_back({addresses[word], LayoutOf(static_cast<int>(word))});
  }
  for (uint32_t word : segment_.Outputs(node)) {
    operands.push_back({addresses[word], LayoutOf(static_cast<int>(word))});
  }
  absl::InlinedVector<int64_t, 8> attrs;
  for (int i = 0; i < node.attrs; ++i) attrs.push_back(segment_.Attr(node, i));
  const absl::Span<const HeavyOperand> all(operands);
  heavy_[static_cast<size_t>(step.op)](
      {step.op, step.type, all.first(node.inputs), all.subspan(node.inputs), attrs, scalars + step.first_param});
}

std::vector<Failure> Plan::Run(const Bindings& bindings, std::vector<bool>* spoiled) const {
  absl::InlinedVector<void*, 64> bases(bindings.buffers.begin(), bindings.buffers.end());
  for (const Scratch& s : scratch_) {
    bases[s.buffer] = bindings.scratch == nullptr ? nullptr : static_cast<char*>(bindings.scratch) + s.offset;
  }
  absl::InlinedVector<void*, 128> addresses(segment_.views.size());
  for (size_t v = 0; v < addresses.size(); ++v) {
    const trace::View& view = segment_.views[v];
    addresses[v] = static_cast<char*>(bases[view.buffer]) + bindings.offsets[v] * trace::ItemSize(view.type);
  }
  const auto lost = [&](uint32_t word) { return !(word & kScalarBit) && (*spoiled)[segment_.views[word].buffer]; };
  const auto absent = [&](uint32_t word) { return lost(word) && bases[segment_.views[word].buffer] == nullptr; };
  std::vector<Failure> failures;
  for (const Step& step : steps_) {
    const absl::Span<const uint32_t> words(&segment_.code[step.operands], step.inputs + step.outputs);
    const auto spoil_outputs = [&] {
      for (uint32_t word : words.subspan(step.inputs)) (*spoiled)[segment_.views[word].buffer] = true;
    };
    const auto outputs = words.begin() + step.inputs;
    if (!spoiled->empty() && (std::any_of(words.begin(), outputs, lost) || std::any_of(outputs, words.end(), absent))) {
      spoil_outputs();
      continue;
    }
    try {
      RunStep(step, addresses.data(), bindings.scalars);
    } catch (...) {
      spoiled->resize(segment_.roles.size(), false);
      failures.push_back({step.node, std::current_exception()});
      spoil_outputs();
    }
  }
  return failures;
}

}  // namespace openneuron::kernels
