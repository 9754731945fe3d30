// Pages from mmap, trimmed to the alignment that huge pages need.
#include "device/mapping.h"

#include <sys/mman.h>

namespace openneuron::device {

void* MapPages(int64_t bytes) {
  const bool huge = bytes >= kHugePageBytes;
  // The slack is a page of its own; untouched, it is the kernel's shared zero page.
  const int64_t used = bytes + kPageBytes;
  const int64_t mapped = huge ? used + kHugePageBytes - kPageBytes : used;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  if (!huge) return raw;

  const auto begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t data = (begin + kHugePageBytes - 1) & ~static_cast<uintptr_t>(kHugePageBytes - 1);
  const uintptr_t end = data + used;
  if (data > begin) munmap(raw, data - begin);
  if (begin + mapped > end) munmap(reinterpret_cast<void*>(end), begin + mapped - end);
  madvise(reinterpret_cast<void*>(data), bytes, MADV_HUGEPAGE);  // Advice: memory is good without it.
  return reinterpret_cast<void*>(data);
}

void UnmapPages(void* data, int64_t bytes) { munmap(data, bytes + kPageBytes); }

}  // namespace openneuron::device
