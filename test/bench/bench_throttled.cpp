// Measures throttled streams over TCP on the loopback device.
//
// First the cost while no limit binds: the CPU time of the thread that writes or reads 64 KiB at a time. It is the 10th
// percentile of short rounds in turns. Its excess over the naked socket is a share of a core at 1 GB per second.
//
// Then the exactness, with writers that always want to write. It prints these columns.
// - rate: the mean rate after the first tenth, less the limit.
// - excess: the bytes above rate * time in the worst window, in milliseconds of the rate.
// - first, later: Jain's index of fairness in the first second, in which the burst goes to the streams that begin, and in
//   the worst second after it.
// - CPU: the CPU time of the process with the receivers, as a share of one core.
//
//     bench_throttled [--seconds=N]         default: 10 seconds per measurement

#include <weir/throttled_stream.hpp>
#include <weir/token_bucket.hpp>

#include "support.hpp"

#include <boost/asio.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/rate_policy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using namespace std::chrono_literals;
using asio::ip::tcp;
using clock = std::chrono::steady_clock;
using weir::error_code;

using beast_stream = beast::basic_stream<tcp, asio::any_io_executor, beast::simple_rate_policy>;
using socket_stream = weir::throttled_stream<tcp::socket>;

constexpr std::size_t piece = 65'536;

std::pair<tcp::socket, tcp::socket> connect(asio::io_context& near, asio::io_context& far) {
    tcp::acceptor door(far, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    tcp::socket one(near);
    one.connect(door.local_endpoint());
    return {std::move(one), door.accept()};
}

// ---- The cost

// A peer on another thread, which always sends, or always reads.
class peer {
public:
    peer(tcp::socket&& socket, bool sends)
        : socket_(std::move(socket)), thread_([this, sends] {
              std::vector<char> buffer(4 * piece);
              error_code ec;
              while (!ec) {
                  if (sends)
                      asio::write(socket_, asio::buffer(buffer), ec);
                  else
                      socket_.read_some(asio::buffer(buffer), ec);
              }
          }) {}
    void stop() { socket_.shutdown(tcp::socket::shutdown_both); }

private:
    tcp::socket socket_;
    std::jthread thread_;
};

// One stream. `run` transfers bytes, and returns the CPU time for each piece.
template <class Stream>
class transfer {
public:
    transfer(asio::io_context& context, bool reads)
        : transfer(context, reads, connect(context, context)) {}
    ~transfer() {
        error_code ignored;
        peer_.stop();
        stream.lowest_layer().close(ignored);
    }

    double run(std::size_t bytes) {
        left_ = static_cast<std::ptrdiff_t>(bytes);
        bench::processor_time const time;
        next();
        context_.restart();
        context_.run();
        return time.seconds() / (static_cast<double>(bytes) / piece);
    }

private:
    transfer(asio::io_context& context, bool reads, std::pair<tcp::socket, tcp::socket> ends)
        : context_(context),
          stream(std::move(ends.first)),
          peer_(std::move(ends.second), reads),
          reads_(reads) {}

    void next() {
        auto const done = [this](error_code ec, std::size_t n) {
            left_ -= static_cast<std::ptrdiff_t>(n);
            if (!ec && left_ > 0)
                next();
        };
        if (reads_)
            stream.async_read_some(asio::buffer(buffer_), done);
        else
            stream.async_write_some(asio::buffer(buffer_), done);
    }

    asio::io_context& context_;
    std::vector<char> buffer_ = std::vector<char>(piece);
    std::ptrdiff_t left_ = 0;

public:
    Stream stream;

private:
    peer peer_;
    bool reads_;
};

void measure_cost(bool reads, double seconds) {
    asio::io_context context(1);
    weir::token_bucket own(context, weir::bandwidth(weir::max_amount));
    weir::token_bucket all(context, weir::bandwidth(weir::max_amount));
    transfer<tcp::socket> naked(context, reads);
    std::array<transfer<socket_stream>, 3> throttled{
        transfer<socket_stream>(context, reads), transfer<socket_stream>(context, reads),
        transfer<socket_stream>(context, reads)};
    auto const limit = [&](socket_stream& stream, weir::throttle one, weir::throttle two) {
        if (reads)
            stream.throttle_reads(std::move(one), std::move(two));
        else
            stream.throttle_writes(std::move(one), std::move(two));
    };
    limit(throttled[1].stream, weir::throttle(all), {});
    limit(throttled[2].stream, weir::throttle(own), weir::throttle(all));

    std::array<std::vector<double>, 4> rounds;
    auto const end = clock::now() + std::chrono::duration<double>(seconds);
    do {
        rounds[0].push_back(naked.run(64 * piece));
        for (std::size_t i = 0; i != throttled.size(); ++i)
            rounds[i + 1].push_back(throttled[i].run(64 * piece));
    } while (clock::now() < end);
    constexpr std::array<std::string_view, 4> names{
        "the socket", "throttled, no limiter", "one limiter", "two limiters"};
    double floor = 0;
    for (std::size_t i = 0; i != rounds.size(); ++i) {
        std::ranges::sort(rounds[i]);
        auto const low = rounds[i][rounds[i].size() / 10];
        floor = i == 0 ? low : floor;
        fmt::print("{:<6} {:<24} {:>8.2f} us per 64 KiB   {:>+6.2f} % of a core at 1 GB/s\n",
                   reads ? "read" : "write", names[i], low * 1e6,
                   (low - floor) * 1e9 / piece * 100);
    }
}

// ---- The exactness

// A writer that always wants to write, and its receiver, in one context.
template <class Stream>
class line {
public:
    line(asio::io_context& context, std::size_t piece_size)
        : line(connect(context, context), piece_size) {}

    void start() {
        write();
        receive();
    }
    void stop() { receiver_.close(); }

    Stream stream;
    std::vector<std::pair<clock::time_point, std::size_t>> log;

private:
    line(std::pair<tcp::socket, tcp::socket> ends, std::size_t piece_size)
        : stream(std::move(ends.first)), data_(piece_size), receiver_(std::move(ends.second)) {}

    void write() {
        // Not async_write: the time of each part matters.
        stream.async_write_some(asio::buffer(data_) + done_, [this](error_code ec, std::size_t n) {
            if (ec)
                return;
            log.emplace_back(clock::now(), n);
            done_ = (done_ + n) % data_.size();
            write();
        });
    }
    void receive() {
        receiver_.async_read_some(asio::buffer(buffer_), [this](error_code ec, std::size_t) {
            if (!ec)
                receive();
        });
    }

    std::vector<char> data_;
    std::size_t done_ = 0;
    std::vector<char> buffer_ = std::vector<char>(piece);
    tcp::socket receiver_;
};

template <class Stream, class Limit>
void measure(asio::io_context& context, std::string_view what, double rate, int streams, bool equal,
             double seconds, Limit const& limit) {
    std::deque<line<Stream>> lines;
    for (int i = 0; i != streams; ++i) {
        auto& l = lines.emplace_back(context, equal || i % 2 == 0 ? piece : 4'096);
        limit(l.stream);
    }
    auto const begin = clock::now();
    for (auto& l : lines)
        l.start();
    bench::processor_time const time;
    context.restart();
    context.run_for(
        std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds)));
    auto const cpu = time.seconds() / seconds;
    for (auto& l : lines)
        l.stop();

    auto const second_of = [&](clock::time_point t) {
        return std::chrono::duration<double>(t - begin).count();
    };
    std::vector<std::pair<clock::time_point, std::size_t>> log;
    auto const parts = std::max(1, static_cast<int>(seconds));
    std::vector<std::vector<double>> shares(
        static_cast<std::size_t>(parts), std::vector<double>(lines.size()));
    for (std::size_t i = 0; i != lines.size(); ++i) {
        for (auto const& [t, n] : lines[i].log) {
            if (auto const s = static_cast<std::size_t>(second_of(t)); s < shares.size())
                shares[s][i] += static_cast<double>(n);
            log.emplace_back(t, n);
        }
    }
    std::ranges::sort(log, {}, &decltype(log)::value_type::first);
    double bytes = 0;
    double excess = 0;
    double worst = 0;
    auto before = begin;
    auto const warm =
        begin +
        std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds / 10));
    for (auto const& [t, n] : log) {
        auto const size = static_cast<double>(n);
        excess =
            std::max(excess - rate * std::chrono::duration<double>(t - before).count(), 0.0) + size;
        worst = std::max(worst, excess);
        before = t;
        bytes += t < warm ? 0 : size;
    }
    auto const jain = [](std::vector<double> const& second) {
        double sum = 0;
        double squares = 0;
        for (auto const share : second) {
            sum += share;
            squares += share * share;
        }
        return squares > 0 ? sum * sum / (static_cast<double>(second.size()) * squares) : 1;
    };
    double later = 1;
    for (auto second = shares.begin() + 1; second != shares.end(); ++second)
        later = std::min(later, jain(*second));
    auto const mean =
        bytes / (std::chrono::duration<double>(log.back().first - warm).count() * rate);
    fmt::print("{:<44} {:>+7.2f} % {:>9.1f} ms {:>8.4f} {:>8.4f} {:>7.1f} %\n", what,
               (mean - 1) * 100, worst / rate * 1e3, jain(shares.front()), later, cpu * 100);
}

void measure_exactness(double seconds) {
    fmt::print("\n{:<44} {:>9} {:>12} {:>8} {:>8} {:>9}\n", "", "rate", "excess", "first", "later",
               "CPU");
    for (double const rate : {1e6, 10e6, 100e6, 1e9}) {
        for (bool const equal : {true, false}) {
            asio::io_context context(1);
            weir::token_bucket bytes(context, weir::bandwidth(static_cast<weir::amount>(rate)));
            weir::throttle const all(bytes);
            measure<socket_stream>(
                context,
                fmt::format("100 streams, {:.0f} MB/s, {}", rate / 1e6,
                            equal ? "equal" : "unequal"),
                rate, 100, equal, seconds, [&](auto& stream) { stream.throttle_writes(all); });
        }
    }
    {
        asio::io_context context(1);
        weir::token_bucket bytes(context, weir::bandwidth(1'000'000));
        measure<socket_stream>(
            context, "1 stream, 1 MB/s", 1e6, 1, true, seconds,
            [&](auto& stream) { stream.throttle_writes(weir::throttle(bytes)); });
    }
    asio::io_context context(1);
    measure<beast_stream>(
        context, "1 stream, 1 MB/s, Beast's simple_rate_policy", 1e6, 1, true, seconds,
        [](auto& stream) { stream.rate_policy().write_limit(1'000'000); });
    measure<beast_stream>(context, "100 streams of 100 KB/s, simple_rate_policy", 10e6, 100, true,
                          seconds, [](auto& stream) { stream.rate_policy().write_limit(100'000); });
}

}  // namespace

int main(int argc, char** argv) {
    double seconds = 10;
    constexpr std::string_view option = "--seconds=";
    for (int i = 1; i < argc; ++i) {
        std::string_view const argument = argv[i];
        if (argument.starts_with(option))
            seconds = std::strtod(argv[i] + option.size(), nullptr);
        if (!argument.starts_with(option) || !(seconds > 0)) {
            fmt::print(stderr, "bench_throttled [--seconds=N]\n");
            return 1;
        }
    }
    bench::idle_thread const other;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    fmt::print("a stream: {} bytes beside the {} of the socket\n\n",
               sizeof(socket_stream) - sizeof(tcp::socket), sizeof(tcp::socket));
    for (bool const reads : {false, true})
        measure_cost(reads, seconds);
    measure_exactness(seconds);
}
