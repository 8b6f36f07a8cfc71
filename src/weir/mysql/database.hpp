#pragma once

#include <weir/detail/home_executor.hpp>
#include <weir/mysql/store.hpp>
#include <weir/pool.hpp>

#include "session.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/strand.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace weir::mysql::detail {

/// The connections of a store, and what it says on them. Coroutines that use it keep it alive.
class database : public std::enable_shared_from_this<database> {
public:
    using clock = std::chrono::steady_clock;
    using connection = weir::lease<std::unique_ptr<session>>;

    database(boost::asio::any_io_executor ex, options const& o);

    /// Throws `boost::system::system_error` if the context has ended.
    [[nodiscard]] boost::asio::strand<boost::asio::any_io_executor> make_strand() const;

    void take(std::string name, weir::store::question const& q,
              weir::store::answer_handler handler);
    void give_back(std::string name, weir::store::give_back const& what);
    void hold(std::string name, weir::store::seats_question const& q,
              weir::store::seats_handler handler);

    /// On a strand.
    [[nodiscard]] boost::asio::awaitable<void> install();

    /// A connection, on which a statement may take so long. Throws `boost::system::system_error`: a `rejection` if it
    /// comes too late, and otherwise what the server says.
    [[nodiscard]] boost::asio::awaitable<connection> checkout(clock::time_point until,
                                                              duration statement);

private:
    template <class Answer>
    struct reply_of {
        error_code error;
        Answer said;
    };
    using reply = reply_of<weir::store::answer>;
    using seats_reply = reply_of<weir::store::seats_answer>;

    static boost::asio::awaitable<reply> ask(std::shared_ptr<database> self, std::string name,
                                             weir::store::question q);
    static boost::asio::awaitable<void> return_to(std::shared_ptr<database> self, std::string name,
                                                  weir::store::give_back what);
    static boost::asio::awaitable<seats_reply> ask_for_seats(
        std::shared_ptr<database> self, std::string name, weir::store::seats_question q);

    // Has `f(strand)` called on the executor, never in here; or never, if the context has ended.
    template <class F>
    void on_strand(F f);

    weir::detail::home_executor home_;
    std::shared_ptr<settings> settings_;
    weir::pool<std::unique_ptr<session>> connections_;
};

/// Whether the statement was rolled back for the sake of another one, and may be said again.
[[nodiscard]] bool is_deadlock(error_code const& ec) noexcept;

}  // namespace weir::mysql::detail
