#pragma once

#include <weir/chain_options.hpp>
#include <weir/chain_permit.hpp>
#include <weir/detail/chain/entry_list.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/chain/link_box.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/start.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/error.hpp>
#include <weir/limiter.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/assert.hpp>
#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir {

namespace detail {

template <class Core, class Executor, class Who>
chain_link<Core, Executor, Who> const& link_of(chain_link<Core, Executor, Who> const& link) {
    return link;
}
template <class Limiter>
    requires requires(Limiter const& limiter) { limiter.with(); }
auto link_of(Limiter const& limiter) {
    return limiter.with();
}

/// A limiter, or what its `with` returns.
template <class T>
concept chainable = requires(T const& member) { detail::link_of(member); };
template <chainable T>
using link_of_t = std::remove_cvref_t<decltype(detail::link_of(std::declval<T const&>()))>;

/// The links of a chain whose limiters are known when it is compiled.
template <class... Links>
class link_tuple {
    using home_type = std::tuple_element_t<0, std::tuple<Links...>>;

public:
    using core_type = typename home_type::core_type;
    using executor_type = typename home_type::executor_type;
    using permit_type = chain_permit<sizeof...(Links)>;
    using kept_entries = entry_list<sizeof...(Links)>;

    static constexpr std::size_t most = sizeof...(Links);

    explicit link_tuple(Links... links) : links_(std::move(links)...) {}

    [[nodiscard]] auto const& home() const noexcept { return std::get<0>(links_).handle(); }
    [[nodiscard]] auto members() noexcept {
        return std::apply([](auto&... each) { return std::array<chain_member*, most>{&each...}; },
                          links_);
    }

private:
    std::tuple<Links...> links_;
};

/// A link with a key that takes no more than a string.
template <class Executor>
using any_link_box =
    link_box<sizeof(Executor) + 4 * sizeof(void*) + sizeof(std::string) + sizeof(std::uint64_t)>;

/// The links of a chain whose limiters are known when it runs: at least one, when it is used. It has room for `inline_links`;
/// for more it makes an allocation.
template <class Executor, std::size_t inline_links>
class link_list {
public:
    using core_type = chain_core;
    using executor_type = Executor;
    using permit_type = any_chain_permit;
    // While it waits it has memory for as many as there are.
    using kept_entries = std::vector<chain_entry>;

    static constexpr std::size_t most = most_chained;

    void add(any_link_box<Executor> link, Executor const& ex) {
        if (links_.empty())
            home_.emplace(limiter_handle<chain_core, Executor>{link.get().share(), ex});
        if (links_.size() == inline_links)
            links_.reserve(most);
        links_.push_back(std::move(link));
    }
    [[nodiscard]] std::size_t size() const noexcept { return links_.size(); }

    [[nodiscard]] auto const& home() const noexcept { return *home_; }
    [[nodiscard]] auto members() noexcept {
        boost::container::static_vector<chain_member*, most> all;
        for (auto const& link : links_)
            all.push_back(&link.get());
        return all;
    }

private:
    boost::container::small_vector<any_link_box<Executor>, inline_links> links_;
    std::optional<limiter_handle<chain_core, Executor>> home_;
};

/// What can be done with a chain of these links.
template <class Links>
class chain_of {
    using signature = chain_signature<Links>;
    using start_type = starts_to_enter_chain<Links>;
    using start_here_type = starts_to_enter_chain<Links, Links*>;
    using handle_type = limiter_handle<typename Links::core_type, typename Links::executor_type>;

public:
    using executor_type = typename Links::executor_type;
    using permit_type = typename Links::permit_type;

    /// That of the first limiter.
    [[nodiscard]] executor_type get_executor() const noexcept { return home().executor; }

    /// All now, or none: like `basic_limiter::try_enter`.
    permit_type try_enter(error_code& ec) noexcept {
        chain_entries asked(links_);
        auto const answer = try_chain(asked.used());
        ec = answer.error;
        return answer.granted ? permit_type(asked.used(), asked.named())
                              : permit_type(answer.rejected);
    }
    permit_type try_enter() noexcept {
        error_code ignored;
        return try_enter(ignored);
    }

    /// Waits until all limiters let it go, for as long as the patience lasts, in a coroutine on any executor. Throws
    /// `chain_rejection`. The chain must exist until the awaitable is awaited.
    [[nodiscard]] auto enter(patience wait = {}) { return enter_within({.length = wait}); }
    /// The same until an instant of the clock of the first limiter.
    template <class Clock, class Duration>
    [[nodiscard]] auto enter_until(std::chrono::time_point<Clock, Duration> deadline) {
        return enter_within(wait_until(deadline));
    }

    /// The same with a completion token: `void(error_code, permit_type)`. On an error the permit is empty, and
    /// says which limiter has rejected, and when to come back, if that is known.
    template <boost::asio::completion_token_for<void(error_code, permit_type)> Token>
    auto async_enter(patience wait, Token&& token) {
        return boost::asio::async_initiate<Token, void(error_code, permit_type)>(
            initiation<typename Links::core_type, executor_type, signature>(
                home().core, home().executor),
            token, start_type(links_, options_, {.length = wait}));
    }
    template <boost::asio::completion_token_for<void(error_code, permit_type)> Token>
    auto async_enter(Token&& token) {
        return async_enter(patience(), std::forward<Token>(token));
    }
    /// Without a token it is an operation to be awaited, in a coroutine on any executor.
    [[nodiscard]] auto async_enter(patience wait = {}) {
        return enter_operation<handle_type, start_type>(
            home(), start_type(links_, options_, {.length = wait}));
    }

    /// Enters, calls `f()`, leaves, and returns what `f` has returned, like `basic_limiter::run`.
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, patience wait = {}) {
        return run_by_reference(f, wait);
    }

private:
    [[nodiscard]] handle_type const& home() const noexcept { return links_.home(); }

    [[nodiscard]] auto enter_within(wait_limit const& limit) {
        enter_operation<handle_type const*, start_here_type> operation(
            &home(), start_here_type(&links_, options_, limit));
        auto coroutine = await_enter(operation);
        return enter_awaitable<handle_type const*, executor_type, start_here_type>(
            std::move(operation), std::move(coroutine));
    }
    static boost::asio::awaitable<permit_type, executor_type> await_enter(
        enter_operation<handle_type const*, start_here_type> operation) {
        co_return co_await std::move(operation);
    }

    template <class F, class Outcome = outcome_of<std::invoke_result_t<F&>, executor_type>>
    boost::asio::awaitable<typename Outcome::type, typename Outcome::executor> run_by_reference(
        F& f, patience wait) {
        auto const permit = co_await enter(wait);
        if constexpr (Outcome::awaited)
            co_return co_await f();
        else
            co_return f();
    }

protected:
    chain_of(Links links, chain_options const& options)
        : links_(std::move(links)), options_(options) {
        validate(options);
    }
    ~chain_of() = default;
    chain_of(chain_of const&) = default;
    chain_of(chain_of&&) = default;
    chain_of& operator=(chain_of const&) = default;
    chain_of& operator=(chain_of&&) = default;

    Links links_;

private:
    chain_options options_;
};

}  // namespace detail

/// Several limiters that let a request go together: all of them, or none.
///
///     weir::seats kitchen{ctx, {.seats = 20}};
///     weir::token_bucket global{ctx, {.rate = {1000, 1s}, .burst = 100}};
///     weir::keyed<std::uint64_t, weir::policy::token_bucket> per_client{ctx, {.rate = {10, 1s}}};
///
///     asio::awaitable<void> serve(std::uint64_t client) {
///         weir::chain door{global, per_client.with(client), kitchen};
///         auto turn = co_await door.enter(1s);   // waits for up to a second, for all of them
///         co_await cook();
///     }                                          // all permits leave
///
/// A limiter stands for one permit of it; `limiter.with(n)` asks for more, and `keyed.with(key, n)` is one key.
/// A limiter that is named twice is asked for the sum. The limiters may have different executors and
/// contexts, and different chains may name them in any order. Up to 16 can be in a chain, but none that is
/// shared by a server, whose decision does not fit under a lock. For several rules over the same callers there
/// is `policy::all`, which takes one lock.
///
/// While it waits a chain holds nothing. It stands in the line of one limiter at a time: of one that does not let
/// it go. There it is like any other request, in the place that its arrival has given it. When its turn
/// comes there, either all limiters let it go, or it moves to the line of another one that does not, where it
/// stands as if it had waited there all along. So no request is held up by a chain that waits for another
/// limiter: `try_enter` and `enter` of a limiter go by its own line. But a chain that asks a limiter for more
/// than there is holds up those behind it, as any request does, whatever its other limiters say.
///
/// Order: at each limiter, requests that stand in line are granted in the order in which they came, chains or
/// not, and chains over the same limiters are granted in the order in which they came. Where the queue of a
/// limiter has another order than `fifo`, that order is one of the other requests alone, and says which of them is
/// next. A chain goes before that one if the chain came first, otherwise after it: so it goes before all that came
/// after it, newcomers included, whatever their class, key or partition. A chain that comes overtakes nobody.
/// A chain is not dropped for a newcomer by `when_full::evict_oldest`, nor by `queue_order::codel`. For a chain that
/// comes `evict_oldest` drops whom it drops for a request that says nothing of its `standing`.
/// What becomes due at the same instant at different limiters is decided in an order that is not specified, and
/// that may change from one run to the next: it depends on their addresses, and on the seed of `keyed`.
///
/// The wait is bounded. Two limiters may never have room at the same instant; then a chain is passed, again and
/// again. After `chain_options::passes` turns that it has lost it is overdue, and the oldest chain that is
/// overdue reserves its limiters: for `chain_options::reserve_for`, T, at the most, no request behind it is
/// granted at any of them. It takes nothing in advance. Suppose that each limiter, while none behind the chain
/// is granted, needs at most F to serve those before it and to have room for it: for seats that is their
/// waits and the longest hold, for rates the time in which so many permits come. If F <= T, and i chains wait
/// that are older and share a limiter with it, or with one that does, then it waits for at most
///
///     (i + 1) * ((passes + 1) * F + T).
///
/// If a permit is held for longer than T there is no such bound: T is how long one that is stuck may keep other
/// limiters idle.
///
/// Checks are those of `basic_limiter`, each over all limiters before the next one. The patience of a chain that
/// names none is that of its first limiter, which is also where its handler runs if that has no executor of
/// its own. The queue of the limiter in whose line it would stand must have a place for it; later it moves to
/// the line of others as it must. A rejection names the limiter that has rejected, `chain_permit::rejected_by`, and
/// is counted there; a grant is counted at each.
///
/// Threads, cancellation and completion are as in `basic_limiter`. While a chain waits, each of its limiters
/// keeps its context running, and `async_drain` of each waits for it. If one of them is closed or destroyed, or
/// its context ends, the chain is rejected with `errc::closed`; if it is the context of the first one, the
/// handler is destroyed, uncalled. A chain keeps what it needs of its limiters, which may be destroyed before.
///
/// A chain without an operation is a value: it may be made for one request, or used for many, on several threads
/// at the same time.
template <class... Links>
class chain : public detail::chain_of<detail::link_tuple<Links...>> {
    static_assert(sizeof...(Links) >= 1 && sizeof...(Links) <= detail::most_chained);
    using base = detail::chain_of<detail::link_tuple<Links...>>;

public:
    /// Of limiters, or of what their `with` returns. Throws `std::invalid_argument` if an option is nonsense.
    template <detail::chainable... Limiters>
    explicit chain(chain_options const& options, Limiters const&... limiters)
        : base(detail::link_tuple<Links...>(detail::link_of(limiters)...), options) {}
    template <detail::chainable... Limiters>
    explicit chain(Limiters const&... limiters) : chain(chain_options(), limiters...) {}
};

template <detail::chainable... Limiters>
chain(Limiters const&...) -> chain<detail::link_of_t<Limiters>...>;
template <detail::chainable... Limiters>
chain(chain_options const&, Limiters const&...) -> chain<detail::link_of_t<Limiters>...>;

/// A limiter, or what its `with` returns, as a member of an `any_chain`, whatever its kind. It may be made once, for
/// many chains, and used on several threads; it keeps what it needs of the limiter. It makes no allocation, unless the key
/// of a `keyed` does when it is copied, or takes more room than a `std::string`.
template <class Executor>
class basic_any_link {
public:
    template <detail::chainable Limiter>
        requires std::convertible_to<typename detail::link_of_t<Limiter>::executor_type, Executor>
    basic_any_link(Limiter const& limiter) : basic_any_link(0, detail::link_of(limiter)) {}

private:
    template <class, std::size_t>
    friend class basic_any_chain;

    template <class Link>
    basic_any_link(int, Link link) : executor_(link.handle().executor), box_(std::move(link)) {}

    Executor executor_;
    detail::any_link_box<Executor> box_;
};

using any_link = basic_any_link<boost::asio::any_io_executor>;

/// A `chain` whose limiters are chosen at run time, for instance by a configuration. The documentation of `chain` applies. A
/// request that does not wait makes no allocation if the chain has at most `inline_links` limiters, and one otherwise. The
/// chain takes about 100 bytes for each of the `inline_links`, and so does each request that waits.
///
///     weir::any_chain door{kitchen.with(2)};
///     if (client)
///         door.add(per_client.with(*client));
///     weir::any_chain_permit turn = co_await door.enter(1s);
///
/// Preconditions: no more than 16 limiters; at least one when it is used.
template <class Executor, std::size_t inline_links = 4>
class basic_any_chain : public detail::chain_of<detail::link_list<Executor, inline_links>> {
    using base = detail::chain_of<detail::link_list<Executor, inline_links>>;

public:
    /// Throws `std::invalid_argument` if an option is nonsense.
    explicit basic_any_chain(chain_options const& options = {}) : base({}, options) {}
    basic_any_chain(std::initializer_list<basic_any_link<Executor>> links,
                    chain_options const& options = {})
        : base({}, options) {
        for (auto const& link : links)
            add(link);
    }

    void add(basic_any_link<Executor> link) {
        BOOST_ASSERT(size() < detail::most_chained);
        this->links_.add(std::move(link.box_), link.executor_);
    }
    [[nodiscard]] std::size_t size() const noexcept { return this->links_.size(); }
};

using any_chain = basic_any_chain<boost::asio::any_io_executor>;

}  // namespace weir
