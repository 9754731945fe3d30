// The device guard: current device, streams and events, as PyTorch's generic code asks for them.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <chrono>

#include "device/stream.h"
#include "eager/devices.h"
#include "eager/engine.h"

namespace openneuron::eager {
namespace {

int64_t WallNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

device::Event& EventOf(void* event) { return *static_cast<device::Event*>(event); }

// Work is executed by the thread that ends its trace. So whatever asks for order or time ends the trace, and then finds
// every stream idle.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNeuron; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kNeuron, CurrentDevice()}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kNeuron, "Expected a neuron device, but got ", device);
    if (device.has_index()) SetCurrentDevice(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { SetCurrentDeviceUnchecked(device.index()); }
  c10::DeviceIndex deviceCount() const noexcept override { return DeviceCount(); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device device) const override { return CurrentStream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return MakeStream(ResolveDevice(device.index()), device::kDefaultStreamId);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const c10::DeviceIndex index = ResolveDevice(device.index());
    const auto wanted = priority < 0 ? device::StreamPriority::kHigh : device::StreamPriority::kNormal;
    UseDevice(index);
    return MakeStream(index, DeviceAt(index).streams.Next(wanted).id());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return ExchangeStream(stream); }
  // The device::Stream.
  void* getStreamNativeHandle(const c10::Stream stream) const override { return &StreamOf(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    Cut(CutReason::kSynchronize);
    return StreamOf(stream).Query();
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Cut(CutReason::kSynchronize);
    StreamOf(stream).Synchronize();
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    device::StreamPool& streams = DeviceAt(ResolveDevice(index)).streams;
    Cut(CutReason::kSynchronize);
    streams.Synchronize();
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "Event device index ", static_cast<int>(index),
                " does not match recording stream's device index ", static_cast<int>(stream.device_index()), ".");
    device::Stream& on = StreamOf(stream);
    UseDevice(stream.device_index());
    Cut(CutReason::kEvent);
    if (*event == nullptr) *event = new device::Event;
    EventOf(*event).Record(on, WallNs());
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    Cut(CutReason::kEvent);
    EventOf(event).Wait(StreamOf(stream));
  }
  bool queryEvent(void* event) const override { return event == nullptr || EventOf(event).Query(); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) EventOf(event).Synchronize();
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    const auto elapsed = device::Event::ElapsedMs(EventOf(start), EventOf(end));
    TORCH_CHECK(elapsed.ok(), std::string(elapsed.status().message()));
    return *elapsed;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<device::Event*>(event);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace openneuron::eager
