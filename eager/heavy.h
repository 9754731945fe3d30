// The library kernels of the op table's Heavy class: PyTorch's CPU kernels on the operands' memory.
#pragma once

namespace openneuron::eager {

// Fills HeavyKernels(). To be called once, before the first op is recorded.
void RegisterHeavyKernels();

}  // namespace openneuron::eager
