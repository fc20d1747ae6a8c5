// SPDX-License-Identifier: Apache-2.0
#include "cpu/features.h"

namespace mok::cpu {

const char* missing_features() {
#if defined(__x86_64__) && defined(__AVX512F__)
  if (!__builtin_cpu_supports("avx512f")) {
    return "this build of the CPU backend needs AVX-512, which this processor lacks; build with "
           "-DMOK_CPU_ARCH=x86-64-v3";
  }
#elif defined(__x86_64__) && defined(__AVX2__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return "this build of the CPU backend needs AVX2 and FMA, which this processor lacks; build with "
           "-DMOK_CPU_ARCH=x86-64";
  }
#endif
  return "";
}

}  // namespace mok::cpu
