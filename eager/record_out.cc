// out= variants that have no node of their own: the functional op and a copy, both recorded.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>

#include "eager/record.h"

namespace openneuron::eager {
namespace {

// The two schemas agree but for the trailing outputs.
class OutByCopy final : public c10::OperatorKernel {
 public:
  explicit OutByCopy(c10::OperatorHandle functional) : functional_(std::move(functional)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t count = op.schema().arguments().size(), outputs = op.schema().returns().size();
    const auto arguments = torch::jit::last(*stack, count);
    const auto in = arguments.slice(0, count - outputs), out = arguments.slice(count - outputs);
    if (CanWrite(in, out)) {
      torch::jit::Stack results(in.begin(), in.end());
      {
        const c10::impl::ExcludeDispatchKeyGuard below_autocast(c10::autocast_dispatch_keyset);
        functional_.callBoxed(&results);
      }
      if (Fit(results, out)) {
        torch::jit::Stack written(out.begin(), out.end());
        for (size_t i = 0; i < outputs; ++i) {
          at::Tensor target = written[i].toTensor();
          RecordCopy(target, results[i].toTensor(), false);
        }
        torch::jit::drop(*stack, count);
        for (c10::IValue& value : written) stack->push_back(std::move(value));
        return;
      }
    }
    BoxedFallback(op, stack);
  }

 private:
  // Outputs that share memory with an input need PyTorch's overlap checks.
  static bool CanWrite(at::ArrayRef<c10::IValue> in, at::ArrayRef<c10::IValue> out) {
    for (const c10::IValue& target : out) {
      if (!Recordable(target.toTensor())) return false;
      for (const c10::IValue& value : in) {
        if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_alias_of(target.toTensor())) {
          return false;
        }
      }
    }
    return true;
  }
  static bool Fit(const torch::jit::Stack& results, at::ArrayRef<c10::IValue> out) {
    for (size_t i = 0; i < out.size(); ++i) {
      const at::Tensor &result = results[i].toTensor(), &target = out[i].toTensor();
      if (result.sizes() != target.sizes() || result.scalar_type() != target.scalar_type() ||
          result.device() != target.device()) {
        return false;
      }
    }
    return true;
  }

  const c10::OperatorHandle functional_;
};

struct Variant {
  const char *name, *out, *functional;  // ATen name and the two overloads
};
constexpr Variant kVariants[] = {
    {"_log_softmax", "out", ""},
    {"_log_softmax_backward_data", "out", ""},
    {"_softmax", "out", ""},
    {"_softmax_backward_data", "out", ""},
    {"addcdiv", "out", ""},
    {"all", "all_out", ""},
    {"all", "out", "dim"},
    {"aminmax", "out", ""},
    {"any", "all_out", ""},
    {"any", "out", "dim"},
    {"argmax", "out", ""},
    {"argmin", "out", ""},
    {"clamp", "Tensor_out", "Tensor"},
    {"clamp_max", "out", ""},
    {"clamp_min", "out", ""},
    {"elu", "out", ""},
    {"gather", "out", ""},
    {"gelu", "out", ""},
    {"gelu_backward", "grad_input", ""},
    {"hardsigmoid_backward", "grad_input", ""},
    {"hardtanh", "out", ""},
    {"hardtanh_backward", "grad_input", ""},
    {"index_select", "out", ""},
    {"leaky_relu", "out", ""},
    {"leaky_relu_backward", "grad_input", ""},
    {"lerp", "Scalar_out", "Scalar"},
    {"lerp", "Tensor_out", "Tensor"},
    {"linalg_vector_norm", "out", ""},
    {"max", "dim_max", "dim"},
    {"max", "unary_out", ""},
    {"min", "dim_min", "dim"},
    {"min", "unary_out", ""},
    {"mse_loss", "out", ""},
    {"mse_loss_backward", "grad_input", ""},
    {"nll_loss_backward", "grad_input", ""},
    {"nll_loss_forward", "output", ""},
    {"prod", "int_out", "dim_int"},
    {"softplus", "out", ""},
    {"softplus_backward", "grad_input", ""},
    {"std", "correction_out", "correction"},
    {"threshold", "out", ""},
    {"threshold_backward", "grad_input", ""},
    {"var", "correction_out", "correction"},
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const Variant& variant : kVariants) {
    const std::string name = std::string("aten::") + variant.name;
    auto kernel =
        std::make_unique<OutByCopy>(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), variant.functional));
    m.impl((name + "." + variant.out).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }
}

}  // namespace openneuron::eager
