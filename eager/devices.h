// The devices of this process: how many there are, and what each of them owns.
// Set up once by InitDevices; afterwards all functions may be called from any thread, with or without the GIL.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>

#include "device/chip.h"
#include "device/memory.h"
#include "device/pinned.h"
#include "device/stream.h"
#include "device/timeline.h"

namespace openneuron::eager {

inline constexpr int kMaxDevices = 16;
inline constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;

// One `neuron` device: a logical core of the modelled chip.
struct Device {
  Device(int index, const device::Chip& chip, int64_t memory_limit);

  device::DeviceMemory memory;
  device::Timeline timeline;
  device::StreamPool streams;
  std::atomic<bool> used{false};
};

// Makes the devices: NEURON_DEVICE_COUNT of them (1 by default), of the chip NEURON_CHIP (trn2 by default), each with
// the chip's memory, limited to 90 % of what the host has available now. Throws c10::ValueError that lists the valid
// values of a variable with another one. Calls after the first do nothing.
void InitDevices();

// 0 before InitDevices.
c10::DeviceIndex DeviceCount() noexcept;
const device::Chip& ModelledChip();
device::PinnedMemory& Pinned();

// Throws "Invalid device index" for one that does not exist.
Device& DeviceAt(c10::DeviceIndex index);

// The bytes that a process may use at most of a device: its memory limit before any set_memory_fraction.
int64_t HostMemoryLimit();

// To be called before a device does anything. Throws in a child forked after a device had been used, and notes the use.
void UseDevice(c10::DeviceIndex index);
bool DeviceUsed(c10::DeviceIndex index);
bool InBadFork() noexcept;

// The calling thread's current device, and its current stream on each device.
c10::DeviceIndex CurrentDevice() noexcept;
void SetCurrentDevice(c10::DeviceIndex index);
void SetCurrentDeviceUnchecked(c10::DeviceIndex index) noexcept;
// `index`, or the current device for -1. Throws like DeviceAt.
c10::DeviceIndex ResolveDevice(c10::DeviceIndex index);

c10::Stream MakeStream(c10::DeviceIndex index, int64_t id);
c10::Stream CurrentStream(c10::DeviceIndex index);
// Makes `stream` current on its device and returns the one before; work recorded on that one ends first.
c10::Stream ExchangeStream(c10::Stream stream);
// Throws for a stream that does not exist.
device::Stream& StreamOf(const c10::Stream& stream);

}  // namespace openneuron::eager
