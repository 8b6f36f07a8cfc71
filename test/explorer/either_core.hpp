#pragma once

#include <weir/detail/core_calls.hpp>

#include "host.hpp"
#include "simulation.hpp"

#include <memory>
#include <utility>
#include <variant>

namespace explorer {

/// A core with one of these rooms, which is selected when the world is made, for a world of different ones.
template <class... Rooms>
class either_core {
    using cores = std::variant<weir::detail::core<Rooms, counting_host>*...>;

public:
    /// The arguments of a new core. It belongs to `self`, which outlives it.
    struct options_type {
        either_core* self;
        std::variant<typename Rooms::options_type...> of_room;
    };

    /// The result lives as long as the core itself.
    [[nodiscard]] static std::shared_ptr<either_core> create(options_type const& options,
                                                             weir::queue_options const& queueing,
                                                             simulation& world, station& at) {
        return make<0>(options, queueing, world, at);
    }

    /// Calls `f` with the core itself.
    template <class F>
    decltype(auto) with(F f) const {
        return std::visit([&](auto* core) -> decltype(auto) { return f(*core); }, core_);
    }

    // The interface of `weir::detail::core`.

    void cancel() {
        with([](auto& c) { c.cancel(); });
    }
    void shut_down() {
        with([](auto& c) { c.shut_down(); });
    }
    void close() {
        with([](auto& c) { c.close(); });
    }
    void abandon() {
        with([](auto& c) { c.abandon(); });
    }
    [[nodiscard]] bool drain(weir::detail::operation& op) {
        return with([&](auto& c) { return c.drain(op); });
    }
    void connect(weir::detail::cancel_link& link, weir::detail::operation& op) {
        with([&](auto& c) { c.connect(link, op); });
    }
    void disconnect(weir::detail::operation& op) {
        with([&](auto& c) { c.disconnect(op); });
    }
    void disconnect(weir::detail::cancel_link& link) {
        with([&](auto& c) { c.disconnect(link); });
    }
    void cancel(weir::detail::cancel_link& link) {
        with([&](auto& c) { c.cancel(link); });
    }

private:
    template <std::size_t i>
    static std::shared_ptr<either_core> make(options_type const& options,
                                             weir::queue_options const& queueing, simulation& world,
                                             station& at) {
        if constexpr (i + 1 != sizeof...(Rooms)) {
            if (options.of_room.index() != i)
                return make<i + 1>(options, queueing, world, at);
        }
        using core = std::remove_pointer_t<std::variant_alternative_t<i, cores>>;
        auto made = core::create(std::get<i>(options.of_room), queueing, world, at);
        options.self->core_.template emplace<i>(made.get());
        return {std::move(made), options.self};
    }

    cores core_;
};

}  // namespace explorer
