// Sends the request of the standard input to a port of this machine at a steady rate, whatever the responses do, and
// prints percentiles of their times. The time of a response counts from the instant at which its request was due, also
// if all connections were busy then. It waits for the last responses for at most five seconds; a missing one counts with
// the time until then. It expects responses without a body.
// usage: steady_client PORT REQUESTS_PER_SECOND SECONDS CONNECTIONS

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using clock_type = std::chrono::steady_clock;
using boost::system::error_code;

struct connection {
    connection(asio::io_context& context, std::uint16_t port) : socket(context) {
        socket.connect({asio::ip::address_v4::loopback(), port});
        socket.set_option(tcp::no_delay(true));
    }
    tcp::socket socket;
    clock_type::time_point due;  // of the request whose response it awaits
    std::string received;
    std::array<char, 4096> in;
};

class client {
public:
    client(std::uint16_t port, int connections, std::string request)
        : request_(std::move(request)) {
        for (int i = 0; i != connections; ++i) {
            all_.push_back(std::make_unique<connection>(context_, port));
            idle_.push_back(all_.back().get());
            read(*all_.back());
        }
    }

    void run(int rate, std::chrono::seconds length) {
        pause_ = std::chrono::nanoseconds(1'000'000'000 / rate);
        next_ = clock_type::now();
        end_ = next_ + length;
        wait();
        context_.run();
    }

    [[nodiscard]] std::vector<clock_type::duration>& times() noexcept { return times_; }

private:
    // A thread that never sleeps would compete with the kernel, which delivers the packets on the same processor.
    void wait() {
        timer_.expires_at(next_);
        timer_.async_wait([this](error_code) {
            auto const now = clock_type::now();
            for (; next_ <= std::min(now, end_); next_ += pause_)
                due_.push_back(next_);
            send_due();
            bool const is_over = now > end_ && idle_.size() == all_.size();
            if (is_over || now > end_ + std::chrono::seconds(5))
                return finish(now);
            if (now > end_)
                next_ = now + std::chrono::milliseconds(1);
            wait();
        });
    }
    void finish(clock_type::time_point now) {
        for (auto const& c : all_)
            if (std::ranges::find(idle_, c.get()) == idle_.end())
                times_.push_back(now - c->due);
        for (auto const due : due_)
            times_.push_back(now - due);
        context_.stop();
    }
    void send_due() {
        while (!due_.empty() && !idle_.empty())
            send();
    }
    void send() {
        auto& c = *idle_.front();
        idle_.pop_front();
        c.due = due_.front();
        due_.pop_front();
        if (c.socket.write_some(asio::buffer(request_)) != request_.size())
            fail("a request did not fit into the socket");
    }
    void read(connection& c) {
        c.socket.async_read_some(asio::buffer(c.in), [this, &c](error_code ec, std::size_t n) {
            if (ec)
                fail(ec.message());
            c.received.append(c.in.data(), n);
            if (c.received.ends_with("\r\n\r\n")) {
                if (!c.received.starts_with("HTTP/1.1 2"))
                    fail(c.received);
                c.received.clear();
                times_.push_back(clock_type::now() - c.due);
                idle_.push_back(&c);
                send_due();
            }
            read(c);
        });
    }
    [[noreturn]] static void fail(std::string_view why) {
        fmt::print(stderr, "steady_client: {}\n", why);
        std::exit(1);
    }

    asio::io_context context_{1};
    asio::steady_timer timer_{context_};
    clock_type::duration pause_{};
    clock_type::time_point next_;
    clock_type::time_point end_;
    std::string const request_;
    std::vector<std::unique_ptr<connection>> all_;
    std::deque<connection*> idle_;
    std::deque<clock_type::time_point> due_;  // of the requests that wait for a connection
    std::vector<clock_type::duration> times_;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5 || std::atoi(argv[2]) < 1) {
        fmt::print(stderr, "usage: steady_client PORT REQUESTS_PER_SECOND SECONDS CONNECTIONS\n");
        return 2;
    }
    std::string request(std::istreambuf_iterator<char>(std::cin), {});
    client c(static_cast<std::uint16_t>(std::atoi(argv[1])), std::atoi(argv[4]),
             std::move(request));
    c.run(std::atoi(argv[2]), std::chrono::seconds(std::atoi(argv[3])));
    auto& all = c.times();
    std::ranges::sort(all);
    auto const at = [&](double part) {
        auto const n = static_cast<std::size_t>(part * static_cast<double>(all.size() - 1));
        return std::chrono::duration<double, std::micro>(all[n]).count();
    };
    if (!all.empty())
        fmt::print("{} responses, p50 {:.0f} us, p99 {:.0f} us, p99.9 {:.0f} us\n", all.size(),
                   at(0.5), at(0.99), at(0.999));
}
