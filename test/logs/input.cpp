// The lines of a log: of plain and compressed files, and of a pipe.

#include "logs/input.hpp"

#include "support/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <future>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

// Files of this folder are compiled together.
namespace inputs {
namespace {

using namespace std::chrono_literals;
using logs::line_source;

// A log with the given bytes.
class log_file {
public:
    explicit log_file(std::string_view bytes) { std::ofstream(path(), std::ios::binary) << bytes; }
    [[nodiscard]] std::string path() const { return folder_ / "log"; }

private:
    support::temporary_folder folder_{"weir-input-"};
};

// A check on any thread; Boost.Test's are for one thread at a time.
void must(bool holds) {
    if (!holds)
        throw std::system_error(errno, std::generic_category());
}

// A named pipe.
class pipe {
public:
    pipe() { BOOST_REQUIRE(::mkfifo(path().c_str(), 0600) == 0); }
    [[nodiscard]] std::string path() const { return folder_ / "pipe"; }
    // Opens the end for writing: waits for a reader.
    [[nodiscard]] int open() const {
        int const file = ::open(path().c_str(), O_WRONLY | O_CLOEXEC);
        must(file >= 0);
        return file;
    }
    // Writes each byte after the reader has taken the previous one.
    void put_one_by_one(std::string_view bytes) const {
        int const file = open();
        for (char const c : bytes) {
            must(::write(file, &c, 1) == 1);
            for (int unread = 1; unread != 0; std::this_thread::yield())
                if (::ioctl(file, FIONREAD, &unread) != 0)
                    break;
        }
        ::close(file);
    }

private:
    support::temporary_folder folder_{"weir-input-"};
};

void put(int file, std::string_view text) {
    must(::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

struct text_line {
    std::string text;
    std::uint64_t number = 0;
    bool is_whole = true;

    friend bool operator==(text_line const&, text_line const&) = default;
    friend std::ostream& operator<<(std::ostream& out, text_line const& l) {
        return out << l.number << (l.is_whole ? ": " : " (cut): ") << l.text.substr(0, 40) << " of "
                   << l.text.size();
    }
};

std::vector<text_line> rest_of(line_source& in) {
    std::vector<text_line> all;
    for (logs::line l; in.next(l);)
        all.push_back({std::string(l.text), l.number, l.is_whole});
    return all;
}
std::vector<text_line> lines_of(std::string_view bytes) {
    log_file const log(bytes);
    line_source in(log.path());
    return rest_of(in);
}
std::vector<std::string> first_of(std::string_view bytes, std::size_t most) {
    log_file const log(bytes);
    return line_source(log.path()).first_lines(most);
}

std::string many_lines() {
    std::string all;
    for (int i = 0; i != 100'000; ++i)
        all += "line " + std::to_string(i) + '\n';
    return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lines_of_a_log)

BOOST_AUTO_TEST_CASE(have_numbers_and_no_line_ends) {
    using lines = std::vector<text_line>;
    auto const abc = lines{{"a", 1}, {"", 2}, {"c", 3}};
    BOOST_TEST(lines_of("a\n\nc\n") == abc);
    BOOST_TEST(lines_of("a\r\n\r\nc\r\n") == abc);
    BOOST_TEST(lines_of("a\n\nc") == abc);
    BOOST_TEST(lines_of("a\n\nc\r") == abc);
    BOOST_TEST(lines_of("a\rb\n") == (lines{{"a\rb", 1}}));
}

BOOST_AUTO_TEST_CASE(are_all_of_a_file_that_exceeds_the_buffer) {
    auto const text = many_lines();
    log_file const log(text);
    line_source in(log.path());
    BOOST_TEST(in.size() == text.size());
    std::string read;
    std::uint64_t number = 0;
    for (logs::line l; in.next(l); read += '\n') {
        read += l.text;
        BOOST_TEST_REQUIRE(l.number == ++number);
    }
    BOOST_TEST((read == text));
    BOOST_TEST(in.position() == text.size());
}

BOOST_AUTO_TEST_CASE(of_more_than_64_kilobytes_are_cut) {
    std::string const longest(line_source::most_line, 'x');
    for (std::size_t const size :
         {longest.size(), longest.size() + 1, 5 * longest.size(), 100 * longest.size()}) {
        BOOST_TEST_CONTEXT(size) {
            auto const found = lines_of("a\n" + std::string(size, 'x') + "\nb\nc\n");
            BOOST_TEST(found ==
                       (std::vector<text_line>{
                           {"a", 1}, {longest, 2, size == longest.size()}, {"b", 3}, {"c", 4}}));
            auto const last = lines_of("a\n" + std::string(size, 'x'));
            BOOST_TEST(last ==
                       (std::vector<text_line>{{"a", 1}, {longest, 2, size == longest.size()}}));
        }
    }
}

BOOST_AUTO_TEST_CASE(can_be_looked_at_before_they_are_read) {
    using texts = std::vector<std::string>;
    BOOST_TEST(first_of("a\nb\nc\n", 2) == (texts{"a", "b"}));
    BOOST_TEST(first_of("a\r\n\r\nc\n", 3) == (texts{"a", "c"}));  // without empty lines
    BOOST_TEST(first_of("a\nb\nc", 3) == (texts{"a", "b"}));       // the last one may be incomplete
    BOOST_TEST(first_of("a", 3) == (texts{"a"}));
    log_file const log("a\nb\n");
    line_source in(log.path());
    BOOST_TEST(in.first_lines(2).size() == 2U);
    BOOST_TEST(rest_of(in).size() == 2U);
}

BOOST_AUTO_TEST_CASE(of_a_pipe_may_arrive_byte_by_byte) {
    auto const reads = [](std::string_view bytes) {
        pipe const p;
        std::thread writer([&] { p.put_one_by_one(bytes); });
        std::string found;
        try {
            line_source in(p.path());
            for (logs::line l; in.next(l);)
                found += std::string(l.text) + ';';
        } catch (logs::input_error const& e) {
            found = e.what();
        }
        writer.join();
        return found;
    };
    BOOST_TEST(reads("ab\ncd\nef") == "ab;cd;ef;");
    BOOST_TEST(reads("a") == "a;");
    // The first 6 bytes are the mark of xz.
    auto const why = reads(std::string_view("\xfd"
                                            "7zXZ\0",
                                            6));
    BOOST_TEST(why.find("is compressed with xz") != why.npos, why);
}

BOOST_AUTO_TEST_CASE(of_a_pipe_end_when_the_caller_wants_it) {
    pipe const p;
    std::promise<void> done;
    auto is_done = std::future_status::timeout;
    std::thread writer([&] {
        int const file = p.open();
        put(file, "ab\ncd\n");
        // The pipe stays open. A reader that waits for its end fails.
        is_done = done.get_future().wait_for(20s);
        ::close(file);
    });
    std::atomic<bool> const stop = true;
    line_source in(p.path(), &stop);
    BOOST_TEST(rest_of(in) == (std::vector<text_line>{{"ab", 1}, {"cd", 2}}));
    done.set_value();
    writer.join();
    BOOST_TEST((is_done == std::future_status::ready));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace inputs
