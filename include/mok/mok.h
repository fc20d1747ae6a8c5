// SPDX-License-Identifier: Apache-2.0
// Everything public.
#pragma once

#include <mok/backend.h>
#include <mok/bfloat16.h>
#include <mok/config.h>
#include <mok/error.h>
#include <mok/layer.h>
#include <mok/memory.h>
#include <mok/status.h>
#include <mok/tensor.h>
#include <mok/timeline.h>
#include <mok/workspace.h>
