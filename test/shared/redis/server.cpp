#include "shared/redis/server.hpp"

#include <hiredis/hiredis.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace support {
namespace {

constexpr auto program = "/usr/bin/redis-server";

std::string text_of(redisReply const& r) {
    switch (r.type) {
        case REDIS_REPLY_NIL:
            return "(nil)";
        case REDIS_REPLY_INTEGER:
            return std::to_string(r.integer);
        case REDIS_REPLY_ARRAY: {
            std::string all;
            for (std::size_t i = 0; i != r.elements; ++i) {
                if (i != 0)
                    all += ' ';
                all += text_of(*r.element[i]);
            }
            return all;
        }
        default:
            return {r.str, r.len};
    }
}

}  // namespace

bool redis_server::is_here() {
    return std::filesystem::exists(program);
}

redis_server::redis_server(std::vector<std::string> options) : options_(std::move(options)) {
    start();
}

void redis_server::start(std::vector<std::string> const& more, std::string const& ready) {
    std::vector<std::string> arguments{
        program,
        "--bind",
        "127.0.0.1",
        "--port",
        std::to_string(port()),
        "--unixsocket",
        socket(),
        "--dir",
        folder_.string(),
        "--save",
        "",
        "--appendonly",
        "no"};
    arguments.insert(arguments.end(), options_.begin(), options_.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    process_.start(arguments, ready);
}

redis_sentinel::redis_sentinel(std::string const& name, std::uint16_t primary) {
    auto const file = folder_ / "sentinel.conf";
    auto const watched = "sentinel monitor " + name + " 127.0.0.1 " + std::to_string(primary);
    std::ofstream(file) << "bind 127.0.0.1\nport " << port_.number() << "\nunixsocket " << socket()
                        << "\ndir " << folder_.string() << '\n'
                        << watched << " 2\nsentinel down-after-milliseconds " << name
                        << " 500\nsentinel failover-timeout " << name << " 3000\n";
    process_.start({program, file, "--sentinel"}, "+monitor");
}

boost::test_tools::assertion_result if_redis_is_here(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result result(redis_server::is_here());
    result.message() << "there is no redis-server; to mend it, run test/setup";
    return result;
}

boost::test_tools::assertion_result if_redis_has_tls(boost::unit_test::test_unit_id id) {
    if (auto found = if_redis_is_here(id); !found)
        return found;
    return certificate::if_possible(id);
}

std::vector<std::string> tls_options(certificate const& of_server, std::uint16_t port) {
    return {"--tls-port",         std::to_string(port),
            "--tls-cert-file",    of_server.file(),
            "--tls-key-file",     of_server.key(),
            "--tls-ca-cert-file", of_server.file(),
            "--tls-auth-clients", "no"};
}

struct redis_session::body {
    redisContext* context = nullptr;
};

redis_session::redis_session(std::string const& socket)
    : body_(std::make_unique<body>(redisConnectUnix(socket.c_str()))) {
    if (!body_->context || body_->context->err != 0)
        throw redis_error("cannot connect");
}

redis_session::redis_session(redis_session&&) noexcept = default;

redis_session::~redis_session() {
    if (body_)
        redisFree(body_->context);
}

std::string redis_session::say(std::vector<std::string> const& words) {
    std::vector<char const*> starts;
    std::vector<std::size_t> sizes;
    for (auto const& w : words) {
        starts.push_back(w.data());
        sizes.push_back(w.size());
    }
    std::unique_ptr<void, void (*)(void*)> const answer(
        redisCommandArgv(body_->context, static_cast<int>(words.size()), starts.data(),
                         sizes.data()),
        &freeReplyObject);
    if (!answer)
        throw redis_error(body_->context->errstr);
    auto const& r = *static_cast<redisReply const*>(answer.get());
    if (r.type == REDIS_REPLY_ERROR)
        throw redis_error(text_of(r));
    return text_of(r);
}

std::vector<std::int64_t> redis_session::numbers(std::vector<std::string> const& words) {
    std::istringstream in(say(words));
    std::vector<std::int64_t> all;
    for (std::int64_t n = 0; in >> n;)
        all.push_back(n);
    return all;
}

}  // namespace support
