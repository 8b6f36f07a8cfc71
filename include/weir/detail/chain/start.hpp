#pragma once

#include <weir/chain_options.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/waiting_room.hpp>
#include <weir/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace weir::detail {

/// What a chain asks of each of its limiters. It does not keep `links`.
template <class... Links>
class chain_entries {
public:
    explicit chain_entries(std::tuple<Links...>& links) noexcept {
        std::array<chain_member*, sizeof...(Links)> const members = std::apply(
            [](auto&... each) { return std::array<chain_member*, sizeof...(Links)>{&each...}; },
            links);
        used_ = fill(entries_, members);
    }
    chain_entries(chain_entries const&) = delete;
    chain_entries& operator=(chain_entries const&) = delete;

    [[nodiscard]] std::span<chain_entry> used() const noexcept { return used_; }

private:
    std::array<chain_entry, sizeof...(Links)> entries_;
    std::span<chain_entry> used_;
};

/// A chain of these that waits, with all that it needs.
template <class... Links>
class linked_chain : public chain_operation {
public:
    void begin(std::tuple<Links...> const& links, chain_options const& how) {
        entries_.emplace(links_.emplace(links));
        entries = entries_->used();
        for (auto& e : entries)
            e.op = this;
        at_home = &*std::ranges::min_element(entries, {}, &chain_entry::index);
        options = how;
    }

protected:
    linked_chain() = default;
    ~linked_chain() = default;

private:
    std::optional<std::tuple<Links...>> links_;
    std::optional<chain_entries<Links...>> entries_;
};

/// `void(error_code, Permit)`: what a chain is completed with.
template <class Permit, class... Links>
struct chain_signature {
    using operation_type = linked_chain<Links...>;
    using result = Permit;

    class outcome {
    public:
        explicit outcome(operation_type& op) noexcept
            : error_(op.error), granted_(op.error ? Permit(op.refused) : Permit(op.entries)) {}

        template <class Handler>
        void give_to(Handler&& handler) {
            std::forward<Handler>(handler)(error_, std::move(granted_));
        }

    private:
        error_code error_;
        Permit granted_;
    };
};

/// Begins to wait for all limiters of a chain. `Links` is a tuple of links, or a pointer to one.
template <class Signature, class Links>
class starts_to_enter_chain {
public:
    using signature = Signature;
    using result = typename Signature::result;

    starts_to_enter_chain(Links links, chain_options const& how, wait_limit const& limit)
        : links_(std::move(links)), options_(how), limit_(limit) {}

    template <class Core>
    bool operator()(Core&, typename Signature::operation_type& op) const {
        op.begin(links(), options_);
        return enter_chain(op, limit_);
    }
    template <class Core>
    [[nodiscard]] result at_once(Core&, error_code& ec) const {
        chain_entries asked(links());
        auto const answer = enter_chain_at_once(asked.used());
        ec = answer.error;
        return answer.granted ? result(asked.used()) : result(answer.refused);
    }

private:
    [[nodiscard]] auto& links() const noexcept {
        if constexpr (std::is_pointer_v<Links>)
            return *links_;
        else
            return links_;
    }

    Links mutable links_;
    chain_options options_;
    wait_limit limit_;
};

}  // namespace weir::detail
