#include "shared/redis/server.hpp"

#include <hiredis/hiredis.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace support {
namespace {

char const* const program =
    std::getenv("WEIR_REDIS_SERVER") ? std::getenv("WEIR_REDIS_SERVER") : "/usr/bin/redis-server";

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

namespace {

constexpr std::size_t slot_count = 16384;

std::vector<std::string> options_of_node(std::uint16_t bus, certificate const* own,
                                         std::uint16_t tls) {
    std::vector<std::string> options{
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        std::to_string(bus),
        "--cluster-node-timeout",
        "500",
        "--repl-diskless-sync-delay",
        "0"};
    if (own) {
        auto const more = tls_options(*own, tls);
        options.insert(options.end(), more.begin(), more.end());
        options.insert(options.end(),
                       {"--tls-cluster", "yes"});  // or it redirects to ports without TLS
    }
    return options;
}

}  // namespace

redis_cluster::one_node::one_node(certificate const* own)
    : server(options_of_node(bus.number(), own, tls.number())),
      id(redis_session(server).say({"CLUSTER", "MYID"})) {}

redis_cluster::redis_cluster(int primaries, int replicas, certificate const* of_nodes)
    : primaries_(static_cast<std::size_t>(primaries)) {
    for (int i = 0; i != primaries + replicas; ++i)
        nodes_.emplace_back(of_nodes);
    redis_session first(node(0));
    for (std::size_t i = 0; i != primaries_; ++i) {
        redis_session at(node(i));
        at.say({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
        at.say({"CLUSTER", "ADDSLOTSRANGE", std::to_string(slot_count * i / primaries_),
                std::to_string(slot_count * (i + 1) / primaries_ - 1)});
    }
    for (auto const& one : nodes_)
        first.say({"CLUSTER", "MEET", "127.0.0.1",
                   std::to_string(of_nodes ? one.tls.number() : one.server.port()),
                   std::to_string(one.bus.number())});
    wait_until_ok(size());
    for (std::size_t i = primaries_; i != size(); ++i) {
        redis_session at(node(i));
        auto const& primary = id(i - primaries_);
        wait_until("the replica knows its primary", [&] {
            try {
                at.say({"CLUSTER", "REPLICATE", primary});
                return true;
            } catch (redis_error const&) {
                return false;
            }
        });
        wait_until("the replica follows", [&] {
            return at.say({"INFO", "replication"}).find("master_link_status:up") !=
                   std::string::npos;
        });
        // A primary is replaced only if the others know its replica.
        wait_until("the nodes know the replica", [&] {
            for (std::size_t k = 0; k != primaries_; ++k) {
                auto const known = redis_session(node(k)).say({"CLUSTER", "REPLICAS", primary});
                if (known.find(id(i)) == std::string::npos)
                    return false;
            }
            return true;
        });
    }
}

std::size_t redis_cluster::owner_of(std::string const& key) {
    auto const slot = redis_session(node(0)).numbers({"CLUSTER", "KEYSLOT", key}).at(0);
    std::size_t i = 0;
    while (static_cast<std::size_t>(slot) >= slot_count * (i + 1) / primaries_)
        ++i;
    return i;
}

void redis_cluster::remove(std::size_t i) {
    redis_session leaver(node(i));
    leaver.say({"FLUSHALL"});
    leaver.say({"CLUSTER", "RESET", "HARD"});
    removed_.insert(i);
    for (std::size_t k = 0; k != size(); ++k)
        if (!removed_.contains(k))
            redis_session(node(k)).say({"CLUSTER", "FORGET", id(i)});
    redis_session(node(i == 0 ? 1 : 0))
        .say({"CLUSTER", "ADDSLOTSRANGE", std::to_string(slot_count * i / primaries_),
              std::to_string(slot_count * (i + 1) / primaries_ - 1)});
    wait_until_ok(size() - removed_.size());
}

void redis_cluster::wait_until_ok(std::size_t nodes_known) {
    auto const nodes = "cluster_known_nodes:" + std::to_string(nodes_known);
    for (std::size_t i = 0; i != size(); ++i) {
        if (removed_.contains(i))
            continue;
        auto& one = nodes_[i];
        wait_until("a node reports that the cluster works", [&] {
            auto const said = redis_session(one.server).say({"CLUSTER", "INFO"});
            return said.find("cluster_state:ok") != std::string::npos &&
                   said.find(nodes) != std::string::npos;
        });
    }
}

boost::test_tools::assertion_result if_redis_is_here(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result result(redis_server::is_here());
    result.message() << "there is no " << program << "; to mend it, run test/setup";
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
