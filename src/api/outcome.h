// SPDX-License-Identifier: Apache-2.0
// From what schedules and passes leave behind to the status that users read.
#pragma once

#include <cstdint>

#include <mok/status.h>

#include "cpu/launch.h"
#include "cuda/pipeline/control.h"
#include "program/dims.h"
#include "program/tables.h"

namespace mok::api {

/// Whether a schedule was refused and why. \param dims of the schedule.
Status routing_status(const program::ScheduleHeader& header, const program::Dims& dims, std::uint64_t epoch);

/// A wait that ran into its deadline: the CPU's workers' word for it.
Status deadline_status(const cpu::WaitFailure& failure, std::uint64_t epoch);

/// The same of a GPU. \param dims of the layer whose pass failed. \param seconds of the deadline.
Status deadline_status(const cuda::FailureRecord& record, const program::Dims& dims, double seconds);

/// \throws DeadlineExceeded: an earlier pass left this status, and nobody called reset().
[[noreturn]] void throw_unusable(const Status& status);

}  // namespace mok::api
