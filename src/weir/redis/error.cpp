#include <weir/redis/error.hpp>

#include "replies.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace weir::inline v0_2::redis {
namespace {

class category final : public boost::system::error_category {
public:
    // A random id: codes of two copies of the library in one program are equal.
    constexpr category() noexcept : error_category(0x911B'77FA'9623'0F61) {}

    char const* name() const noexcept override { return "weir.redis"; }

    std::string message(int code) const override {
        switch (static_cast<errc>(code)) {
            case errc::rejected:
                return "Redis returned an error";
            case errc::loading:
                return "the Redis server is loading its data";
            case errc::read_only:
                return "the Redis server is a read-only replica";
            case errc::out_of_memory:
                return "the Redis server reached maxmemory";
            case errc::moved:
                return "the redirections of the Redis Cluster lead nowhere";
            case errc::cluster_down:
                return "the Redis Cluster is incomplete or resharding";
            case errc::no_replicas:
                return "the Redis server has too few replicas (NOREPLICAS)";
            case errc::not_saved:
                return "the Redis server cannot save its data (MISCONF)";
            case errc::busy:
                return "the Redis server is busy with a script (BUSY)";
            case errc::wrong_password:
                return "Redis requires a password or rejected it";
            case errc::forbidden:
                return "the Redis user lacks permission (NOPERM)";
            case errc::wrong_kind:
                return "the key holds a value of another type (WRONGTYPE)";
            case errc::protocol:
                return "invalid reply from the Redis server";
            case errc::evicts:
                return "the Redis server may evict keys";
            case errc::certificate:
                return "the certificate of the Redis server is invalid";
            case errc::tls:
                return "TLS with the Redis server failed";
            case errc::unknown_primary:
                return "the Sentinel knows no primary of this name";
        }
        return "unknown weir.redis error " + std::to_string(code);
    }
};

using namespace std::string_view_literals;

// The error codes by the first word of an error reply.
constexpr std::array words{
    std::pair{"LOADING"sv, errc::loading},
    std::pair{"READONLY"sv, errc::read_only},
    std::pair{"MASTERDOWN"sv, errc::read_only},
    std::pair{"OOM"sv, errc::out_of_memory},
    std::pair{"MOVED"sv, errc::moved},
    std::pair{"ASK"sv, errc::moved},
    std::pair{"CLUSTERDOWN"sv, errc::cluster_down},
    std::pair{"TRYAGAIN"sv, errc::cluster_down},
    std::pair{"NOREPLICAS"sv, errc::no_replicas},
    std::pair{"MISCONF"sv, errc::not_saved},
    std::pair{"BUSY"sv, errc::busy},
    std::pair{"NOAUTH"sv, errc::wrong_password},
    std::pair{"WRONGPASS"sv, errc::wrong_password},
    std::pair{"NOPERM"sv, errc::forbidden},
    std::pair{"WRONGTYPE"sv, errc::wrong_kind},
    std::pair{"EVICTS"sv, errc::evicts},
};

// A server before Redis 7.0 does not know the first line of a script.
bool is_too_old(std::string_view text) noexcept {
    return text.find("compiling script") != text.npos && text.find("near '#'") != text.npos;
}

}  // namespace

boost::system::error_category const& error_category() noexcept {
    static category const instance;
    return instance;
}

error_code make_error_code(errc e) noexcept {
    return {static_cast<int>(e), error_category()};
}

error_code detail::error_of(std::string_view text) noexcept {
    auto const first = text.substr(0, text.find(' '));
    for (auto const& [word, error] : words) {
        if (first == word)
            return error;
    }
    return errc::rejected;
}

std::string_view detail::advice_on(std::string_view text) noexcept {
    return is_too_old(text) ? "; weir::redis needs Redis 7.0 or later" : "";
}

failure_kind detail::kind_of(error_code const& ec, std::string_view text) noexcept {
    bool const is_lasting = ec == errc::wrong_password || ec == errc::forbidden ||
                            ec == errc::wrong_kind || ec == errc::certificate || ec == errc::tls ||
                            ec == errc::unknown_primary || is_too_old(text);
    return is_lasting ? failure_kind::misconfigured : failure_kind::refused;
}

}  // namespace weir::inline v0_2::redis
