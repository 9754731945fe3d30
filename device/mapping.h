// Pages of the host that stand for device memory and pinned memory.
#pragma once

#include <cstdint>

namespace openneuron::device {

inline constexpr int64_t kPageBytes = 4096;
inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

// Readable bytes behind every block: a kernel may load a whole vector at the tail of a tensor. They are never
// written through that block, and their value means nothing.
inline constexpr int64_t kSlackBytes = 64;

// `bytes` (a positive multiple of kPageBytes) of zeroed memory followed by at least kSlackBytes readable bytes, or
// null when the host refuses. From kHugePageBytes on: aligned to it and advised to use huge pages (a first touch then
// costs an eighth); below: aligned to kPageBytes. Nothing is resident until touched.
void* MapPages(int64_t bytes);

// Returns what MapPages(bytes) gave.
void UnmapPages(void* data, int64_t bytes);

}  // namespace openneuron::device
