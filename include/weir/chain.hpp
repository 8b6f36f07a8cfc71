#pragma once

#include <weir/chain_options.hpp>
#include <weir/chain_permit.hpp>
#include <weir/detail/chain/entry_list.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/chain/link_box.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/start.hpp>
#include <weir/detail/verbs.hpp>
#include <weir/error.hpp>
#include <weir/limiter.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/assert.hpp>
#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::inline v0_2 {

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

/// A limiter, or the result of its `with`.
template <class T>
concept chainable = requires(T const& member) { detail::link_of(member); };
template <chainable T>
using link_of_t = std::remove_cvref_t<decltype(detail::link_of(std::declval<T const&>()))>;

/// The links of a chain whose limiters are known at compile time.
template <class... Links>
class link_tuple {
    using home_type = std::tuple_element_t<0, std::tuple<Links...>>;

public:
    using executor_type = typename home_type::executor_type;
    using clock_type = typename home_type::core_type::host_type::clock_type;
    using permit_type = chain_permit<sizeof...(Links)>;
    using kept_entries = entry_list<sizeof...(Links)>;

    static constexpr std::size_t most = sizeof...(Links);

    explicit link_tuple(Links... links) : links_(std::move(links)...) {}

    [[nodiscard]] auto const& home() const noexcept { return std::get<0>(links_).handle(); }
    [[nodiscard]] static wait_limit until(typename clock_type::time_point deadline) noexcept {
        return wait_until(deadline);
    }
    [[nodiscard]] auto members() noexcept {
        return std::apply([](auto&... each) { return std::array<chain_member*, most>{&each...}; },
                          links_);
    }

private:
    std::tuple<Links...> links_;
};

/// A link, with a key that needs at most the space of a `std::string`.
template <class Executor>
using any_link_box = link_box<sizeof(Executor) + 3 * sizeof(void*) + sizeof(request) +
                              sizeof(std::string) + sizeof(std::uint64_t)>;

/// The links of a chain whose limiters are known at run time. It stores `inline_links` links in place; more of them take
/// an allocation.
template <class Executor, std::size_t inline_links>
class link_list {
public:
    using executor_type = Executor;
    using clock_type = std::chrono::steady_clock;
    using permit_type = any_chain_permit;
    // A waiting chain has memory for exactly its links.
    using kept_entries = std::vector<chain_entry>;

    static constexpr std::size_t most = most_chained;

    link_list() {
        if constexpr (std::constructible_from<Executor, boost::asio::system_executor>)
            home_ = {nullptr, Executor(boost::asio::system_executor())};
    }
    explicit link_list(Executor const& ex) : home_{{nullptr, ex}} {}

    void add(any_link_box<Executor> link, Executor const& ex) {
        if (links_.empty())
            home_ = {link.get().share(link.get().core()), ex};
        if (links_.size() == inline_links)
            links_.reserve(most);
        links_.push_back(std::move(link));
    }
    [[nodiscard]] std::size_t size() const noexcept { return links_.size(); }

    /// Throws `std::logic_error` if there is no executor.
    [[nodiscard]] auto const& home() const {
        if (!home_)
            throw std::logic_error("weir: this chain has no limiters and no executor");
        return *home_;
    }
    [[nodiscard]] auto members() noexcept {
        boost::container::static_vector<chain_member*, most> all;
        for (auto const& link : links_)
            all.push_back(&link.get());
        return all;
    }
    // The first limiter may have another clock. It is read last, so that the wait does not end before the deadline.
    [[nodiscard]] wait_limit until(clock_type::time_point deadline) const noexcept {
        if (links_.empty())
            return {};
        auto const left = round_up(deadline - std::min(deadline, clock_type::now()));
        return {.length = forever, .until = later(home_->core->read_clock(), left)};
    }

private:
    boost::container::small_vector<any_link_box<Executor>, inline_links> links_;
    std::optional<limiter_handle<chain_core, Executor>> home_;
};

/// The operations of a chain with these links.
template <class Links>
class chain_of {
    using start_type = starts_to_enter_chain<Links>;
    using start_here_type = starts_to_enter_chain<Links, Links*>;
    using enter_token = enter_token_t<typename Links::executor_type>;

public:
    /// The executor of the first limiter.
    using executor_type = typename Links::executor_type;
    /// The clock of deadlines: the clock of the first limiter.
    using clock_type = typename Links::clock_type;
    /// The permits of all limiters.
    using permit_type = typename Links::permit_type;

    /// Returns the executor of the first limiter.
    [[nodiscard]] executor_type get_executor() const noexcept { return home().executor; }

    /// Grants the permits of all limiters now, or none, like `basic_limiter::try_enter`.
    permit_type try_enter(error_code& ec) noexcept { return enter_now(links_, try_chain, ec); }
    /// Grants the permits of all limiters now, or returns an empty permit.
    permit_type try_enter() noexcept {
        error_code ignored;
        return try_enter(ignored);
    }

    /// Decides like `enter` if that needs no wait, like `basic_limiter::enter_at_once`.
    [[nodiscard]] permit_type enter_at_once(error_code& ec) noexcept {
        return enter_now(links_, enter_chain_at_once, ec);
    }

    /// Waits until all limiters grant or the patience ends.
    ///
    ///     auto permits = co_await all.enter(1s);
    ///
    /// Await it in a coroutine on any executor. The chain must exist until the call is awaited.
    ///
    /// @throws chain_rejection with the `error_code` of `async_enter`
    [[nodiscard]] auto enter(patience wait = {}) {
        return detail::enter(home(), start_here_type(&links_, options_, {.length = wait}));
    }
    /// Waits until all limiters grant or `deadline` passes on the clock of the first limiter. Otherwise it works like
    /// `enter`.
    [[nodiscard]] auto enter_until(typename clock_type::time_point deadline) {
        return detail::enter(home(), start_here_type(&links_, options_, links_.until(deadline)));
    }

    /// Waits until all limiters grant or the patience ends.
    ///
    /// Completion signature: `void(error_code, permit_type)`. On an error the permit is empty. It names the limiter
    /// that rejected, and has a `retry_after` if it is known. Without a token, await the result in a coroutine on any
    /// executor. It returns the permit or throws `chain_rejection`.
    template <boost::asio::completion_token_for<void(error_code, permit_type)> Token = enter_token>
    auto async_enter(patience wait, Token&& token = enter_token()) {
        return detail::async_enter(
            home(), start_type(links_, options_, {.length = wait}), std::forward<Token>(token));
    }
    /// Waits until all limiters grant or the default patience ends.
    template <boost::asio::completion_token_for<void(error_code, permit_type)> Token = enter_token>
    auto async_enter(Token&& token = enter_token()) {
        return async_enter(patience(), std::forward<Token>(token));
    }
    /// Waits until all limiters grant or `deadline` passes on the clock of the first limiter. Otherwise it works like
    /// `async_enter`.
    template <boost::asio::completion_token_for<void(error_code, permit_type)> Token = enter_token>
    auto async_enter_until(typename clock_type::time_point deadline,
                           Token&& token = enter_token()) {
        return detail::async_enter(home(), start_type(links_, options_, links_.until(deadline)),
                                   std::forward<Token>(token));
    }

    /// Enters, calls `f()`, releases the permits and returns the result of `f`, like `basic_limiter::run`.
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, patience wait = {}) {
        detail::check_temporary<F>();
        return detail::run(home(), start_here_type(&links_, options_, {.length = wait}), f);
    }

private:
    [[nodiscard]] auto const& home() const { return links_.home(); }

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

/// Acquires permits from several limiters: all of them or none.
///
///     weir::chain all{global, per_client.with(client), workers.with(2)};
///     auto permits = co_await all.enter(1s);
///
/// A waiting chain holds no permits. It waits in the queue of one limiter that cannot grant its part yet, in the
/// position of its arrival. At the head of that queue it either gets all permits, or moves to the queue of another
/// limiter that blocks it, in the position of its arrival there. So a chain delays other requests only at a limiter
/// that cannot grant the chain's part; there it delays them like any request, whatever its other limiters could grant.
///
/// Limiters: a limiter stands for one permit, `limiter.with(n)` for n, `keyed.with(key, n)` for n of one key. A limiter
/// named twice is asked for the sum. A chain takes 1 to 16 limiters, on any executors and contexts, and other chains
/// may name them in any order: chains cannot deadlock. Shared limiters, whose permits a store counts, are not allowed:
/// their decision does not fit under a lock. For several rules over the same requests use `policy::all`, which takes
/// one lock.
///
/// Class, flow and weight: `limiter.with({n, {.flow = tenant}})` passes them to the limiter. If a limiter is named
/// twice, the first standing applies. At a limiter with the order `priority` or `fair` the chain is a request of its
/// class, flow and weight, like any other: in its queue, as a newcomer, and in the forecast of `max_expected_wait`. A
/// chain that names none has the defaults, as a request has. With `queue_order::shares` its seats count for the
/// partition.
///
/// Order: each limiter grants the requests in its queue in arrival order, chains or not, and chains over the same
/// limiters are granted in arrival order. At a limiter with another order, that order applies:
/// - `priority` and `fair` order chains and other requests alike. Within its class and flow a chain has the position of
///   its arrival, also when it comes back to a queue. A grant is a turn of its flow at each of its limiters, wherever
///   the chain waited. So the guarantee of `fair` for two flows applies to flows of chains, too, over any time in which
///   both wait in the queue of that limiter, and no chain there is overdue (see below). Leaving a queue and coming back gains nothing: a
///   flow that did not wait there begins at the end of a round.
/// - Any other order selects the next one of the other requests. A chain goes before that request if the chain arrived
///   first, otherwise after it. So it goes before all requests that arrived after it, whatever their partition, and an
///   arriving chain overtakes no request.
///
/// Neither `when_full::evict_oldest` nor `queue_order::codel` drops a waiting chain; an arriving one has requests
/// dropped like a request of its standing.
/// If several limiters could grant at the same instant, their order is unspecified and may vary between runs: it
/// depends on their addresses and on the seed of `keyed`.
///
/// Bound: limiters that are never free at the same instant could delay a chain forever. A chain that lost
/// `chain_options::passes` turns is overdue. From then on, when its turn comes in one queue, only requests that arrived
/// before it precede it at its other limiters, in any order. The oldest overdue chain reserves its limiters for up to T =
/// `chain_options::reserve_for`: they grant no request that arrived after it. The chain takes nothing in advance. Let F be the longest time that a limiter needs to grant all requests ahead of the chain and the chain's
/// part, while it grants no request behind the chain. For seats, F is the waits of those requests and the longest hold;
/// for rates, the time in which the permits become available. With `priority` or `fair` the requests ahead include later
/// requests that go first; `queue_order` has the bounds. If F <= T, and i older chains share a limiter
/// with this chain, directly or through other chains, the chain waits at most
///
///     (i + 1) * ((passes + 1) * F + T).
///
/// If a permit is held longer than T there is no bound: T limits the time for which a stuck permit leaves other
/// limiters idle. A chain over two limiters with the order `fair`, in whose queues requests of other flows always wait,
/// never has its turn at both at once: it is granted after `passes` turns. To grant such chains sooner, set `passes` to
/// 1, or give one of the limiters the order `fifo`.
///
/// Checks: as in `basic_limiter`, each over all limiters before the next. The queue in which the chain starts must have
/// room for it; later moves ignore that limit. A rejected permit, and `chain_rejection`, name the limiter that rejected
/// (`rejected_by`); only that limiter counts the rejection. All limiters count a grant, and each of them counts as the
/// wait the time that the chain spent in its own queue: a limiter that never delayed the chain counts an immediate
/// grant. The first limiter supplies the default patience and the default executor of handlers.
///
/// Threads, cancellation and completion are as in `basic_limiter`. The chain is a value: use it once or many times, on
/// several threads at once.
///
/// Lifetime: a chain keeps the necessary parts of its limiters, so they may be destroyed first. If a limiter is closed
/// or destroyed, or its context ends, a waiting chain is rejected with `errc::closed`; if the first limiter's context
/// ends, the chain's handler is destroyed without a call. A waiting chain keeps all contexts of its limiters running,
/// and `async_drain` of each limiter waits for it.
template <class... Links>
class chain : public detail::chain_of<detail::link_tuple<Links...>> {
    static_assert(sizeof...(Links) >= 1 && sizeof...(Links) <= detail::most_chained);
    using base = detail::chain_of<detail::link_tuple<Links...>>;

public:
    /// Creates a chain of limiters, or of the results of their `with`.
    ///
    /// @throws std::invalid_argument if an option is out of bounds
    template <detail::chainable... Limiters>
    explicit chain(chain_options const& options, Limiters const&... limiters)
        : base(detail::link_tuple<Links...>(detail::link_of(limiters)...), options) {}
    /// Creates a chain with the default options.
    template <detail::chainable... Limiters>
    explicit chain(Limiters const&... limiters) : chain(chain_options(), limiters...) {}
};

/// Deduces the links of a chain from its limiters.
template <detail::chainable... Limiters>
chain(Limiters const&...) -> chain<detail::link_of_t<Limiters>...>;
/// Deduces the links of a chain with options from its limiters.
template <detail::chainable... Limiters>
chain(chain_options const&, Limiters const&...) -> chain<detail::link_of_t<Limiters>...>;

/// A part of an `any_chain`: a limiter of any kind, or the result of its `with`.
///
/// A link can be part of many chains and is safe to use on several threads. It keeps the necessary parts of the
/// limiter. It makes no allocation, except for a key of `keyed` that allocates when it is copied, or is larger than a
/// `std::string`.
template <class Executor>
class basic_any_link {
public:
    /// Creates a link from a limiter or from the result of its `with`.
    template <detail::chainable Limiter>
        requires std::convertible_to<typename detail::link_of_t<Limiter>::executor_type, Executor>
    basic_any_link(Limiter const& limiter) : basic_any_link(0, detail::link_of(limiter)) {}
    /// Creates a link from the result of a `with`, without a copy of its key.
    template <class Core, std::convertible_to<Executor> OtherExecutor, class Who>
    basic_any_link(detail::chain_link<Core, OtherExecutor, Who>&& link)
        : basic_any_link(0, std::move(link)) {}

private:
    template <class, std::size_t>
    friend class basic_any_chain;

    template <class Link>
    basic_any_link(int, Link link) : executor_(link.handle().executor), box_(std::move(link)) {}

    Executor executor_;
    detail::any_link_box<Executor> box_;
};

/// A part of an `any_chain`: a limiter of any kind, or the result of its `with`.
using any_link = basic_any_link<boost::asio::any_io_executor>;

/// A `chain` whose limiters are selected at run time, for instance by a configuration. The documentation of `chain`
/// applies.
///
///     weir::any_chain all{workers.with(2)};
///     if (client)
///         all.add(per_client.with(*client));
///     weir::any_chain_permit permits = co_await all.enter(1s);
///
/// A request that does not wait makes no allocation if the chain has at most `inline_links` limiters, and one
/// otherwise. The chain takes about 100 bytes for each of the `inline_links`, and so does each waiting request.
///
/// A chain without limiters grants each request immediately, because nothing limits it: the permit is true and has no
/// parts. A handler without an executor runs on the executor of the constructor, or else on `asio::system_executor`. If
/// `Executor` cannot hold that, and the constructor received none, a call that needs an executor throws
/// `std::logic_error`.
///
/// Deadlines are instants of the steady clock. If the first limiter has another clock, `enter_until` converts the
/// deadline by the times that both clocks have at the call.
///
/// Precondition: at most 16 limiters.
template <class Executor, std::size_t inline_links = 4>
class basic_any_chain : public detail::chain_of<detail::link_list<Executor, inline_links>> {
    using links_type = detail::link_list<Executor, inline_links>;
    using base = detail::chain_of<links_type>;

public:
    /// Rebinds this type of chain to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The chain on `OtherExecutor`.
        using other = basic_any_chain<OtherExecutor, inline_links>;
    };

    /// Creates a chain without limiters.
    ///
    /// @throws std::invalid_argument if an option is out of bounds
    explicit basic_any_chain(chain_options const& options = {}) : base(links_type(), options) {}
    /// Creates a chain without limiters. While it has none, handlers without an executor run on `ex`.
    ///
    /// @throws std::invalid_argument if an option is out of bounds
    explicit basic_any_chain(Executor const& ex, chain_options const& options = {})
        : base(links_type(ex), options) {}
    /// Creates a chain of these limiters.
    ///
    /// @throws std::invalid_argument if an option is out of bounds
    basic_any_chain(std::initializer_list<basic_any_link<Executor>> links,
                    chain_options const& options = {})
        : basic_any_chain(options) {
        for (auto const& link : links)
            add(link);
    }

    /// Adds a limiter at the end.
    void add(basic_any_link<Executor> link) {
        BOOST_ASSERT(size() < detail::most_chained);
        this->links_.add(std::move(link.box_), link.executor_);
    }
    /// Returns the number of limiters.
    [[nodiscard]] std::size_t size() const noexcept { return this->links_.size(); }
};

/// A `chain` whose limiters are selected at run time; see `basic_any_chain`.
using any_chain = basic_any_chain<boost::asio::any_io_executor>;

}  // namespace weir::inline v0_2
