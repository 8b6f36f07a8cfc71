#include <weir/agent/store.hpp>

#include "client.hpp"
#include "path.hpp"

#include <chrono>
#include <utility>

namespace weir::inline v0_2::agent {

store::store(boost::asio::any_io_executor ex, std::string path) {
    detail::check_path("weir::agent::store", path);
    client_ = std::make_shared<detail::client>(std::move(ex), std::move(path));
    client_->begin();
}

store::~store() = default;

void store::check() {
    client_->check();
}

void store::async_take(std::string const& name, question const& q, answer_handler handler) {
    using std::chrono::microseconds;
    client_->ask({.name = name,
                  .bucket = q.bucket,
                  .min = q.min,
                  .max = q.max,
                  .ahead = q.ahead,
                  .timeout = std::chrono::ceil<microseconds>(q.timeout)},
                 std::move(handler));
}

void store::async_give_back(std::string const& name, give_back const& what) {
    client_->send({.name = name, .bucket = what.bucket, .count = what.count, .since = what.since});
}

}  // namespace weir::inline v0_2::agent
