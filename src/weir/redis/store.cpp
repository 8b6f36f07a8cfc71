#include <weir/redis/store.hpp>

#include "cluster.hpp"
#include "scripts.hpp"
#include "subscription.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/system/system_error.hpp>

#include <utility>

namespace weir::inline v0_2::redis {

namespace asio = boost::asio;

store::store(asio::any_io_executor ex, options const& o) {
    auto const all = std::make_shared<detail::servers>(detail::destination::parse(o.url));
    nodes_ = std::make_shared<detail::cluster>(ex, o, all);
    subscription_ = std::make_shared<detail::subscription>(std::move(ex), o, all);
    nodes_->begin();
    subscription_->begin();
}

store::~store() = default;

void store::async_take(std::string const& name, question const& q, answer_handler handler) {
    auto receive = [q, handler = std::move(handler)](detail::reply said) mutable {
        auto a = detail::answer_of(said, q);
        std::move(handler)(said.error, std::move(a));
    };
    bool const is_log = q.bucket.window != 0;
    nodes_->run(is_log ? detail::script::log_take : detail::script::take, name,
                detail::arguments_of(q), q.timeout, std::move(receive));
}

void store::async_give_back(std::string const& name, give_back const& what) {
    bool const is_log = what.bucket.window != 0;
    nodes_->run(is_log ? detail::script::log_give_back : detail::script::give_back, name,
                detail::arguments_of(what), what.timeout, {});
}

void store::async_hold(std::string const& name, seats_question const& q, seats_handler handler) {
    auto told = q;
    told.channel = subscription_->channel();
    auto receive = [told, s = subscription_,
                    handler = std::move(handler)](detail::reply said) mutable {
        auto a = detail::answer_of(said, told);
        if (!said.error) {
            bool const is_kept = a.held != 0 || a.ahead >= 0;
            s->expect(told.holder,
                      is_kept ? later(detail::clock_time(), told.lease) : time_point::min(),
                      std::move(said.from));
        }
        std::move(handler)(said.error, std::move(a));
    };
    nodes_->run(detail::script::seats_hold, name, detail::arguments_of(told), q.timeout,
                std::move(receive));
}

void store::listen(policy::fed_seats::holder_id const& holder, std::weak_ptr<seats_listener> to) {
    subscription_->listen(holder, std::move(to));
}

void store::validate(policy::shared_bucket const& b) const {
    detail::validate(b);
}

asio::awaitable<void> store::check(std::string name) {
    auto start = [nodes = nodes_, &name](auto handler) {
        nodes->check(name, [handler = std::move(handler)](detail::reply said) mutable {
            asio::dispatch(asio::append(std::move(handler), std::move(said)));
        });
    };
    auto const said = co_await asio::async_initiate<asio::deferred_t const, void(detail::reply)>(
        start, asio::deferred);
    if (said.error)
        throw boost::system::system_error(said.error, "weir::redis: " + said.text);
}

}  // namespace weir::inline v0_2::redis
