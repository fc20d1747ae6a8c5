// SPDX-License-Identifier: Apache-2.0
// Written by tools/generate_wgmma.
#pragma once

#include <cstdint>

namespace mok::cuda::ptx {

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most Pending groups are in flight.
template <int Pending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// d = a b (accumulate == 0) or d += a b: 64 x 256 x 16 bf16 into f32, both operands described in shared
/// memory. TransposeA, TransposeB: 0 = K-major, 1 = MN-major. First..First+128 are the accumulators used.
template <int TransposeA, int TransposeB, int First = 0, int Size>
__device__ __forceinline__ void wgmma_m64n256k16(float (&d)[Size], std::uint64_t a, std::uint64_t b,
                                                 std::int32_t accumulate) {
  static_assert(First + 128 <= Size);
  // clang-format off
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, accumulate, 1, 1, %131, %132;\n"
      "}\n"
      : "+f"(d[First + 0]), "+f"(d[First + 1]), "+f"(d[First + 2]), "+f"(d[First + 3]),
        "+f"(d[First + 4]), "+f"(d[First + 5]), "+f"(d[First + 6]), "+f"(d[First + 7]),
        "+f"(d[First + 8]), "+f"(d[First + 9]), "+f"(d[First + 10]), "+f"(d[First + 11]),
        "+f"(d[First + 12]), "+f"(d[First + 13]), "+f"(d[First + 14]), "+f"(d[First + 15]),
        "+f"(d[First + 16]), "+f"(d[First + 17]), "+f"(d[First + 18]), "+f"(d[First + 19]),
        "+f"(d[First + 20]), "+f"(d[First + 21]), "+f"(d[First + 22]), "+f"(d[First + 23]),
        "+f"(d[First + 24]), "+f"(d[First + 25]), "+f"(d[First + 26]), "+f"(d[First + 27]),
        "+f"(d[First + 28]), "+f"(d[First + 29]), "+f"(d[First + 30]), "+f"(d[First + 31]),
        "+f"(d[First + 32]), "+f"(d[First + 33]), "+f"(d[First + 34]), "+f"(d[First + 35]),
        "+f"(d[First + 36]), "+f"(d[First + 37]), "+f"(d[First + 38]), "+f"(d[First + 39]),
        "+f"(d[First + 40]), "+f"(d[First + 41]), "+f"(d[First + 42]), "+f"(d[First + 43]),
        "+f"(d[First + 44]), "+f"(d[First + 45]), "+f"(d[First + 46]), "+f"(d[First + 47]),
        "+f"(d[First + 48]), "+f"(d[First + 49]), "+f"(d[First + 50]), "+f"(d[First + 51]),
        "+f"(d[First + 52]), "+f"(d[First + 53]), "+f"(d[First + 54]), "+f"(d[First + 55]),
        "+f"(d[First + 56]), "+f"(d[First + 57]), "+f"(d[First + 58]), "+f"(d[First + 59]),
        "+f"(d[First + 60]), "+f"(d[First + 61]), "+f"(d[First + 62]), "+f"(d[First + 63]),
        "+f"(d[First + 64]), "+f"(d[First + 65]), "+f"(d[First + 66]), "+f"(d[First + 67]),
        "+f"(d[First + 68]), "+f"(d[First + 69]), "+f"(d[First + 70]), "+f"(d[First + 71]),
        "+f"(d[First + 72]), "+f"(d[First + 73]), "+f"(d[First + 74]), "+f"(d[First + 75]),
        "+f"(d[First + 76]), "+f"(d[First + 77]), "+f"(d[First + 78]), "+f"(d[First + 79]),
        "+f"(d[First + 80]), "+f"(d[First + 81]), "+f"(d[First + 82]), "+f"(d[First + 83]),
        "+f"(d[First + 84]), "+f"(d[First + 85]), "+f"(d[First + 86]), "+f"(d[First + 87]),
        "+f"(d[First + 88]), "+f"(d[First + 89]), "+f"(d[First + 90]), "+f"(d[First + 91]),
        "+f"(d[First + 92]), "+f"(d[First + 93]), "+f"(d[First + 94]), "+f"(d[First + 95]),
        "+f"(d[First + 96]), "+f"(d[First + 97]), "+f"(d[First + 98]), "+f"(d[First + 99]),
        "+f"(d[First + 100]), "+f"(d[First + 101]), "+f"(d[First + 102]), "+f"(d[First + 103]),
        "+f"(d[First + 104]), "+f"(d[First + 105]), "+f"(d[First + 106]), "+f"(d[First + 107]),
        "+f"(d[First + 108]), "+f"(d[First + 109]), "+f"(d[First + 110]), "+f"(d[First + 111]),
        "+f"(d[First + 112]), "+f"(d[First + 113]), "+f"(d[First + 114]), "+f"(d[First + 115]),
        "+f"(d[First + 116]), "+f"(d[First + 117]), "+f"(d[First + 118]), "+f"(d[First + 119]),
        "+f"(d[First + 120]), "+f"(d[First + 121]), "+f"(d[First + 122]), "+f"(d[First + 123]),
        "+f"(d[First + 124]), "+f"(d[First + 125]), "+f"(d[First + 126]), "+f"(d[First + 127])
      : "l"(a), "l"(b), "r"(accumulate), "n"(TransposeA), "n"(TransposeB));
  // clang-format on
}

/// d = a b (accumulate == 0) or d += a b: 64 x 128 x 16 bf16 into f32, both operands described in shared
/// memory. TransposeA, TransposeB: 0 = K-major, 1 = MN-major. First..First+64 are the accumulators used.
template <int TransposeA, int TransposeB, int First = 0, int Size>
__device__ __forceinline__ void wgmma_m64n128k16(float (&d)[Size], std::uint64_t a, std::uint64_t b,
                                                 std::int32_t accumulate) {
  static_assert(First + 64 <= Size);
  // clang-format off
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, accumulate, 1, 1, %67, %68;\n"
      "}\n"
      : "+f"(d[First + 0]), "+f"(d[First + 1]), "+f"(d[First + 2]), "+f"(d[First + 3]),
        "+f"(d[First + 4]), "+f"(d[First + 5]), "+f"(d[First + 6]), "+f"(d[First + 7]),
        "+f"(d[First + 8]), "+f"(d[First + 9]), "+f"(d[First + 10]), "+f"(d[First + 11]),
        "+f"(d[First + 12]), "+f"(d[First + 13]), "+f"(d[First + 14]), "+f"(d[First + 15]),
        "+f"(d[First + 16]), "+f"(d[First + 17]), "+f"(d[First + 18]), "+f"(d[First + 19]),
        "+f"(d[First + 20]), "+f"(d[First + 21]), "+f"(d[First + 22]), "+f"(d[First + 23]),
        "+f"(d[First + 24]), "+f"(d[First + 25]), "+f"(d[First + 26]), "+f"(d[First + 27]),
        "+f"(d[First + 28]), "+f"(d[First + 29]), "+f"(d[First + 30]), "+f"(d[First + 31]),
        "+f"(d[First + 32]), "+f"(d[First + 33]), "+f"(d[First + 34]), "+f"(d[First + 35]),
        "+f"(d[First + 36]), "+f"(d[First + 37]), "+f"(d[First + 38]), "+f"(d[First + 39]),
        "+f"(d[First + 40]), "+f"(d[First + 41]), "+f"(d[First + 42]), "+f"(d[First + 43]),
        "+f"(d[First + 44]), "+f"(d[First + 45]), "+f"(d[First + 46]), "+f"(d[First + 47]),
        "+f"(d[First + 48]), "+f"(d[First + 49]), "+f"(d[First + 50]), "+f"(d[First + 51]),
        "+f"(d[First + 52]), "+f"(d[First + 53]), "+f"(d[First + 54]), "+f"(d[First + 55]),
        "+f"(d[First + 56]), "+f"(d[First + 57]), "+f"(d[First + 58]), "+f"(d[First + 59]),
        "+f"(d[First + 60]), "+f"(d[First + 61]), "+f"(d[First + 62]), "+f"(d[First + 63])
      : "l"(a), "l"(b), "r"(accumulate), "n"(TransposeA), "n"(TransposeB));
  // clang-format on
}

/// d = a b (accumulate == 0) or d += a b: 64 x 64 x 16 bf16 into f32, both operands described in shared
/// memory. TransposeA, TransposeB: 0 = K-major, 1 = MN-major. First..First+32 are the accumulators used.
template <int TransposeA, int TransposeB, int First = 0, int Size>
__device__ __forceinline__ void wgmma_m64n64k16(float (&d)[Size], std::uint64_t a, std::uint64_t b,
                                                std::int32_t accumulate) {
  static_assert(First + 32 <= Size);
  // clang-format off
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, accumulate, 1, 1, %35, %36;\n"
      "}\n"
      : "+f"(d[First + 0]), "+f"(d[First + 1]), "+f"(d[First + 2]), "+f"(d[First + 3]),
        "+f"(d[First + 4]), "+f"(d[First + 5]), "+f"(d[First + 6]), "+f"(d[First + 7]),
        "+f"(d[First + 8]), "+f"(d[First + 9]), "+f"(d[First + 10]), "+f"(d[First + 11]),
        "+f"(d[First + 12]), "+f"(d[First + 13]), "+f"(d[First + 14]), "+f"(d[First + 15]),
        "+f"(d[First + 16]), "+f"(d[First + 17]), "+f"(d[First + 18]), "+f"(d[First + 19]),
        "+f"(d[First + 20]), "+f"(d[First + 21]), "+f"(d[First + 22]), "+f"(d[First + 23]),
        "+f"(d[First + 24]), "+f"(d[First + 25]), "+f"(d[First + 26]), "+f"(d[First + 27]),
        "+f"(d[First + 28]), "+f"(d[First + 29]), "+f"(d[First + 30]), "+f"(d[First + 31])
      : "l"(a), "l"(b), "r"(accumulate), "n"(TransposeA), "n"(TransposeB));
  // clang-format on
}

}  // namespace mok::cuda::ptx
