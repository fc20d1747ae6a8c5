# SPDX-License-Identifier: Apache-2.0
# Finds nvcc, on PATH or where the toolkit installs itself, and turns the CUDA language on.

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(MOK_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
  if(NOT MOK_NVCC)
    message(FATAL_ERROR "MOK_CUDA is on but nvcc is not there: put it on PATH or set CUDACXX.")
  endif()
  set(CMAKE_CUDA_COMPILER "${MOK_NVCC}")
endif()
# 90a, not 90: wgmma and setmaxnreg are not in the set that later GPUs keep.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a CACHE STRING "Architectures that the kernels are compiled for")
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
option(MOK_CHECK_SPILLS "Warn of kernels that spill registers to memory" ON)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR "MoK needs CUDA 13 or newer, and ${CMAKE_CUDA_COMPILER} is ${CMAKE_CUDA_COMPILER_VERSION}.")
endif()
# CMake 3.25.1 does not know yet that nvcc speaks C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
