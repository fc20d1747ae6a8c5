// SPDX-License-Identifier: Apache-2.0
#include "faulty_layer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "faulty_expert.h"

namespace mok::reference {
namespace {

Floats to_float(const std::vector<double>& values) {
  Floats result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](double v) { return static_cast<float>(v); });
  return result;
}

class FaultyLayer {
 public:
  FaultyLayer(const Problem& problem, Fault fault) : p_(problem), fault_(fault), math_(problem, fault) {}

  Candidate run(WeightGradients weight_gradients) {
    find_middle_route();
    const Floats gate = to_float(p_.gate), up = to_float(p_.up), down = to_float(p_.down);
    result_.d_gate.resize(gate.size());
    result_.d_up.resize(up.size());
    result_.d_down.resize(down.size());
    rows_seen_.assign(index(p_.experts), 0);
    result_.ranks.resize(p_.ranks.size());
    for (std::size_t rank = 0; rank < p_.ranks.size(); ++rank) rank_pass(rank, gate, up, down);
    if (fault_ == Fault::row_shifted) exchange_with_neighbour();
    for (std::size_t rank = 0; rank < p_.ranks.size(); ++rank) combine(rank);
    if (weight_gradients == WeightGradients::bfloat16) round_weight_gradients();
    return std::move(result_);
  }

 private:
  struct Route {
    std::size_t rank;
    std::int64_t slot;
    std::int32_t expert;
  };
  struct Slots {
    Floats y, d_x, y_shared, d_x_shared;
  };

  bool has(Fault fault) const { return fault_ == fault; }
  bool is_middle(std::size_t rank, std::int64_t slot) const {
    return !routes_.empty() && routes_[middle_].rank == rank && routes_[middle_].slot == slot;
  }

  void find_middle_route() {
    for (std::size_t rank = 0; rank < p_.ranks.size(); ++rank) {
      const auto& experts = p_.ranks[rank].topk_experts;
      for (std::size_t slot = 0; slot < experts.size(); ++slot) {
        if (experts[slot] >= 0) routes_.push_back({rank, static_cast<std::int64_t>(slot), experts[slot]});
      }
    }
    middle_ = routes_.size() / 2;
  }

  void rank_pass(std::size_t rank, const Floats& gate, const Floats& up, const Floats& down) {
    const RankInput& input = p_.ranks[rank];
    const Floats x = to_float(input.x), d_out = to_float(input.grad_output);
    const Floats shared_gate = to_float(p_.shared_gate), shared_up = to_float(p_.shared_up),
                 shared_down = to_float(p_.shared_down);
    auto& result = result_.ranks[rank];
    result.d_shared_gate.resize(shared_gate.size());
    result.d_shared_up.resize(shared_up.size());
    result.d_shared_down.resize(shared_down.size());
    result.d_router_weights.assign(index(input.tokens * p_.topk), 0.0f);
    const std::size_t tokens = index(input.tokens * p_.hidden), slots = tokens * index(p_.topk);
    const float stale = std::numeric_limits<float>::quiet_NaN();
    slots_.push_back({Floats(slots, stale), Floats(slots, stale), Floats(tokens), Floats(tokens)});
    Slots& own = slots_.back();
    const ExpertView shared = {shared_gate.data(),        shared_up.data(),
                               shared_down.data(),        result.d_shared_gate.data(),
                               result.d_shared_up.data(), result.d_shared_down.data(),
                               p_.shared_intermediate};
    float unused = 0.0f;
    for (std::int64_t t = 0; t < input.tokens; ++t) {
      const std::int64_t row = t * p_.hidden;
      const bool missing = has(Fault::shared_gradient_row_missing) && t == input.tokens / 2;
      if (p_.shared_intermediate > 0) {
        math_.row(&x[index(row)], &d_out[index(row)], 1.0f, shared, {false, missing},
                  &own.y_shared[index(row)], &own.d_x_shared[index(row)], unused);
      }
      for (std::int64_t slot = t * p_.topk; slot < (t + 1) * p_.topk; ++slot) {
        const std::int32_t e = input.topk_experts[index(slot)];
        if (e < 0) continue;
        const std::int64_t offset = e * p_.intermediate * p_.hidden;
        const ExpertView expert = {gate.data() + offset,
                                   up.data() + offset,
                                   down.data() + offset,
                                   result_.d_gate.data() + offset,
                                   result_.d_up.data() + offset,
                                   result_.d_down.data() + offset,
                                   p_.intermediate};
        const bool in_tile = e == routes_[middle_].expert && rows_seen_[index(e)]++ < kFaultTile;
        const bool row_missing = has(Fault::gradient_row_missing) && is_middle(rank, slot);
        math_.row(&x[index(row)], &d_out[index(row)], static_cast<float>(input.router_weights[index(slot)]),
                  expert, {in_tile, row_missing}, &own.y[index(slot * p_.hidden)],
                  &own.d_x[index(slot * p_.hidden)], result.d_router_weights[index(slot)]);
      }
    }
  }

  // With the expert's next row; the last one with the first, an only one with none.
  void exchange_with_neighbour() {
    for (std::size_t distance = 1; distance < routes_.size(); ++distance) {
      const Route& other = routes_[(middle_ + distance) % routes_.size()];
      if (other.expert != routes_[middle_].expert) continue;
      float* a = &slots_[routes_[middle_].rank].y[index(routes_[middle_].slot * p_.hidden)];
      float* b = &slots_[other.rank].y[index(other.slot * p_.hidden)];
      std::swap_ranges(a, a + p_.hidden, b);
      return;
    }
  }

  void combine(std::size_t rank) {
    const RankInput& input = p_.ranks[rank];
    Slots& slots = slots_[rank];
    for (std::int64_t slot = 0; slot < input.tokens * p_.topk; ++slot) {
      const bool dropped = input.topk_experts[index(slot)] < 0;
      if (dropped && !has(Fault::dropped_route_times_zero)) continue;
      if (has(Fault::route_left_out) && is_middle(rank, slot)) continue;
      float w = dropped ? 0.0f : static_cast<float>(input.router_weights[index(slot)]);
      if (has(Fault::weight_applied_twice)) w *= w;
      const std::size_t token = index(slot / p_.topk * p_.hidden), route = index(slot * p_.hidden);
      for (std::size_t h = 0; h < index(p_.hidden); ++h) {
        slots.y_shared[token + h] = std::fma(w, slots.y[route + h], slots.y_shared[token + h]);
        if (!dropped) slots.d_x_shared[token + h] += slots.d_x[route + h];
      }
    }
    for (Floats* sum : {&slots.y_shared, &slots.d_x_shared}) {
      std::transform(sum->begin(), sum->end(), sum->begin(), float_to_bf16);
    }
    result_.ranks[rank].out = std::move(slots.y_shared);
    result_.ranks[rank].d_x = std::move(slots.d_x_shared);
  }

  void round_weight_gradients() {
    std::vector<Floats*> gradients = {&result_.d_gate, &result_.d_up, &result_.d_down};
    for (auto& rank : result_.ranks) {
      gradients.insert(gradients.end(), {&rank.d_shared_gate, &rank.d_shared_up, &rank.d_shared_down});
    }
    for (Floats* g : gradients) std::transform(g->begin(), g->end(), g->begin(), float_to_bf16);
  }

  const Problem& p_;
  Fault fault_;
  FaultyExpert math_;
  std::vector<Route> routes_;
  std::size_t middle_ = 0;
  std::vector<std::int64_t> rows_seen_;
  std::vector<Slots> slots_;
  Candidate result_;
};

}  // namespace

Candidate run_faulty_layer(const Problem& problem, Fault fault, WeightGradients weight_gradients) {
  return FaultyLayer(problem, fault).run(weight_gradients);
}

}  // namespace mok::reference
