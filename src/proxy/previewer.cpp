#include "previewer.hpp"

#include "preview.hpp"
#include "tool/trouble.hpp"

#include <boost/asio/post.hpp>

#include <sys/resource.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

namespace proxy {
namespace {

admin::answer answer_for(config::limit const& now, std::optional<config::limit> const& then,
                         arrivals::copy const& record, std::atomic<bool> const& stop) {
    try {
        return {200, to_json(then ? make_preview(now, *then, record, stop)
                                  : find_larger_rule(now, record, stop))};
    } catch (std::invalid_argument const& wrong) {
        return {400, wrong.what()};
    } catch (std::exception const& wrong) {
        return {500, tool::reason_of(wrong)};
    }
}

}  // namespace

previewer::~previewer() {
    stop_ = true;
    if (thread_.joinable())
        thread_.join();
}

net::task<admin::answer> previewer::run(config::limit now, std::optional<config::limit> then,
                                        arrivals::copy record) {
    if (thread_.joinable())
        co_return admin::answer{503, "another preview is in progress; try again"};
    // Shared, because this coroutine may be destroyed first.
    auto const done = std::make_shared<net::timer>(context_, net::clock::time_point::max());
    auto const made = std::make_shared<admin::answer>();
    auto work = [this, done, made, now = std::move(now), then = std::move(then),
                 record = std::move(record)] {
#ifdef __linux__
        ::setpriority(PRIO_PROCESS, 0,
                      5);  // of this thread: the threads that serve requests come first
#endif
        *made = answer_for(now, then, record, stop_);
        net::asio::post(context_, [this, done] {
            thread_.join();
            done->cancel();
        });
    };
    thread_ = std::thread(std::move(work));
    co_await done->async_wait(net::as_values);
    co_return std::move(*made);
}

}  // namespace proxy
