// Ops that PyTorch calls by another name on an accelerator than on the CPU.
#include <ATen/ATen.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>

#include "eager/devices.h"
#include "eager/engine.h"
#include "eager/fallback.h"

namespace openneuron::eager {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;

// Convolution reaches an accelerator as convolution_overrideable; the CPU's is convolution itself.

void Prepare(const char* op, at::ArrayRef<Tensor> tensors) {
  Cut(CutReason::kFallback);
  CountFallback(op);
  const c10::Device device = tensors[0].device();
  for (const Tensor& tensor : tensors) {
    TORCH_CHECK(!tensor.defined() || tensor.device() == device,
                "Expected all tensors to be on the same device, but found at least two devices, ", device, " and ",
                tensor.defined() ? tensor.device() : device, "!");
    if (tensor.defined()) Materialize(tensor, CutReason::kFallback);
  }
}

Tensor Convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, at::IntArrayRef stride,
                   at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                   int64_t groups) {
  const Tensor some_bias = bias.value_or(Tensor());
  Prepare("aten::convolution", {input, weight, some_bias});
  AliasScope scope;
  const CpuKernelScope kernel_scope(input.device().index());
  return scope.Return(at::convolution(scope.Cpu(input), scope.Cpu(weight), scope.Cpu(some_bias), stride, padding,
                                      dilation, transposed, output_padding, groups),
                      input.device());
}

std::tuple<Tensor, Tensor, Tensor> ConvolutionBackward(const Tensor& grad_output, const Tensor& input,
                                                       const Tensor& weight, at::IntArrayRef stride,
                                                       at::IntArrayRef padding, at::IntArrayRef dilation,
                                                       bool transposed, at::IntArrayRef output_padding, int64_t groups,
                                                       std::array<bool, 3> output_mask) {
  Prepare("aten::convolution_backward", {grad_output, input, weight});
  AliasScope scope;
  const CpuKernelScope kernel_scope(input.device().index());
  const std::array<int64_t, 1> bias_sizes = {grad_output.size(1)};
  auto [grad_input, grad_weight, grad_bias] =
      at::convolution_backward(scope.Cpu(grad_output), scope.Cpu(input), scope.Cpu(weight), bias_sizes, stride, padding,
                               dilation, transposed, output_padding, groups, output_mask);
  const c10::Device device = input.device();
  return {scope.Return(std::move(grad_input), device), scope.Return(std::move(grad_weight), device),
          scope.Return(std::move(grad_bias), device)};
}

// Recurrent cells: fused on an accelerator, a sequence of ops on the CPU. Here too they are ops of the trace.

Tensor Gates(const Tensor& input_gates, const Tensor& hidden_gates, const OptionalTensor& input_bias,
             const OptionalTensor& hidden_bias) {
  Tensor gates = input_gates + hidden_gates;
  if (input_bias.has_value() && input_bias->defined()) gates.add_(*input_bias);
  if (hidden_bias.has_value() && hidden_bias->defined()) gates.add_(*hidden_bias);
  return gates;
}

// The workspace is the activated gates: input, forget, cell, output.
std::tuple<Tensor, Tensor, Tensor> LstmCell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                            const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  Tensor workspace = Gates(input_gates, hidden_gates, input_bias, hidden_bias);
  std::vector<Tensor> gate = workspace.unsafe_chunk(4, 1);
  gate[0].sigmoid_();
  gate[1].sigmoid_();
  gate[2].tanh_();
  gate[3].sigmoid_();
  Tensor cy = gate[1] * cx + gate[0] * gate[2];
  Tensor hy = gate[3] * cy.tanh();
  return {std::move(hy), std::move(cy), std::move(workspace)};
}

std::tuple<Tensor, Tensor, Tensor> LstmCellBackward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                    const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                    bool has_bias) {
  const bool from_hy = grad_hy.has_value() && grad_hy->defined();
  const bool from_cy = grad_cy.has_value() && grad_cy->defined();
  if (!from_hy && !from_cy) return {};
  const std::vector<Tensor> gate = workspace.unsafe_chunk(4, 1);
  const Tensor &i = gate[0], &f = gate[1], &g = gate[2], &o = gate[3];
  const Tensor tanh_cy = cy.tanh();
  Tensor grad_cell, grad_o;
  if (from_hy) {
    grad_o = at::sigmoid_backward(*grad_hy * tanh_cy, o);
    grad_cell = at::tanh_backward(*grad_hy * o, tanh_cy);
    if (from_cy) grad_cell = grad_cell + *grad_cy;
  } else {
    grad_o = at::zeros_like(o);
    grad_cell = *grad_cy;
  }
  const Tensor grad_gates = at::cat({at::sigmoid_backward(grad_cell * g, i), at::sigmoid_backward(grad_cell * cx, f),
                                     at::tanh_backward(grad_cell * i, g), grad_o},
                                    1);
  return {grad_gates, grad_cell * f, has_bias ? grad_gates.sum(0) : Tensor()};
}

// The workspace is reset gate, update gate, new gate, hx, and the hidden part of the new gate.
std::tuple<Tensor, Tensor> GruCell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                   const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  Tensor from_input = input_gates, from_hidden = hidden_gates;
  if (input_bias.has_value() && input_bias->defined()) from_input = from_input + *input_bias;
  if (hidden_bias.has_value() && hidden_bias->defined()) from_hidden = from_hidden + *hidden_bias;
  const std::vector<Tensor> x = from_input.unsafe_chunk(3, 1), h = from_hidden.unsafe_chunk(3, 1);
  const Tensor reset = (x[0] + h[0]).sigmoid();
  const Tensor update = (x[1] + h[1]).sigmoid();
  const Tensor fresh = (x[2] + reset * h[2]).tanh();
  return {(hx - fresh) * update + fresh, at::cat({reset, update, fresh, hx, h[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> GruCellBackward(const Tensor& grad_hy, const Tensor& workspace,
                                                                   bool has_bias) {
  const std::vector<Tensor> saved = workspace.unsafe_chunk(5, 1);
  const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden = saved[4];
  const Tensor grad_update = at::sigmoid_backward(grad_hy * (hx - fresh), update);
  const Tensor grad_fresh = at::tanh_backward(grad_hy * (1 - update), fresh);
  const Tensor grad_reset = at::sigmoid_backward(grad_fresh * hidden, reset);
  const Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {grad_input, grad_hidden, grad_hy * update, has_bias ? grad_input.sum(0) : Tensor(),
          has_bias ? grad_hidden.sum(0) : Tensor()};
}

// Attention is composed of ops of the trace.
int64_t FusedSdpChoice(const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&, double, bool,
                       std::optional<double>, bool) {
  return static_cast<int64_t>(sdp::SDPBackend::math);
}

Tensor NestedTensorSize(const Tensor& self) { return at::native::get_nested_tensor_impl(self)->get_nested_sizes(); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", TORCH_FN(Convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(ConvolutionBackward));
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(LstmCell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(LstmCellBackward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(GruCell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(GruCellBackward));
  m.impl("_fused_sdp_choice", TORCH_FN(FusedSdpChoice));
}

// Without it a strided nested tensor ends the process.
TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) { m.impl("_nested_tensor_size", TORCH_FN(NestedTensorSize)); }

}  // namespace
}  // namespace openneuron::eager

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &openneuron::eager::FusedSdpChoice)
}  // namespace at::native
