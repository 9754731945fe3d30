// Walks segment code item by item. See Note [Segment code].
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "trace/segment.h"

namespace openneuron::trace {

class CodeReader {
 public:
  enum class Item { kView, kNode, kEnd };

  explicit CodeReader(absl::Span<const uint32_t> code)
      : code_(code),
        views_left_(code[code.size() - 3]),
        buffers_(code[code.size() - 2]),
        nodes_left_(code[code.size() - 1]) {}

  // The next view or node; kEnd when all were read. first_scalar and first_param of a node are left 0.
  Item Next() {
    if (views_left_ + nodes_left_ == 0) return Item::kEnd;
    const uint32_t head = code_[at_];
    if (head & 1) {
      view_.type = static_cast<DType>(head >> 1 & 15);
      view_.rank = static_cast<uint8_t>(head >> 5 & 31);
      view_.layout = static_cast<LayoutKind>(head >> 10 & 3);
      view_.buffer = static_cast<BufferId>(code_[at_ + 1]);
      view_.dims = static_cast<uint32_t>(at_ + 2);
      at_ += 2 + view_.rank;
      if (view_.layout == LayoutKind::kDense) at_ += 1;
      if (view_.layout == LayoutKind::kStrided) at_ += view_.rank;
      --views_left_;
      return Item::kView;
    }
    const uint32_t counts = code_[at_ + 1];
    node_ = {};
    node_.op = static_cast<Op>(head >> 8);
    node_.type = static_cast<DType>(head >> 1 & 15);
    node_.inputs = static_cast<uint8_t>(counts);
    node_.outputs = static_cast<uint8_t>(counts >> 8);
    node_.attrs = static_cast<uint8_t>(counts >> 16);
    node_.params = static_cast<uint8_t>(counts >> 24);
    node_.operands = static_cast<uint32_t>(at_ + 2);
    at_ += 2 + node_.inputs + node_.outputs + 2 * node_.attrs;
    --nodes_left_;
    return Item::kNode;
  }
  const View& view() const { return view_; }
  const Node& node() const { return node_; }

  // Roles of all buffers; valid after kEnd.
  std::vector<Role> Roles() const {
    std::vector<Role> roles(buffers_);
    for (uint32_t b = 0; b < buffers_; ++b) {
      roles[b] = static_cast<Role>(code_[at_ + b / 16] >> (2 * (b % 16)) & 3);
    }
    return roles;
  }
  // Where the roles begin; valid after kEnd.
  size_t tail() const { return at_; }
  // The relations between views; valid after kEnd.
  absl::Span<const uint32_t> Facts() const {
    const size_t begin = at_ + (buffers_ + 15) / 16;
    return code_.subspan(begin, code_.size() - 3 - begin);
  }

 private:
  absl::Span<const uint32_t> code_;
  uint32_t views_left_, buffers_, nodes_left_;
  size_t at_ = 0;
  View view_{};
  Node node_{};
};

}  // namespace openneuron::trace
