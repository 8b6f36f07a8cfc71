// Files with bodies for responses of the proxy.

#include "config/body.hpp"

#include "config/read.hpp"
#include "support/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace files_of_bodies {
namespace {

struct folder : support::temporary_folder {
    folder() : temporary_folder("weir-body-") {}

    void write(char const* name, std::string_view text) const {
        std::ofstream(*this / name, std::ios::binary) << text;
    }
    // Reads a file, relative to a configuration in this folder.
    [[nodiscard]] std::string read(std::string_view name) const {
        return config::read_body(name, (*this / "weir.toml").string());
    }
    [[nodiscard]] std::string wrong(std::string_view name) const {
        try {
            static_cast<void>(read(name));
        } catch (std::invalid_argument const& e) {
            return e.what();
        }
        return "nothing";
    }
    [[nodiscard]] std::string wrong_with(std::string_view bodies) const {
        try {
            static_cast<void>(config::read(
                fmt::format("[[upstream]]\nname = \"a\"\nservers = \"a:1\"\n{}", bodies),
                (*this / "weir.toml").string()));
        } catch (config::bad_configuration const& e) {
            return e.what();
        }
        return "nothing";
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_body)

BOOST_FIXTURE_TEST_CASE(is_found_relative_to_the_configuration, folder) {
    write("busy.html", "<p>Busy\n");
    std::filesystem::create_directory(*this / "more");
    write("more/other.txt", "other");
    BOOST_TEST(read("busy.html") == "<p>Busy\n");
    BOOST_TEST(read("more/other.txt") == "other");
    BOOST_TEST(read((*this / "busy.html").string()) == "<p>Busy\n");
    BOOST_TEST(wrong("none.html").starts_with("cannot read `none.html`: "));
}

BOOST_FIXTURE_TEST_CASE(has_at_most_1_mebibyte, folder) {
    constexpr std::size_t most = 1024 * 1024;
    write("most", std::string(most, 'a'));
    write("more", std::string(most + 1, 'a'));
    write("empty", "");
    BOOST_TEST(read("most").size() == most);
    BOOST_TEST(wrong("more") == "`more` has more than 1048576 bytes");
    BOOST_TEST(read("empty") == "");
}

// Reading a pipe could block, and reading a device might never end.
BOOST_FIXTURE_TEST_CASE(is_a_regular_file, folder) {
    std::filesystem::create_directory(*this / "folder");
    BOOST_TEST(wrong("folder") == "`folder` is not a regular file");
    BOOST_TEST(wrong("/dev/null") == "`/dev/null` is not a regular file");
    BOOST_TEST(wrong("/dev/zero") == "`/dev/zero` is not a regular file");
}

BOOST_FIXTURE_TEST_CASE(is_unique_for_each_status_and_type, folder) {
    write("a.html", "a");
    write("a.txt", "a");
    write("a.json", "{}");
    std::string const html = "[[body]]\nstatus = [429, 503]\nfile = \"a.html\"\n";
    BOOST_TEST(wrong_with(html + "[[body]]\nstatus = 503\nfile = \"a.txt\"\n"
                                 "[[body]]\nstatus = 503\nfile = \"a.json\"\n") == "nothing");
    BOOST_TEST(wrong_with(html + "[[body]]\nstatus = 404\nfile = \"a.html\"\n") == "nothing");
    BOOST_TEST(wrong_with(html + "[[body]]\nstatus = 503\nfile = \"a.html\"\n")
                   .find("duplicate body of this type for status 503") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(has_the_type_of_its_file_name) {
    struct row {
        std::string_view file, type;
    };
    for (auto const& [file, type] :
         {row{"a.html", "text/html; charset=utf-8"}, row{"a.htm", "text/html; charset=utf-8"},
          row{"a.txt", "text/plain; charset=utf-8"}, row{"a.json", "application/json"},
          row{"a.html.bak", ""}, row{"html", ""}, row{"", ""}})
        BOOST_TEST(config::type_by_name(file) == type, file);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace files_of_bodies
