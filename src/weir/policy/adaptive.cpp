#include <weir/policy/adaptive.hpp>

#include <type_traits>

namespace weir::policy {
namespace {

template <class Options>
sample_window window_of(Options const& o) {
    if constexpr (requires { o.ignore_below; })
        return {o.window, o.samples, o.ignore_below};
    else
        return {o.window, o.samples, duration(1)};
}

}  // namespace

adaptive::adaptive(options_type const& options)
    : algorithm_(std::visit(
          []<class Options>(Options const& o) -> algorithm {
              if constexpr (std::is_same_v<Options, aimd_options>)
                  return aimd(o);
              else if constexpr (std::is_same_v<Options, vegas_options>)
                  return vegas(o);
              else
                  return gradient2(o);
          },
          options)),
      window_(std::visit([](auto const& o) { return window_of(o); }, options)),
      most_(std::visit([](auto const& o) { return o.max; }, options)),
      seats_(std::visit([](auto const& a) { return a.seats(); }, algorithm_)) {}

void adaptive::take_over(adaptive& before, time_point now) noexcept {
    in_use_ = before.in_use_;
    seats_ = before.seats_;
    std::visit(
        [&]<class Algorithm>(Algorithm& a) {
            if (auto const* const same = std::get_if<Algorithm>(&before.algorithm_))
                a.take_over(*same);
            else
                a.start_with(before.seats_);
        },
        algorithm_);
    set_number(now);
}

adaptive::options_type adaptive::options() const {
    return std::visit([](auto const& a) { return options_type(a.options()); }, algorithm_);
}

bool adaptive::leave(amount n, ticket t, time_point now) noexcept {
    auto const code = t & code_mask;
    if (t != 0 && code != code_of(outcome::ignored)) {
        // Modulo 2^62 ns, which is 146 years.
        auto const held =
            duration(static_cast<duration::rep>((stamp(now) - (t & ~code_mask)) >> 2));
        if (auto const seen =
                window_.add(now - held, now, in_use_, code == code_of(outcome::dropped))) {
            std::visit([&](auto& a) { a.update(*seen); }, algorithm_);
            set_number(now);
        }
    }
    in_use_ -= n;
    return true;
}

ticket adaptive::merge(ticket a, ticket b, amount) noexcept {
    bool const dropped = b != 0 && (b & code_mask) == code_of(outcome::dropped);
    return dropped ? report(a, outcome::dropped) : a;
}

void adaptive::set_number(time_point now) noexcept {
    auto const next = std::visit([](auto const& a) { return a.seats(); }, algorithm_);
    if (next == seats_)
        return;
    seats_ = next;
    window_.number_changed(now);
}

}  // namespace weir::policy
