// The file of an access log: which lines it contains, and which are dropped.

#include "tool/log_file.hpp"

#include "support/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

// Files of this folder are compiled together.
namespace log_files {
namespace {

namespace fs = std::filesystem;

struct folder {
    folder() {
        for (int const s : {SIGPIPE, SIGXFSZ})
            std::signal(s, SIG_IGN);
    }
    [[nodiscard]] std::string path(char const* file = "log") const { return made_ / file; }
    [[nodiscard]] std::string text(char const* file = "log") const {
        std::ifstream in(path(file), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    /// Renames the log, and lets the writer reopen it.
    void rotate(tool::log_file& log, char const* to) const {
        fs::rename(path(), path(to));
        log.reopen();
        while (!fs::exists(path()))
            std::this_thread::yield();
    }

private:
    support::temporary_folder made_{"weir-log-file-"};
};

/// The largest size of a file of this process.
class size_limit {
public:
    explicit size_limit(std::size_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        auto now = before_;
        now.rlim_cur = bytes;
        BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
    }
    size_limit(size_limit const&) = delete;
    ~size_limit() { lift(); }
    void lift() const { ::setrlimit(RLIMIT_FSIZE, &before_); }

private:
    rlimit before_{};
};

std::string line(std::size_t size, char of = 'x') {
    return std::string(size - 1, of) + '\n';
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(a_log_file, folder)

BOOST_AUTO_TEST_CASE(contains_all_lines_at_its_end) {
    {
        tool::log_file log(path());
        log.write("a\n");
        log.write("b\n");
        log.end();
        BOOST_TEST(text() == "a\nb\n");
        BOOST_TEST(log.dropped() == 0U);
    }
    {
        tool::log_file log(path());
        log.write("c\n");
    }
    BOOST_TEST(text() == "a\nb\nc\n");
}

BOOST_AUTO_TEST_CASE(keeps_a_mebibyte_and_drops_more) {
    constexpr std::size_t most = 1024 * 1024;
    tool::log_file log(path());
    log.write(line(most + 1));
    log.write(line(most));
    log.end();
    BOOST_TEST(log.dropped() == 1U);
    BOOST_TEST(text().size() == most);
}

BOOST_AUTO_TEST_CASE(is_reopened_when_it_is_told_so_and_at_no_other_time) {
    tool::log_file log(path());
    rotate(log, "first");
    fs::rename(path(), path("second"));
    log.write("a\n");
    log.end();
    BOOST_TEST(!fs::exists(path()));
    BOOST_TEST(text("first").empty());
    BOOST_TEST(text("second") == "a\n");
}

BOOST_AUTO_TEST_CASE(counts_each_line_that_its_reader_does_not_get) {
    BOOST_REQUIRE(::mkfifo(path().c_str(), 0600) == 0);
    int const reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    BOOST_REQUIRE(reader >= 0);
    tool::log_file log(path());
    ::close(reader);
    for (int i = 0; i != 100; ++i)
        log.write("a\n");
    log.end();
    BOOST_TEST(log.dropped() == 100U);
}

BOOST_AUTO_TEST_CASE(separates_a_line_from_the_beginning_of_a_dropped_one) {
    size_limit const limit(256 * 1024);
    tool::log_file log(path());
    log.write(line(200 * 1024, 'a'));
    log.write(line(200 * 1024, 'b'));
    while (log.dropped() == 0)
        std::this_thread::yield();
    limit.lift();
    log.write("c\n");
    log.end();
    BOOST_TEST(log.dropped() == 1U);
    BOOST_TEST((text() == line(200 * 1024, 'a') + line(56 * 1024 + 1, 'b') + "c\n"));
}

BOOST_AUTO_TEST_CASE(does_not_begin_with_the_separator_of_another_one) {
    size_limit const limit(256 * 1024);
    tool::log_file log(path());
    log.write(line(300 * 1024));
    while (log.dropped() == 0)
        std::this_thread::yield();
    limit.lift();
    rotate(log, "old");
    log.write("c\n");
    log.end();
    BOOST_TEST(text() == "c\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace log_files
