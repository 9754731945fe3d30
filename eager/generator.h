// Random numbers of the device: a counter-based generator, whose state is a seed and an offset.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>

namespace openneuron::eager {

// A place in a generator's sequence.
struct PhiloxState {
  uint64_t seed;
  uint64_t offset;
};

// Philox. get_state gives 16 bytes: [seed u64][offset u64]. As everywhere in PyTorch the caller holds `mutex_` for
// anything but reading; ReserveOffset takes it itself.
class NeuronGeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit NeuronGeneratorImpl(c10::DeviceIndex index);

  void set_current_seed(uint64_t seed) override;  // and offset 0
  uint64_t current_seed() const override { return state_.seed; }
  uint64_t seed() override;  // a new one from the system
  void set_offset(uint64_t offset) override { state_.offset = offset; }
  uint64_t get_offset() const override { return state_.offset; }
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The current place, which the caller may use up to `increment` behind; the generator moves past it.
  PhiloxState ReserveOffset(uint64_t increment);

  static c10::DeviceType device_type();

 private:
  NeuronGeneratorImpl* clone_impl() const override;

  PhiloxState state_;
};

// The default generator of device `index` (-1: the current one). Throws for one that does not exist.
const at::Generator& DefaultGenerator(c10::DeviceIndex index);

// The generator's implementation, the default one of `index` when it is empty. Throws PyTorch's error for a generator
// of another device type.
NeuronGeneratorImpl& GeneratorOrDefault(const std::optional<at::Generator>& generator, c10::DeviceIndex index);

}  // namespace openneuron::eager
