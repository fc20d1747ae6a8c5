# SPDX-License-Identifier: Apache-2.0
# mok_flags: how every target of ours is compiled. It is never installed, so link it as $<BUILD_INTERFACE:mok_flags>.

add_library(mok_flags INTERFACE)
target_include_directories(mok_flags INTERFACE "${PROJECT_SOURCE_DIR}/include")

# -ffp-contract=off: whether a*b+c is fused must be written in the source (std::fma), never left to the compiler.
# Otherwise the same expression could round differently in two files, on two machines or in two compiler versions,
# and equal inputs would no longer give equal bits. nvcc's --fmad=false is the same promise on the device.
set(cxx_flags -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -ffp-contract=off)
set(cuda_host_flags -Wall,-Wextra,-Wshadow,-Wnon-virtual-dtor,-ffp-contract=off)
# --expt-relaxed-constexpr: constexpr functions of the standard library (std::min, std::array) may run on the device.
set(cuda_flags --fmad=false --expt-relaxed-constexpr)

if(MOK_WERROR)
  list(APPEND cxx_flags -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # What GCC guesses from the flow after inlining differs from version to version and misfires inside other
    # libraries' headers (Eigen, the standard library): worth reading, but no reason to break somebody's build.
    list(APPEND cxx_flags -Wno-error=array-bounds -Wno-error=maybe-uninitialized -Wno-error=restrict
                -Wno-error=stringop-overflow -Wno-error=stringop-overread)
    if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
      list(APPEND cxx_flags -Wno-error=dangling-reference)
    endif()
  endif()
  list(APPEND cuda_flags --Werror=all-warnings)
  string(APPEND cuda_host_flags ",-Werror")
endif()

if(MOK_SANITIZE)
  list(JOIN MOK_SANITIZE "," sanitizers)
  # GCC documents that its maybe-uninitialized warning misfires in instrumented code.
  list(APPEND cxx_flags -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer
              -Wno-maybe-uninitialized)
  target_link_options(mok_flags INTERFACE -fsanitize=${sanitizers})
  target_compile_definitions(mok_flags INTERFACE _GLIBCXX_ASSERTIONS)
endif()

target_compile_options(
  mok_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>"
                      "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags};-Xcompiler=${cuda_host_flags}>")
