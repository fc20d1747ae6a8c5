// SPDX-License-Identifier: Apache-2.0
// What a rank says to its peers in every pass: ready, how far it has come, done.
#pragma once

#include <cstdint>

#include "cpu/launch.h"
#include "cpu/waiter.h"
#include "program/task.h"

namespace mok::cpu {

/// Inputs are in symmetric memory: raises this rank's ready flag at every peer.
void publish_ready(const Launch& launch, int rank);

/// Waits until every peer is ready. What a peer pushes into this rank's slots needs no flag of its own: it
/// pushes only rows that it pulled from here behind this rank's ready flag, so that this rank's last pass is
/// over.
bool wait_for_peers(const Launch& launch, int rank, Waiter& waiter);

/// Counts a finished task that pushed to slots; the last one of a step publishes how many steps are complete.
void publish_push(const Launch& launch, int rank, const program::Task& task);

/// Waits until `steps` steps (or all that it has) of every rank have been pushed into this rank's slots.
bool wait_for_pushes(const Launch& launch, int rank, const program::Task& task, Waiter& waiter);

/// The last worker of a rank ends the pass: raises done at every peer, waits for theirs (so that no buffer is
/// reused while a peer still pulls from or pushes to it), clears the other counter set, and advances the
/// epoch.
bool leave_pass(const Launch& launch, int rank, Waiter& waiter);

}  // namespace mok::cpu
