#include <weir/shared/limiter.hpp>
#include <weir/testing.hpp>

#include "shared/distant_store.hpp"
#include "support/random_source.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

// How much many processes ask one store, in virtual time: the tables of the page.

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::amount;
using weir::testing::timer;

struct setting {
    int processes = 0;
    amount rate = 10'000;  // per second
    std::optional<amount> burst = {};
    double demand = 0;  // of the rate, spread at random over time and processes
    amount prefetch = 0;
    weir::duration prefetch_time = 100ms;
};

struct outcome {
    double granted = 0;  // of the lesser of demand and rate
    double questions_per_grant = 0;
    double lapsed = 0;  // of the permits that the store granted
    double jain = 0;    // of the grants to the processes
};

// Processes whose requests wait for up to a second.
class crowd {
public:
    explicit crowd(setting const& s) : setting_(s), random_(7) {
        weir::testing::seed(7);
        auto const ledger = std::make_shared<weir::detail::bucket_ledger>();
        auto const store = std::make_shared<support::distant_store>(ctx_, ledger, 1ms);
        weir::shared_options options{
            .rate = {s.rate, 1s}, .burst = s.burst, .prefetch = s.prefetch};
        if (s.prefetch != 0)
            options.prefetch_time = s.prefetch_time;
        for (int i = 0; i != s.processes; ++i)
            limiters_.push_back(std::make_unique<limiter>(ctx_, store, "limit", options));
        grants_.resize(limiters_.size());
        request_later();
    }

    // Measures for `time`, after as much time in which the burst is used up and the prefetches grow.
    outcome watch(std::chrono::seconds time) {
        weir::testing::run_for(ctx_, 2 * time);
        auto const before = counted();
        grants_.assign(grants_.size(), 0);
        weir::testing::run_for(ctx_, time);
        auto const now = counted();

        double all = 0;
        double squares = 0;
        for (auto const n : grants_) {
            all += n;
            squares += n * n;
        }
        auto const wanted = static_cast<double>(setting_.rate) * std::min(1.0, setting_.demand);
        return {.granted = all / wanted / static_cast<double>(time.count()),
                .questions_per_grant = static_cast<double>(now.questions - before.questions) / all,
                .lapsed = static_cast<double>(now.lapsed - before.lapsed) /
                          static_cast<double>(now.granted - before.granted),
                .jain = all * all / squares / static_cast<double>(grants_.size())};
    }

    ~crowd() {
        is_over_ = true;
        for (auto& l : limiters_)
            l->close();
        weir::testing::run_for(ctx_, 2s);
    }

private:
    using limiter = weir::basic_shared_token_bucket<asio::any_io_executor, timer>;

    struct counts {
        std::uint64_t questions = 0;
        amount granted = 0;
        amount lapsed = 0;
    };
    [[nodiscard]] counts counted() const {
        counts all;
        for (auto const& l : limiters_) {
            auto const stats = l->shared_stats();
            all.questions += stats.questions;
            all.granted += stats.granted;
            all.lapsed += stats.lapsed;
        }
        return all;
    }

    // The time between two requests is exponentially distributed.
    void request_later() {
        auto const share = static_cast<double>((random_.bits() >> 11) + 1) * 0x1p-53;
        auto const mean = 1e9 / (static_cast<double>(setting_.rate) * setting_.demand);
        next_.expires_after(std::chrono::nanoseconds(std::llround(-mean * std::log(share))));
        next_.async_wait([this](weir::error_code ec) {
            if (ec || is_over_)
                return;
            request(random_.index_in(limiters_));
            request_later();
        });
    }
    void request(std::size_t process) {
        limiters_[process]->async_enter(
            weir::patience(1s), [this, process](weir::error_code ec, weir::permit const&) {
                if (!ec)
                    ++grants_[process];
            });
    }

    setting setting_;
    support::random_source random_;
    asio::io_context ctx_;
    timer next_{ctx_};
    bool is_over_ = false;
    std::vector<std::unique_ptr<limiter>> limiters_;
    std::vector<double> grants_;
};

// Compares the row of the page that begins with `head` with the measured numbers.
void compare(std::string const& head, std::vector<double> const& measured) {
    auto row = head;
    row += fmt::format(" {:.2f} | {:.2f}, {:.1f} % | {:.2f}, {:.1f} % |", measured[0], measured[1],
                       measured[2], measured[3], measured[4]);
    BOOST_TEST_MESSAGE(row);
    std::ifstream page(WEIR_PAGE);
    std::string line;
    while (std::getline(page, line) && !line.starts_with(head))
        continue;
    BOOST_TEST_CONTEXT("measured: " << row << ", in " WEIR_PAGE ": " << line) {
        std::vector<double> stated;
        static std::regex const number("[0-9]+[.][0-9]+");
        for (std::sregex_iterator it(line.begin(), line.end(), number), end; it != end; ++it)
            stated.push_back(std::stod(it->str()));
        BOOST_TEST(stated.size() == measured.size());
        for (std::size_t i = 0; i != std::min(stated.size(), measured.size()); ++i) {
            bool const is_percentage = i == 2 || i == 4;  // with one digit behind the point
            auto const slack = (is_percentage ? 0.051 : 0.0051) + 0.02 * measured[i];
            BOOST_TEST(std::abs(stated[i] - measured[i]) <= slack);
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(load_simulation)

BOOST_AUTO_TEST_CASE(agrees_with_the_table_of_the_page) {
    for (int const processes : {10, 100, 1'000, 10'000, 100'000}) {
        std::vector<double> measured;
        for (auto const prefetch_time : {0ms, 100ms, 1'000ms}) {
            crowd c({.processes = processes,
                     .demand = 0.8,
                     .prefetch = prefetch_time == 0ms ? 0 : 5'000,
                     .prefetch_time = prefetch_time});
            auto const o = c.watch(3s);
            BOOST_TEST(o.granted >= 0.98);
            BOOST_TEST(o.granted <= 1.02);
            measured.push_back(o.questions_per_grant);
            if (prefetch_time != 0ms)
                measured.push_back(100 * o.lapsed);
        }
        compare(fmt::format("| {} |", processes), measured);
    }
}

// The patience of each request at the head of a queue is almost over.
BOOST_AUTO_TEST_CASE(processes_in_an_overload_get_equal_shares) {
    for (int const processes : {10, 100}) {
        crowd c({.processes = processes, .demand = 2});
        auto const o = c.watch(3s);
        BOOST_TEST(o.granted >= 0.99);
        BOOST_TEST(o.granted <= 1.01);
        BOOST_TEST(o.jain >= 0.99);
        BOOST_TEST(o.questions_per_grant <= 0.11);
    }
}

// A rejection is remembered until permits may be free.
BOOST_AUTO_TEST_CASE(rejections_that_repeat_cause_no_questions) {
    for (int const processes : {1, 2, 8})
        for (amount const rate : {20, 100})
            for (double const demand : {1.5, 20.0}) {
                crowd c({.processes = processes, .rate = rate, .burst = 1, .demand = demand});
                auto const o = c.watch(20s);
                BOOST_TEST(o.granted >= 0.99);
                BOOST_TEST(o.questions_per_grant <= 1.05);
            }
}

BOOST_AUTO_TEST_SUITE_END()
