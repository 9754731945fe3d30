// Seeds, offsets and states.
#include "eager/generator.h"

#include <ATen/ATen.h>
#include <ATen/Utils.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "eager/devices.h"

namespace openneuron::eager {

NeuronGeneratorImpl::NeuronGeneratorImpl(c10::DeviceIndex index)
    : GeneratorImpl(c10::Device(kNeuron, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_{c10::default_rng_seed_val, 0} {}

c10::DeviceType NeuronGeneratorImpl::device_type() { return kNeuron; }

void NeuronGeneratorImpl::set_current_seed(uint64_t seed) { state_ = {seed, 0}; }

uint64_t NeuronGeneratorImpl::seed() {
  const uint64_t seed = c10::detail::getNonDeterministicRandom();
  set_current_seed(seed);
  return seed;
}

void NeuronGeneratorImpl::set_state(const c10::TensorImpl& new_state) {
  at::detail::check_rng_state(new_state);
  TORCH_CHECK(new_state.numel() == sizeof(PhiloxState), "RNG state is wrong size: expected ", sizeof(PhiloxState),
              " bytes, but got ", new_state.numel());
  std::memcpy(&state_, new_state.data(), sizeof(PhiloxState));
}

c10::intrusive_ptr<c10::TensorImpl> NeuronGeneratorImpl::get_state() const {
  at::Tensor state = at::detail::empty_cpu({sizeof(PhiloxState)}, at::kByte);
  std::memcpy(state.mutable_data_ptr(), &state_, sizeof(PhiloxState));
  return state.getIntrusivePtr();
}

PhiloxState NeuronGeneratorImpl::ReserveOffset(uint64_t increment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const PhiloxState before = state_;
  state_.offset += increment;
  return before;
}

NeuronGeneratorImpl* NeuronGeneratorImpl::clone_impl() const {
  auto* copy = new NeuronGeneratorImpl(device().index());
  copy->state_ = state_;
  return copy;
}

const at::Generator& DefaultGenerator(c10::DeviceIndex index) {
  static const std::vector<at::Generator>& generators = *[] {
    auto* made = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < DeviceCount(); ++i) made->push_back(at::make_generator<NeuronGeneratorImpl>(i));
    return made;
  }();
  return generators[ResolveDevice(index)];
}

NeuronGeneratorImpl& GeneratorOrDefault(const std::optional<at::Generator>& generator, c10::DeviceIndex index) {
  if (!generator.has_value() || !generator->defined()) {
    return *static_cast<NeuronGeneratorImpl*>(DefaultGenerator(index).unsafeGetGeneratorImpl());
  }
  TORCH_CHECK(generator->device().type() == kNeuron, "Expected a '", kNeuron, "' device type for generator but found '",
              generator->device().type(), "'");
  return *static_cast<NeuronGeneratorImpl*>(generator->unsafeGetGeneratorImpl());
}

}  // namespace openneuron::eager
