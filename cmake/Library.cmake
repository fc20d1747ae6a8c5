# SPDX-License-Identifier: Apache-2.0
# mok: the library.  mok_reference: the float64 reference, which shares no code with it.

set(src "${PROJECT_SOURCE_DIR}/src")
file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS "${src}/cpu/*.cpp" "${src}/ops/*.cpp")
file(GLOB_RECURSE other_sources CONFIGURE_DEPENDS "${src}/program/*.cpp" "${src}/group/*.cpp" "${src}/api/*.cpp")
if(NOT MOK_CUDA)
  list(FILTER other_sources EXCLUDE REGEX "/api/cuda_[^/]*$")
endif()
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS "${src}/cuda/*.cpp" "${src}/cuda/*.cu" "${src}/ops/*.cu")
file(GLOB_RECURSE reference_sources CONFIGURE_DEPENDS "${src}/reference/*.cpp")

if(kernel_sources OR other_sources)
  add_library(mok ${kernel_sources} ${other_sources})
  add_library(mok::mok ALIAS mok)
  target_compile_features(mok PUBLIC cxx_std_20)
  target_include_directories(mok PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" PRIVATE "${src}")
  target_link_libraries(
    mok
    PUBLIC Threads::Threads
    PRIVATE $<BUILD_INTERFACE:mok_flags> $<BUILD_INTERFACE:Eigen3::Eigen> $<BUILD_INTERFACE:fmt::fmt-header-only>)
  set_target_properties(mok PROPERTIES POSITION_INDEPENDENT_CODE ON VERSION ${PROJECT_VERSION}
                                       SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(MOK_CUDA)
    # No link to libcuda: what is needed of it is asked for at run time, so that the library also loads where there is
    # no driver.
    target_sources(mok PRIVATE ${cuda_sources})
    target_compile_definitions(mok PRIVATE MOK_HAS_CUDA=1)
    target_link_libraries(mok PRIVATE CUDA::cudart_static)
    # A warning, and an error with MOK_WERROR.
    if(MOK_CHECK_SPILLS)
      target_compile_options(mok PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=--warn-on-spills>")
    endif()
  endif()
else()
  message(STATUS "mok: skipped, it has no sources yet")
endif()

# The kernels alone are compiled for the machine that runs them. Eigen's inline functions have the same names for
# every -march, so the linker would keep one copy of each, for the kernels or for whoever else uses Eigen in the same
# program: slow or different bits. A namespace of its own keeps the kernels' copies apart.
set(kernel_options "$<$<NOT:$<CONFIG:Debug>>:-O3>")
if(MOK_CPU_ARCH)
  list(APPEND kernel_options "-march=${MOK_CPU_ARCH}")
endif()
set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_OPTIONS "${kernel_options}"
                                                         COMPILE_DEFINITIONS Eigen=mok_kernel_eigen)

if(reference_sources)
  add_library(mok_reference STATIC ${reference_sources})
  target_include_directories(mok_reference PUBLIC "${PROJECT_SOURCE_DIR}/include" "${src}")
  target_link_libraries(mok_reference PRIVATE mok_flags)
else()
  message(STATUS "mok_reference: skipped, it has no sources yet")
endif()
