// SPDX-License-Identifier: Apache-2.0
// Checks the tables that the tasks are decoded from: rows, experts, tokens, and that all ranks agree.
#include <algorithm>
#include <string>
#include <vector>

#include "program/verifier_program.h"

namespace mok::program::verifier {

using std::to_string;

namespace {

class TableChecker {
 public:
  TableChecker(Program& program, Report& report) : program_(program), report_(report) {}

  void run() {
    const std::int32_t ranks = program_.ranks();
    if (ranks == 0 || program_.tables.size() != program_.dims.size()) return add(0, "has no tables");
    for (std::int32_t rank = 0; rank < ranks; ++rank) check_agreement(rank);
    if (!report_.empty() || refused()) return;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      check_sizes(rank);
      if (report_.empty()) check_tiles(rank);
      if (report_.empty()) check_tokens(rank);
    }
    if (report_.empty()) map_slots();
  }

 private:
  void add(std::int32_t rank, const std::string& what) {
    report_.add(Report::Check::tables, "rank " + to_string(rank) + " " + what + ".");
  }
  const ScheduleHeader& header(std::int32_t rank) const { return *program_.tables[rank].header; }
  bool refused() const { return header(0).refusal != Refusal::none; }

  void check_agreement(std::int32_t rank) {
    const Dims& d = program_.dims[rank];
    const Dims& first = program_.dims[0];
    if (d.rank != rank || d.ranks != program_.ranks()) add(rank, "does not know its place in the group");
    if (d.topk != first.topk || d.experts != first.experts || d.max_tokens != first.max_tokens ||
        d.hidden != first.hidden || d.minibatch_tiles != first.minibatch_tiles ||
        d.macrobatch_tiles != first.macrobatch_tiles || d.routed_capacity != first.routed_capacity) {
      add(rank, "has other sizes than rank 0");
    }
    if (d.minibatch_tiles < 1 || d.macrobatch_tiles % d.minibatch_tiles != 0 || d.experts % d.ranks != 0) {
      add(rank, "has impossible sizes");
    }
    if (header(rank).refusal != header(0).refusal)
      add(rank, "does not decide about the schedule as rank 0 does");
    if (header(rank).refusal == Refusal::none) return;
    for (int pass = 0; pass < kNumPasses; ++pass) {
      for (int role = 0; role < kNumRoles; ++role) {
        if (header(rank).num_stretches[pass][role] != 0) add(rank, "refused its schedule, but has tasks");
      }
    }
  }

  void check_sizes(std::int32_t rank) {
    const ScheduleTables& t = program_.tables[rank];
    const Dims& d = program_.dims[rank];
    std::int64_t max_steps = 0;
    for (std::int32_t q = 0; q < program_.ranks(); ++q) {
      if (t.rank_tiles[q] != header(q).num_tiles)
        add(rank, "is wrong about the tiles of rank " + to_string(q));
      max_steps = std::max(max_steps, ceil_div(header(q).num_tiles, d.minibatch_tiles));
    }
    if (header(rank).max_steps != max_steps) add(rank, "is wrong about the most steps of all ranks");
    if (header(rank).num_tiles < 0 || header(rank).num_tiles > d.capacity_tiles())
      add(rank, "has too many tiles");
    if (header(rank).num_tokens < 0 || header(rank).num_tokens > d.max_tokens)
      add(rank, "has too many tokens");
  }

  void check_tiles(std::int32_t rank) {
    const ScheduleTables& t = program_.tables[rank];
    const std::int32_t experts = program_.dims[rank].local_experts();
    if (t.first_tile[0] != 0 || t.first_tile[experts] != header(rank).num_tiles) {
      return add(rank, "has experts that do not span its tiles");
    }
    for (std::int32_t e = 0; e < experts; ++e) {
      const std::int64_t tiles = t.first_tile[e + 1] - t.first_tile[e];
      if (tiles != ceil_div<std::int64_t>(t.rows_per_expert[e], kRowTile)) {
        return add(rank, "gives local expert " + to_string(e) + " tiles that do not fit its rows");
      }
      for (std::int64_t tile = t.first_tile[e]; tile < t.first_tile[e + 1]; ++tile) {
        if (t.tile_expert[tile] != e)
          return add(rank, "names a wrong expert for row tile " + to_string(tile));
      }
    }
    for (std::int64_t row = 0; row < header(rank).num_tiles * kRowTile; ++row) {
      const bool real = row % kRowTile < program_.rows_in_tile(rank, row / kRowTile);
      const std::int32_t source = t.source_rank[row];
      const std::int32_t slot = t.source_slot[row];
      const bool in_range = source >= 0 && source < program_.ranks() && slot >= 0 &&
                            slot < header(source).num_tokens * program_.dims[rank].topk;
      if (real ? !in_range : (source != -1 || slot != -1)) {
        return add(rank, "has a wrong source for row " + to_string(row));
      }
    }
  }

  void check_tokens(std::int32_t rank) {
    if (program_.pass == Pass::recompute) return;  // no sums
    const ScheduleTables& t = program_.tables[rank];
    const std::int32_t* order = t.token_order[sum_table(program_.pass)];
    std::vector<char> seen(header(rank).num_tokens, 0);
    for (std::int64_t i = 0; i < header(rank).num_tokens; ++i) {
      if (order[i] < 0 || order[i] >= header(rank).num_tokens || seen[order[i]]++ != 0) {
        return add(rank, "has a token order that is no permutation, see place " + to_string(i));
      }
    }
  }

  /// Every route that is not dropped has exactly one row, at the owner of its expert: so that the rows pushed
  /// by all ranks, if each is pushed once, fill each slot once.
  void map_slots() {
    program_.row_of_slot.resize(program_.dims.size());
    for (std::int32_t p = 0; p < program_.ranks(); ++p) {
      program_.row_of_slot[p].resize(header(p).num_tokens * program_.dims[p].topk);
    }
    for (std::int32_t q = 0; q < program_.ranks(); ++q) {
      const ScheduleTables& t = program_.tables[q];
      for (std::int64_t row = 0; row < header(q).num_tiles * kRowTile; ++row) {
        const std::int32_t p = t.source_rank[row];
        if (p < 0) continue;
        RowAt& at = program_.row_of_slot[p][t.source_slot[row]];
        const std::int64_t expert = q * program_.dims[q].local_experts() + t.tile_expert[row / kRowTile];
        if (at.rank >= 0 || program_.tables[p].topk_experts[t.source_slot[row]] != expert) {
          return add(
              q, "has a row, " + to_string(row) + ", for a route that is another row's or another expert's");
        }
        at = {q, row};
      }
    }
    for (std::int32_t p = 0; p < program_.ranks(); ++p) {
      for (std::size_t slot = 0; slot < program_.row_of_slot[p].size(); ++slot) {
        if (program_.tables[p].topk_experts[slot] >= 0 && program_.row_of_slot[p][slot].rank < 0) {
          return add(p, "has a route, slot " + to_string(slot) + ", that no rank has a row for");
        }
      }
    }
  }

  Program& program_;
  Report& report_;
};

}  // namespace

void check_tables(Program& program, Report& report) { TableChecker(program, report).run(); }

}  // namespace mok::program::verifier
