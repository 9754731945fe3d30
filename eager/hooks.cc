// What PyTorch asks of an accelerator without going through the dispatcher.
#include "eager/hooks.h"

#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Storage.h>

#include "eager/devices.h"
#include "eager/generator.h"
#include "eager/pinned.h"
#include "eager/storage.h"

namespace openneuron::eager {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return DeviceCount() > 0; }
  void init() const override { UseDevice(CurrentDevice()); }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return DeviceUsed(index); }

  c10::DeviceIndex deviceCount() const override { return DeviceCount(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { SetCurrentDevice(index); }
  c10::DeviceIndex getCurrentDevice() const override { return CurrentDevice(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex before = CurrentDevice();
    SetCurrentDevice(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? -1 : exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return DefaultGenerator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<NeuronGeneratorImpl>(ResolveDevice(index));
  }

  at::Device getDeviceFromPtr(void* data) const override {
    for (c10::DeviceIndex i = 0; i < DeviceCount(); ++i) {
      if (DeviceAt(i).memory.Owns(data)) return {kNeuron, i};
    }
    TORCH_CHECK(false, "The specified pointer resides on host memory and is not registered with any neuron device.");
  }
  bool isPinnedPtr(const void* data) const override { return DeviceCount() > 0 && Pinned().Owns(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return PinnedAllocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    NeuronStorage* ours = AsNeuronStorage(storage.unsafeGetStorageImpl());
    TORCH_CHECK(ours != nullptr, "Trying to resize storage that is not resizable");
    ResizeStorage(ours, static_cast<int64_t>(nbytes));
  }
};

}  // namespace

void InstallHooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

}  // namespace openneuron::eager
