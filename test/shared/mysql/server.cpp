#include "shared/mysql/server.hpp"

#include <array>
#include <fstream>
#include <stdexcept>
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
    fs::create_directory(folder_ / "tmp");  // a server cleans its temporary folder at its start
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
    if (server_process::run(arguments, folder_ / "bootstrap.sql", folder_ / "bootstrap.log") != 0)
        throw std::runtime_error("mariadbd could not be set up in " + folder_.string());
    start();
}

void mariadb_server::restart() {
    process_.wait_for_end();
    start();
}

void mariadb_server::start() {
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
        "--port=" + std::to_string(port())};
    arguments.insert(arguments.end(), options_.begin(), options_.end());
    process_.start(arguments, "ready for connections");
}

boost::test_tools::assertion_result if_mariadb_is_here(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result result(mariadb_server::is_here());
    result.message() << "there is no mariadbd; to mend it, run test/setup";
    return result;
}

}  // namespace support
