// Pinned host memory as PyTorch's host allocator.
#pragma once

#include <c10/core/Allocator.h>

namespace openneuron::eager {

void InstallPinnedAllocator();
c10::Allocator* PinnedAllocator();

}  // namespace openneuron::eager
