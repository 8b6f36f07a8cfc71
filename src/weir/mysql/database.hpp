#pragma once

#include <weir/detail/revocable_executor.hpp>
#include <weir/mysql/store.hpp>
#include <weir/pool.hpp>

#include "attempts.hpp"
#include "session.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/strand.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace weir::inline v0_2::mysql::detail {

/// The connections of a store, and its statements. Coroutines that use it keep it alive.
class database : public std::enable_shared_from_this<database> {
public:
    using clock = std::chrono::steady_clock;
    using connection = weir::lease<std::unique_ptr<session>>;

    database(boost::asio::any_io_executor ex, options const& o);
    database(database const&) = delete;
    database& operator=(database const&) = delete;
    ~database();

    /// Returns a strand. Throws `boost::system::system_error` if the context has ended.
    [[nodiscard]] boost::asio::strand<boost::asio::any_io_executor> make_strand() const;

    void take(std::string name, weir::store::question const& q,
              weir::store::answer_handler handler);
    void give_back(std::string name, weir::store::give_back const& what);
    void hold(std::string name, weir::store::seats_question const& q,
              weir::store::seats_handler handler);

    /// Creates the missing tables. Must run on a strand.
    [[nodiscard]] boost::asio::awaitable<void> install();
    /// Checks the tables and the row of the seats `name`. Must run on a strand.
    [[nodiscard]] boost::asio::awaitable<void> check(std::string name);

    /// Acquires a connection on which a statement may take the given time. Throws `boost::system::system_error`: a
    /// `connection_failure` if attempts to connect fail, a `rejection` if there is none in time, and otherwise the error
    /// of the server.
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

    // Returns whether there is no connection.
    [[nodiscard]] bool is_cut_off() const;

    // Connects within the time limit.
    [[nodiscard]] boost::asio::awaitable<void> connect(session& one) const;

    // Calls `f(strand)` on the executor, never in this function; never at all if the context has ended.
    template <class F>
    void on_strand(F f);

    weir::detail::revocable_executor executor_;
    std::shared_ptr<settings> settings_;
    std::shared_ptr<attempts> attempts_;
    weir::pool<std::unique_ptr<session>> connections_;
};

/// Returns whether the server rolled the statement back in a deadlock, so that it can be repeated.
[[nodiscard]] bool is_deadlock(error_code const& ec) noexcept;

}  // namespace weir::inline v0_2::mysql::detail
