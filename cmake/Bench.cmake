# SPDX-License-Identifier: Apache-2.0
# mok_bench: every benchmark of the CPU backend, in one executable, build/<preset>/mok_bench.
# mok_bench_c: the library as bench/gpu/bench.py loads it, build/<preset>/libmok_bench.so.

file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
if(NOT TARGET benchmark::benchmark)
  message(STATUS "mok_bench: skipped, Google Benchmark is not on this machine")
elseif(NOT bench_sources)
  message(STATUS "mok_bench: skipped, it has no sources yet")
else()
  add_executable(mok_bench ${bench_sources})
  target_include_directories(mok_bench PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(
    mok_bench PRIVATE benchmark::benchmark Eigen3::Eigen fmt::fmt-header-only $<TARGET_NAME_IF_EXISTS:mok>
                      $<TARGET_NAME_IF_EXISTS:mok_reference> mok_flags)
  set_target_properties(mok_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
endif()

if(MOK_CUDA AND TARGET mok)
  add_library(mok_bench_c SHARED "${PROJECT_SOURCE_DIR}/bench/gpu/mok_bench_c.cpp")
  target_link_libraries(mok_bench_c PRIVATE mok fmt::fmt-header-only mok_flags)
  set_target_properties(mok_bench_c PROPERTIES OUTPUT_NAME mok_bench LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  # PyTorch brings copies of some libraries into the process (the CUDA runtime, fmt): ours stay apart from them.
  target_link_options(mok_bench_c PRIVATE "-Wl,--exclude-libs,ALL")
endif()
