// From nodes to engine work.
#include "eager/launch_cost.h"

#include <vector>

#include "device/timeline.h"

namespace openneuron::eager {
namespace {

using kernels::Elements;
using trace::Op;

// Ops that the scalar engine evaluates by table.
bool IsTranscendental(Op op) {
  return (op >= Op::kRsqrt && op <= Op::kSigmoid) || op == Op::kSilu || op == Op::kGeluErf || op == Op::kGeluTanh ||
         op == Op::kMish || op == Op::kPow || op == Op::kSoftmax || op == Op::kLogSoftmax;
}

}  // namespace

double KernelTimeNs(const trace::Segment& segment, const kernels::Plan& plan, const device::Chip& chip) {
  std::vector<device::Work> works;
  works.reserve(segment.nodes.size());
  for (const trace::Node& node : segment.nodes) {
    device::Work work;
    work.type = node.type;
    int64_t in_elements = 0, out_elements = 0;
    for (uint32_t word : segment.Inputs(node)) {
      if (word & trace::kScalarBit) continue;
      const kernels::Layout layout = plan.LayoutOf(static_cast<int>(word));
      in_elements += Elements(layout);
      work.hbm_bytes += Elements(layout) * trace::ItemSize(layout.type);
    }
    for (uint32_t word : segment.Outputs(node)) {
      const kernels::Layout layout = plan.LayoutOf(static_cast<int>(word));
      out_elements += Elements(layout);
      work.hbm_bytes += Elements(layout) * trace::ItemSize(layout.type);
    }
    switch (node.op) {
      case Op::kMm:
      case Op::kAddmm:
      case Op::kBmm:
      case Op::kBaddbmm:
      case Op::kMv:
      case Op::kDot: {
        const kernels::Layout last = plan.LayoutOf(static_cast<int>(segment.Inputs(node).back()));
        const int64_t inner = last.rank >= 2 ? last.sizes[last.rank - 2] : Elements(last);
        work.flops = 2.0 * static_cast<double>(out_elements) * static_cast<double>(inner);
        break;
      }
      case Op::kEmbedding:
      case Op::kEmbeddingBackward:
      case Op::kIndexSelect:
      case Op::kGather:
        work.elements_gpsimd = out_elements;
        break;
      default:
        (IsTranscendental(node.op) ? work.elements_scalar : work.elements_vector) = std::max(in_elements, out_elements);
    }
    works.push_back(work);
  }
  return device::KernelTimeNs(chip, works);
}

}  // namespace openneuron::eager
