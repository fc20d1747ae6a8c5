// SPDX-License-Identifier: Apache-2.0
// Marks functions that also compile for a GPU. Includes nothing, so that a host build needs no CUDA header.
#pragma once

#if defined(__CUDACC__)
#define MOK_HOST_DEVICE __host__ __device__
#else
#define MOK_HOST_DEVICE
#endif
