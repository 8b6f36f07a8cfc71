#pragma once

#include <weir/detail/fair_queue.hpp>

#include "stand_in.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// A `fair_queue` and the requests in it.
namespace support::fair {

using namespace std::chrono_literals;
using weir::amount;
using weir::detail::operation;

class guest final : public support::stand_in {
public:
    guest(int i, weir::request const& r, weir::time_point when) : index(i), asked(r) {
        ask_for(r);
        since = when;
        number = static_cast<std::uint64_t>(i) + 1;
    }
    int index;
    weir::request asked;
};

inline weir::time_point at(int seconds) {
    return weir::time_point(1h + seconds * 1s);
}

struct line {
    explicit line(weir::duration ageing = 1s) : queue({.ageing = ageing}) {}
    ~line() {
        while (auto* const op = queue.oldest())
            queue.erase(*op);
    }
    guest& come(weir::request const& r, weir::time_point when = at(0)) {
        guests.push_back(std::make_unique<guest>(static_cast<int>(guests.size()), r, when));
        queue.prepare(*guests.back());
        queue.push(*guests.back());
        return *guests.back();
    }
    guest& come(std::uint64_t flow, amount n = 1) { return come(weir::request(n, {.flow = flow})); }
    guest* next() const { return static_cast<guest*>(queue.next({})); }
    void serve(operation& op) { serve(op, op.count); }
    void serve(operation& op, amount n) {
        queue.grant(op, n, {});
        queue.erase(op);
    }
    // Returns the flows in the order of service, as letters.
    std::string serve_all() {
        std::string order;
        while (auto* const op = next()) {
            order += static_cast<char>(op->asked.flow());
            serve(*op);
        }
        return order;
    }
    std::string making_way(weir::request const& r) const {
        std::string order;
        for (auto* op = queue.makes_way(r, nullptr); op; op = queue.makes_way(r, op))
            order += std::to_string(static_cast<guest&>(*op).index) + " ";
        return order;
    }

    weir::detail::fair_queue queue;
    std::vector<std::unique_ptr<guest>> guests;
};

inline weir::request of(char flow, amount n = 1, int weight = 1, int priority = 3) {
    return {n, {.priority = priority, .flow = static_cast<std::uint64_t>(flow), .weight = weight}};
}

}  // namespace support::fair
