#include "shared/mysql/server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace support {
namespace {

namespace fs = std::filesystem;

constexpr std::array programs{"/usr/sbin/mariadbd", "/usr/bin/mariadbd"};
constexpr std::array scripts{"/usr/share/mysql", "/usr/share/mariadb"};

template <class Places>
fs::path first_of(Places const& places) {
    for (auto const* const place : places) {
        if (fs::exists(place))
            return place;
    }
    return {};
}

void check(int result, char const* what) {
    if (result != 0)
        throw std::system_error(result == -1 ? errno : result, std::generic_category(), what);
}

std::uint16_t free_port() {
    int const s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    check(::bind(s, reinterpret_cast<sockaddr*>(&any), sizeof any), "bind");
    socklen_t size = sizeof any;
    check(::getsockname(s, reinterpret_cast<sockaddr*>(&any), &size), "getsockname");
    ::close(s);
    return ntohs(any.sin_port);
}

// With the given standard input and error; what it says there goes nowhere else. It dies with this program.
pid_t spawn(std::vector<std::string> const& arguments, int in, int err) {
    std::vector<char*> argv;
    for (auto const& a : arguments)
        argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    auto const pid = ::fork();
    if (pid == -1)
        throw std::system_error(errno, std::generic_category(), "fork");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(in, 0);
        ::dup2(err, 1);
        ::dup2(err, 2);
        ::execv(argv[0], argv.data());
        ::_exit(127);
    }
    return pid;
}

int end_of(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) == -1 && errno == EINTR) {}
    return status;
}

// Sets up the system tables, as mariadb-install-db does.
void write_bootstrap(fs::path const& file) {
    std::ofstream out(file);
    out << "create database mysql;\nuse mysql;\nset @auth_root_socket = null;\n";
    auto const folder = first_of(scripts);
    for (auto const* const name : {"mysql_system_tables.sql", "mysql_system_tables_data.sql"})
        out << std::ifstream(folder / name).rdbuf();
    out << "\ncreate database weir;\n";
}

}  // namespace

bool mariadb_server::is_here() {
    return !first_of(programs).empty() && fs::exists(first_of(scripts) / "mysql_system_tables.sql");
}

mariadb_server::mariadb_server(std::vector<std::string> options) : options_(std::move(options)) {
    fs::create_directory(folder_ / "data");
    fs::create_directory(
        folder_ / "tmp");  // a server that starts tidies up what it takes for its own
    write_bootstrap(folder_ / "bootstrap.sql");

    std::vector<std::string> const arguments{
        first_of(programs),
        "--no-defaults",
        "--bootstrap",
        "--user=root",
        "--skip-name-resolve",
        "--datadir=" + (folder_ / "data").string(),
        "--tmpdir=" + (folder_ / "tmp").string(),
        "--innodb-log-file-size=8M"};
    int const in = ::open((folder_ / "bootstrap.sql").c_str(), O_RDONLY | O_CLOEXEC);
    int const log =
        ::open((folder_ / "bootstrap.log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    auto const pid = spawn(arguments, in, log);
    ::close(in);
    ::close(log);
    if (end_of(pid) != 0)
        throw std::runtime_error("mariadbd could not be set up in " + folder_.string());
    start();
}

mariadb_server::~mariadb_server() {
    ::kill(pid_, SIGKILL);
    wait_for_end();
}

void mariadb_server::send(int signal) const {
    check(::kill(pid_, signal), "kill");
}

void mariadb_server::restart() {
    wait_for_end();
    start();
}

void mariadb_server::wait_for_end() {
    end_of(std::exchange(pid_, 0));
    ::close(std::exchange(log_, -1));
}

// Until it says that it is ready.
void mariadb_server::start() {
    if (port_ == 0)
        port_ = free_port();
    std::vector<std::string> arguments{
        first_of(programs),
        "--no-defaults",
        "--user=root",
        "--skip-name-resolve",
        "--bind-address=127.0.0.1",
        "--innodb-buffer-pool-size=32M",
        "--innodb-log-file-size=8M",
        "--innodb-flush-log-at-trx-commit=2",
        "--datadir=" + (folder_ / "data").string(),
        "--tmpdir=" + (folder_ / "tmp").string(),
        "--socket=" + socket(),
        "--port=" + std::to_string(port_)};
    arguments.insert(arguments.end(), options_.begin(), options_.end());
    std::array<int, 2> pipe{};
    check(::pipe2(pipe.data(), O_CLOEXEC), "pipe2");
    int const in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_ = spawn(arguments, in, pipe[1]);
    ::close(in);
    ::close(pipe[1]);
    log_ = pipe[0];

    std::string said;
    for (std::array<char, 4096> part{}; said.find("ready for connections") == said.npos;) {
        auto const n = ::read(log_, part.data(), part.size());
        if (n <= 0)
            throw std::runtime_error("mariadbd did not start:\n" + said);
        said.append(part.data(), static_cast<std::size_t>(n));
    }
    // What it says from now on is of no interest, and must not hold it up.
    ::fcntl(log_, F_SETPIPE_SZ, 1 << 20);
}

boost::test_tools::assertion_result if_mariadb_is_here(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result result(mariadb_server::is_here());
    result.message() << "there is no mariadbd; to mend it, run test/setup";
    return result;
}

}  // namespace support
