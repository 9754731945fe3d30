// The inner loops of random fills, compiled once per ISA; what random.cc calls them through.
// Included by the ISA-specific objects, so it includes nothing that defines an inline function.
#pragma once

#include <cstdint>

namespace openneuron::kernels {

// Where the words come from. The stream is cut into tiles of 1024 elements; see random.cc.
struct RandomTile {
  uint64_t seed;
  uint64_t offset;
  int64_t tile;
  int64_t n;  // elements wanted, at most 1024; up to 1024 are written
};

struct RandomKernels {
  // In [from, to); the fraction has `digits` binary digits, at most 24 and 53.
  void (*uniform32)(float* out, RandomTile tile, int digits, float from, float to);
  void (*uniform64)(double* out, RandomTile tile, double from, double to);
  void (*normal32)(float* out, RandomTile tile, float mean, float deviation);
  void (*normal64)(double* out, RandomTile tile, double mean, double deviation);
  // At least `least`.
  void (*exponential32)(float* out, RandomTile tile, float lambda, float least);
  void (*exponential64)(double* out, RandomTile tile, double lambda, double least);
  // 1 where a 32-bit word is below `threshold`.
  void (*below)(uint8_t* out, RandomTile tile, uint64_t threshold);
  // from + a 64-bit word modulo `range`; the whole word if `range` is 0.
  void (*integers)(int64_t* out, RandomTile tile, int64_t from, uint64_t range);
};

void FillRandom_baseline(RandomKernels& table);
void FillRandom_avx2(RandomKernels& table);
void FillRandom_avx512(RandomKernels& table);

}  // namespace openneuron::kernels
