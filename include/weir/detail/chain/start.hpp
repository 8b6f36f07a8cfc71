#pragma once

#include <weir/chain_options.hpp>
#include <weir/detail/chain/entry_list.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::inline v0_2::detail {

/// The requests of a chain to each of its limiters. It does not keep `links`. `Entries` is a list that is constructed
/// from their number, and `Links` can name its members.
template <class Entries>
class chain_entries {
public:
    template <class Links>
    explicit chain_entries(Links& links) : chain_entries(links.members()) {}
    chain_entries(chain_entries const&) = delete;
    chain_entries& operator=(chain_entries const&) = delete;

    [[nodiscard]] std::span<chain_entry> used() const noexcept { return used_; }
    /// The number of limiters that the chain names; a limiter that is named twice counts twice.
    [[nodiscard]] std::size_t named() const noexcept { return entries_.size(); }

private:
    template <std::size_t n>
    explicit chain_entries(std::array<chain_member*, n> const& members)
        : chain_entries(std::span<chain_member* const>(members)) {}
    template <std::size_t n>
    explicit chain_entries(boost::container::static_vector<chain_member*, n> const& members)
        : chain_entries(std::span<chain_member* const>(members.data(), members.size())) {}
    explicit chain_entries(std::span<chain_member* const> members)
        : entries_(members.size()), used_(fill(entries_, members)) {}

    Entries entries_;
    std::span<chain_entry> used_;
};
template <class Links>
chain_entries(Links&) -> chain_entries<entry_list<Links::most>>;

/// Requests permits of all limiters without a wait: by counting if that is possible, otherwise by `decide`, which is
/// `try_chain` or `enter_chain_at_once`.
template <class Links, class Decide>
[[nodiscard]] typename Links::permit_type enter_now(Links& links, Decide decide,
                                                    error_code& ec) noexcept {
    typename Links::permit_type permits(links.members());
    ec = {};
    if (!permits) {
        chain_entries asked(links);
        auto const answer = decide(asked.used());
        ec = answer.error;
        permits.adopt(answer, asked.used());
    }
    return permits;
}

/// A waiting chain of these links, with all data that it needs.
template <class Links>
class linked_chain : public chain_operation {
public:
    void begin(Links const& links, chain_options const& how) {
        entries_.emplace(links_.emplace(links));
        entries = entries_->used();
        named = entries_->named();
        for (auto& e : entries)
            e.op = this;
        find_home();
        options = how;
    }

protected:
    linked_chain() = default;
    ~linked_chain() = default;

private:
    std::optional<Links> links_;
    std::optional<chain_entries<typename Links::kept_entries>> entries_;
};

/// `void(error_code, Permit)`: the completion signature of a chain.
template <class Links>
struct chain_signature {
    using operation_type = linked_chain<Links>;
    using result = typename Links::permit_type;

    class outcome {
    public:
        explicit outcome(operation_type& op) noexcept
            : error_(op.error),
              granted_(op.error ? result(op.rejected) : result(op.entries, op.named, op.waited)) {}

        template <class Handler>
        void give_to(Handler&& handler) {
            std::forward<Handler>(handler)(error_, std::move(granted_));
        }

    private:
        error_code error_;
        result granted_;
    };
};

/// Begins to wait for all limiters of a chain. `Kept` is its links, or a pointer to them.
template <class Links, class Kept = Links>
class starts_to_enter_chain {
public:
    using signature = chain_signature<Links>;
    using result = typename signature::result;

    starts_to_enter_chain(Kept links, chain_options const& how, wait_limit const& limit)
        : links_(std::move(links)), options_(how), limit_(limit) {}

    template <class Core>
    bool operator()(std::shared_ptr<Core> const&, typename signature::operation_type& op) const {
        op.begin(links(), options_);
        return enter_chain(op, limit_);
    }
    template <class Core>
    [[nodiscard]] result at_once(std::shared_ptr<Core> const&, error_code& ec) const {
        return enter_now(links(), enter_chain_at_once, ec);
    }

private:
    [[nodiscard]] auto& links() const noexcept {
        if constexpr (std::is_pointer_v<Kept>)
            return *links_;
        else
            return links_;
    }

    Kept mutable links_;
    chain_options options_;
    wait_limit limit_;
};

}  // namespace weir::inline v0_2::detail
