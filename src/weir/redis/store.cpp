#include <weir/redis/store.hpp>

#include "client.hpp"
#include "scripts.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/system/system_error.hpp>

#include <utility>

namespace weir::inline v0_2::redis {

namespace asio = boost::asio;

store::store(asio::any_io_executor ex, options const& o)
    : client_(std::make_shared<detail::client>(std::move(ex), o)) {
    client_->begin();
}

store::~store() = default;

void store::async_take(std::string const& name, question const& q, answer_handler handler) {
    auto receive = [q, handler = std::move(handler)](detail::reply said) mutable {
        auto a = detail::answer_of(said, q);
        std::move(handler)(said.error, std::move(a));
    };
    bool const is_log = q.bucket.window != 0;
    client_->run(is_log ? detail::script::log_take : detail::script::take, name,
                 detail::arguments_of(q), q.timeout, std::move(receive));
}

void store::async_give_back(std::string const& name, give_back const& what) {
    bool const is_log = what.bucket.window != 0;
    client_->run(is_log ? detail::script::log_give_back : detail::script::give_back, name,
                 detail::arguments_of(what), what.timeout, {});
}

void store::async_hold(std::string const& name, seats_question const& q, seats_handler handler) {
    auto receive = [q, handler = std::move(handler)](detail::reply said) mutable {
        auto a = detail::answer_of(said, q);
        std::move(handler)(said.error, std::move(a));
    };
    client_->run(detail::script::seats_hold, name, detail::arguments_of(q), q.timeout,
                 std::move(receive));
}

void store::validate(policy::shared_bucket const& b) const {
    detail::validate(b);
}

asio::awaitable<void> store::check(std::string name) {
    auto start = [client = client_, &name](auto handler) {
        client->check(name, [handler = std::move(handler)](detail::reply said) mutable {
            asio::dispatch(asio::append(std::move(handler), std::move(said)));
        });
    };
    auto const said = co_await asio::async_initiate<asio::deferred_t const, void(detail::reply)>(
        start, asio::deferred);
    if (said.error)
        throw boost::system::system_error(said.error, "weir::redis: " + said.text);
}

}  // namespace weir::inline v0_2::redis
