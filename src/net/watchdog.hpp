#pragma once

#include "asio.hpp"

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <chrono>

namespace net {

/// Something that the watchdog looks at on every round.
class watched : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
public:
    /// May cancel what is going on, and unlink itself, but destroys nothing that is watched.
    virtual void look(clock::time_point now) = 0;

    /// The proxy is about to end: whatever only waits for something to do is to stop.
    virtual void stop_if_idle() = 0;

    /// The time for that is over.
    virtual void abort() = 0;

protected:
    watched() = default;
    watched(watched const&) = delete;
    ~watched() = default;
};

/// One timer for all the time limits of a thread. A limit is a time that is noted and looked at on
/// the next round, so that setting it costs a store: a timer of Asio for each would be moved twice in
/// every request. It is noticed late by up to two rounds, and never early.
class watchdog {
public:
    static constexpr std::chrono::milliseconds round{50};

    explicit watchdog(asio::io_context& context) : timer_(context) {}

    void add(watched& one) {
        all_.push_back(one);
        if (!running_) {
            running_ = true;
            now_ = clock::now();
            wait();
        }
    }

    /// The time at which `limit` from now will certainly be over.
    [[nodiscard]] clock::time_point after(clock::duration limit) const noexcept {
        return now_ + round + limit;
    }

    template <class F>
    void each(F f) {
        for (auto& one : all_)
            f(one);
    }

private:
    void wait() {
        timer_.expires_after(round);
        timer_.async_wait([this](error_code ec) {
            if (!ec)
                go_round();
        });
    }

    void go_round() {
        now_ = clock::now();
        for (auto i = all_.begin(); i != all_.end();)
            (i++)->look(now_);
        // Nobody to look after: the thread sleeps, and may end.
        running_ = !all_.empty();
        if (running_)
            wait();
    }

    timer timer_;
    boost::intrusive::list<watched, boost::intrusive::constant_time_size<false>> all_;
    clock::time_point now_ = clock::now();
    bool running_ = false;
};

}  // namespace net
