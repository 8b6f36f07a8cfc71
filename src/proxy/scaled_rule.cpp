#include "scaled_rule.hpp"

#include <weir/amount.hpp>
#include <weir/rate.hpp>

#include <algorithm>
#include <variant>

namespace proxy {
namespace {

class scaling {
public:
    explicit scaling(int percent) noexcept : percent_(percent) {}

    void operator()(weir::all_options& o) const {
        for (auto& part : o.parts)
            std::visit(*this, part.options);
    }
    template <class Options>
    void operator()(Options& o) const {
        if constexpr (requires { o.seats; })
            multiply(o.seats);
        if constexpr (requires { o.limit; })
            multiply(o.limit);
        if constexpr (requires { o.offences; })
            multiply(o.offences);
        if constexpr (requires { o.rate; }) {
            auto permits = o.rate.permits();
            multiply(permits);
            o.rate = weir::rate(permits, o.rate.period());
        }
        if constexpr (requires { o.capacity; })
            multiply(o.capacity);
        if constexpr (requires { o.burst; }) {
            for (auto* const some : {&o.burst, &o.initial})
                if (*some)
                    multiply(**some);
        }
    }

private:
    void multiply(weir::amount& n) const {
        n = std::min((n * percent_ + 99) / 100, weir::max_amount);
    }

    weir::amount percent_;
};

}  // namespace

weir::limiter_config scaled(weir::limiter_config const& rule, int percent) {
    auto larger = rule;
    std::visit(scaling(percent), larger.options);
    return larger;
}

}  // namespace proxy
