// Measures the cost of decisions by limiters in a Redis server, with one request to the store per decision: 1, 16 and
// 128 callers, each with its own limiter, whose requests are sent together. Floor: hiredis sends the same script, as
// many at a time. Also measures 128 callers of one limiter, which share requests. The server runs alone on one
// processor.

#include <weir/redis/store.hpp>

#include "in_turns.hpp"
#include "shared/redis/server.hpp"
#include "shared_callers.hpp"
#include "weir/redis/scripts.hpp"

#include <boost/asio/io_context.hpp>

#include <hiredis/hiredis.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
namespace detail = weir::redis::detail;
using bench::plenty;
using std::chrono::steady_clock;

/// Sends the script with hiredis only, for the given number of callers at a time.
class raw_client {
public:
    raw_client(std::string const& socket, int callers)
        : context_(redisConnectUnix(socket.c_str())) {
        if (!context_ || context_->err != 0)
            throw std::runtime_error("cannot connect to the server");
        auto const& text = detail::text_of(detail::script::take);
        auto const loaded = say({"SCRIPT", "LOAD", text});
        for (int i = 0; i != callers; ++i) {
            auto& words = questions_.emplace_back(std::vector<std::string>{
                "EVALSHA", loaded, "1",
                detail::key_of(detail::script::take, "floor" + std::to_string(i))});
            auto const more = detail::arguments_of(weir::store::question{
                .bucket = weir::policy::shared_bucket::of(plenty), .ahead = 1s});
            words.insert(words.end(), more.begin(), more.end());
        }
    }
    raw_client(raw_client const&) = delete;
    raw_client& operator=(raw_client const&) = delete;
    ~raw_client() { redisFree(context_); }

    std::int64_t operator()(steady_clock::time_point until) {
        std::int64_t done = 0;
        while (steady_clock::now() < until) {
            for (auto const& words : questions_)
                append(words);
            for (std::size_t i = 0; i != questions_.size(); ++i) {
                void* answer = nullptr;
                if (redisGetReply(context_, &answer) != REDIS_OK)
                    throw std::runtime_error(context_->errstr);
                auto const* const r = static_cast<redisReply*>(answer);
                done += r->type == REDIS_REPLY_ARRAY && r->element[0]->integer == 1;
                freeReplyObject(answer);
            }
        }
        return done;
    }

private:
    void append(std::vector<std::string> const& words) {
        starts_.clear();
        sizes_.clear();
        for (auto const& w : words) {
            starts_.push_back(w.data());
            sizes_.push_back(w.size());
        }
        redisAppendCommandArgv(
            context_, static_cast<int>(words.size()), starts_.data(), sizes_.data());
    }
    std::string say(std::vector<std::string> const& words) {
        append(words);
        void* answer = nullptr;
        if (redisGetReply(context_, &answer) != REDIS_OK)
            throw std::runtime_error(context_->errstr);
        std::string said = static_cast<redisReply*>(answer)->str;
        freeReplyObject(answer);
        return said;
    }

    redisContext* context_;
    std::vector<std::vector<std::string>> questions_;
    std::vector<char const*> starts_;
    std::vector<std::size_t> sizes_;
};

}  // namespace

int main(int argc, char** argv) {
    auto const length = bench::length_of_round(argc, argv, 0.5);
    bench::stay_on(0);
    support::redis_server const server;
    bench::stay_on(1);
    weir::redis::options const where{
        .url = server.url(), .connect_timeout = 10s, .silent_for = 10s};
    auto const connect = [&](asio::io_context& ctx) {
        return std::make_shared<weir::redis::store>(ctx, where);
    };
    constexpr int rounds = 7;
    for (int const callers : {1, 16, 128}) {
        raw_client raw(server.socket(), callers);
        bench::shared_callers mine(connect, bench::names(callers));
        bench::print(fmt::format("decisions, {} callers", callers),
                     bench::in_turns(rounds, length, raw, mine));
    }
    raw_client raw(server.socket(), 1);
    bench::shared_callers crowd(connect, bench::names(1), 128);
    bench::print("decisions, 128 callers at one limiter",
                 bench::in_turns(rounds, length, raw, crowd));
}
