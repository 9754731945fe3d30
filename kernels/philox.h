// Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random
// numbers: as easy as 1, 2, 3", SC 2011): a block of four words is a pure function of counter and key.
// Included by files compiled for different ISAs, hence the anonymous namespace and no std headers.
#pragma once

#include <cstdint>

namespace openneuron::kernels {
namespace {

struct PhiloxBlock {
  uint32_t words[4];
};

// Integer operations on one lane only, so that a loop over counters vectorises.
inline PhiloxBlock Philox(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  uint32_t c0 = counter.words[0], c1 = counter.words[1], c2 = counter.words[2], c3 = counter.words[3];
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace
}  // namespace openneuron::kernels
