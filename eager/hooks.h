// PyTorch's accelerator hooks for the device.
#pragma once

namespace openneuron::eager {

void InstallHooks();

}  // namespace openneuron::eager
