#include "shared/postgres/server.hpp"

#include <fmt/format.h>

#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

namespace support {
namespace {

namespace fs = std::filesystem;

// Debian has a folder of programs for each version.
fs::path folder_of_programs() {
    fs::path newest;
    std::error_code ignored;
    for (auto const& version : fs::directory_iterator("/usr/lib/postgresql", ignored)) {
        auto const folder = version.path() / "bin";
        if (fs::exists(folder / "initdb") && fs::exists(folder / "postgres") && folder > newest)
            newest = folder;
    }
    return newest;
}

passwd const* user_for_root() {
    return ::getuid() == 0 ? ::getpwnam("postgres") : nullptr;
}

void give(fs::path const& file) {
    auto const* const to = user_for_root();
    if (to && ::chown(file.c_str(), to->pw_uid, to->pw_gid) != 0)
        throw std::system_error(errno, std::generic_category(), "chown");
}

std::vector<pid_t> children_of(pid_t parent) {
    std::ifstream in(fmt::format("/proc/{0}/task/{0}/children", parent));
    return {std::istream_iterator<pid_t>(in), {}};
}

}  // namespace

bool postgres_server::is_here() {
    return !folder_of_programs().empty() && (::getuid() != 0 || user_for_root());
}

std::vector<std::string> postgres_server::command(char const* program) {
    std::vector<std::string> words;
    if (user_for_root())
        words = {"/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
                 "--pdeathsig=KILL"};
    words.push_back(folder_of_programs() / program);
    return words;
}

postgres_server::postgres_server(std::vector<std::string> options) : options_(std::move(options)) {
    fs::path const folder = folder_.string();
    give(folder);
    std::ofstream(folder / "empty");
    auto set_up = command("initdb");
    set_up.insert(set_up.end(), {"--pgdata=" + (folder / "data").string(), "--username=postgres",
                                 "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"});
    if (server_process::run(set_up, folder / "empty", folder / "log") != 0)
        throw std::runtime_error("PostgreSQL could not be set up in " + folder.string());
    std::ofstream(folder / "data" / "pg_hba.conf")
        << "local all all trust\n"
           "host all guest 127.0.0.1/32 scram-sha-256\n"
           "host all all 127.0.0.1/32 trust\n";
    start();
    postgres_session(*this, "postgres", "postgres").query("create database weir");
}

// The processes of a server whose first one was killed may outlive it for a moment: so it ends them itself.
postgres_server::~postgres_server() {
    if (process_.pid() == 0)
        return;
    try {
        send(SIGCONT);
        send(SIGKILL);
    } catch (std::system_error const&) {  // it has ended
    }
    process_.wait_for_end();
}

void postgres_server::start() {
    auto words = command("postgres");
    words.insert(words.end(), {"-D", folder_ / "data", "-k", folder_.string(), "-p",
                               std::to_string(port()), "-h", "127.0.0.1", "-c", "fsync=off", "-c",
                               "shared_buffers=16MB", "-c", "max_connections=60", "-c", "jit=off"});
    words.insert(words.end(), options_.begin(), options_.end());
    process_.start(words, "database system is ready to accept connections");
}

void postgres_server::restart() {
    process_.wait_for_end();
    start();
}

void postgres_server::send(int signal) const {
    if (signal == SIGKILL) {
        process_.send(SIGQUIT);
        siginfo_t ignored;
        while (::waitid(P_PID, static_cast<id_t>(process_.pid()), &ignored, WEXITED | WNOWAIT) !=
                   0 &&
               errno == EINTR) {}
        return;
    }
    process_.send(signal);
    for (auto const child : children_of(process_.pid()))
        ::kill(child, signal);
}

std::string postgres_server::url(std::string const& user) const {
    return postgres_url_of(socket(), user);
}

std::string postgres_server::url_over_tcp(std::string const& user, std::string const& more) const {
    return fmt::format("postgresql://{}@127.0.0.1:{}/weir{}", user, port(), more);
}

boost::test_tools::assertion_result if_postgres_is_here(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result result(postgres_server::is_here());
    result.message() << "there is no PostgreSQL server; to mend it, run test/setup";
    return result;
}

// The server reads the key as its own user.
std::vector<std::string> postgres_tls_options(certificate const& of_server) {
    fs::path const key(of_server.key());
    give(key.parent_path());
    give(key);
    fs::permissions(key, fs::perms::owner_read | fs::perms::owner_write);
    return {"-c", "ssl=on",
            "-c", "ssl_key_file=" + of_server.key(),
            "-c", "ssl_cert_file=" + of_server.file()};
}

// libpq requires a certain name.
std::string postgres_url_of(std::string const& socket, std::string const& user) {
    constexpr std::string_view prefix = ".s.PGSQL.";
    fs::path const path(socket);
    auto const name = path.filename().string();
    auto const folder = path.parent_path();
    std::string port = "5432";
    if (name.starts_with(prefix)) {
        port = name.substr(prefix.size());
    } else if (auto const link = folder / ".s.PGSQL.5432"; !fs::is_symlink(link)) {
        fs::create_symlink(path, link);
    }
    return fmt::format("postgresql:///weir?host={}&port={}&user={}", folder.string(), port, user);
}

// ---- Sessions

namespace {

using rows = std::vector<postgres_session::row>;

std::string hex_of(std::string const& bytes) {
    std::string hex;
    for (char const c : bytes)
        hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return hex;
}

rows rows_of(PGresult* result) {
    std::unique_ptr<PGresult, decltype(&PQclear)> const owner(result, &PQclear);
    auto const status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        auto const* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        throw postgres_error(state ? state : "", PQresultErrorMessage(result));
    }
    rows all(static_cast<std::size_t>(PQntuples(result)));
    for (int i = 0; i != PQntuples(result); ++i) {
        for (int k = 0; k != PQnfields(result); ++k)
            all[static_cast<std::size_t>(i)].emplace_back(
                PQgetisnull(result, i, k) != 0 ? "NULL" : PQgetvalue(result, i, k));
    }
    return all;
}

}  // namespace

struct postgres_session::body {
    std::unique_ptr<PGconn, decltype(&PQfinish)> connection;
};

postgres_session::postgres_session(postgres_server const& server, std::string const& user,
                                   std::string const& database)
    : body_(new body{{nullptr, &PQfinish}}) {
    auto const& socket = server.socket();
    auto const where =
        fmt::format("host={} port={} user={} dbname={}", fs::path(socket).parent_path().string(),
                    server.port(), user, database);
    body_->connection.reset(PQconnectdb(where.c_str()));
    if (PQstatus(body_->connection.get()) != CONNECTION_OK)
        throw postgres_error("", PQerrorMessage(body_->connection.get()));
    query("set client_min_messages = warning");
}
postgres_session::postgres_session(postgres_session&&) noexcept = default;
postgres_session::~postgres_session() = default;

rows postgres_session::query(std::string const& text) {
    return rows_of(PQexec(body_->connection.get(), text.c_str()));
}

rows postgres_session::query(std::string const& text, std::vector<value> const& values) {
    constexpr Oid bytea = 17;
    constexpr Oid bigint = 20;
    std::vector<std::string> texts;
    std::vector<Oid> types;
    for (auto const& v : values) {
        auto const* const number = std::get_if<std::int64_t>(&v);
        texts.push_back(
            number ? std::to_string(*number) : "\\x" + hex_of(std::get<std::string>(v)));
        types.push_back(number ? bigint : bytea);
    }
    std::vector<char const*> bytes;
    for (auto const& one : texts)
        bytes.push_back(one.c_str());
    return rows_of(
        PQexecParams(body_->connection.get(), text.c_str(), static_cast<int>(bytes.size()),
                     types.data(), bytes.data(), nullptr, nullptr, 0));
}

std::string postgres_session::value_of(std::string const& text) {
    return query(text).at(0).at(0);
}

std::int64_t postgres_session::number(std::string const& text) {
    return std::stoll(value_of(text));
}

std::future<rows> postgres_session::start(std::string text) {
    return std::async(std::launch::async, [this, text = std::move(text)] { return query(text); });
}

void wait_for_lock_waits(postgres_session& s, int how_many) {
    while (s.number("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") !=
           how_many) {}
}

void end_connections(postgres_session& s, std::string const& user) {
    s.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = '" + user +
            "' and pid <> pg_backend_pid()");
}

std::string bytea_of(std::string const& bytes) {
    return "'\\x" + hex_of(bytes) + "'::bytea";
}

}  // namespace support
