#include <weir/postgres/store.hpp>

#include "database.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>

#include <utility>

namespace weir::inline v0_2::postgres {

namespace asio = boost::asio;

store::store(asio::any_io_executor ex, options const& o)
    : database_(std::make_shared<detail::database>(ex, std::make_shared<detail::settings>(o))) {}

store::~store() = default;

void store::async_take(std::string const& name, question const& q, answer_handler handler) {
    database_->take(name, q, std::move(handler));
}

void store::async_give_back(std::string const& name, give_back const& what) {
    database_->give_back(name, what);
}

void store::async_hold(std::string const& name, seats_question const& q, seats_handler handler) {
    database_->hold(name, q, std::move(handler));
}

asio::awaitable<void> store::install() {
    auto const database = database_;
    auto const strand = database->make_strand();
    co_await asio::co_spawn(strand, database->install(), asio::deferred);
}

asio::awaitable<void> store::check(std::string name) {
    auto const database = database_;
    auto const strand = database->make_strand();
    co_await asio::co_spawn(strand, database->check(std::move(name)), asio::deferred);
}

}  // namespace weir::inline v0_2::postgres
