#include "threads.hpp"

#include <utility>

namespace proxy {

void threads::add(std::int64_t n, std::shared_ptr<plan const> const& p, tool::log_file* log) {
    for (std::int64_t i = 0; i < n; ++i)
        all_.push_back(std::make_unique<one>(p, pools_, log));
}

void threads::run(std::function<void()> const& ended) {
    running_ = all_.size();
    for (auto& t : all_)
        t->runs = std::thread([this, ended, &t = *t] {
            t.work.context().run();
            asio::post(context_, [this, ended] {
                if (--running_ == 0)
                    ended();
            });
        });
}

void threads::join() {
    for (auto& t : all_)
        t->runs.join();
}

void threads::serve(net::arrival a) {
    auto& w = next();
    advance();
    if (is_alone())
        return w.serve(std::move(a));
    // The socket and the session belong to the thread that serves them.
    asio::post(w.context(), [&w, came = std::move(a)]() mutable { w.serve(std::move(came)); });
}

void threads::drain() {
    for (auto& t : all_)
        asio::post(t->work.context(), [&t = *t] {
            t.work.drain();
            t.keeps_running.reset();
        });
}

void threads::abort() {
    on_each([](worker& w) { w.abort(); });
}

void threads::stop() {
    for (auto& t : all_)
        t->work.context().stop();
}

bool threads::has_new_trouble(one& t) noexcept {
    auto const n = t.work.accounting().counts().troubles.value();
    return n != std::exchange(t.troubles, n);
}

std::array<std::uint64_t, admin::state::classes> threads::responses() const {
    std::array<std::uint64_t, admin::state::classes> all{};
    for (auto const& t : all_)
        for (std::size_t i = 0; i != all.size(); ++i)
            all[i] += t->work.accounting().counts().responses[i].value();
    return all;
}

weir::wait_histogram threads::response_times() const {
    weir::wait_histogram all;
    for (auto const& t : all_) {
        auto const& times = t->work.accounting().counts().response_times;
        for (std::size_t i = 0; i != times.size(); ++i)
            if (auto const n = times[i].value(); n != 0)
                all.add(weir::wait_histogram::end_of(i), n);
    }
    return all;
}

}  // namespace proxy
