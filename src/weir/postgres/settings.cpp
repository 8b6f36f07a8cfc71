#include "settings.hpp"

#include <weir/policy/backoff.hpp>

#include "../check_option.hpp"

#include <boost/asio/ip/address.hpp>

#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace weir::inline v0_2::postgres::detail {
namespace {

namespace asio = boost::asio;
using namespace std::string_view_literals;

[[noreturn]] void reject(std::string const& why) {
    throw std::invalid_argument("weir::postgres: url " + why);
}

// Some messages of libpq repeat the URL, with its password: only the messages that name a keyword are passed on.
std::string reason_of(std::string_view message) {
    for (auto const part : {"invalid URI query parameter: "sv, "invalid connection option "sv}) {
        if (auto const at = message.find(part); at != message.npos)
            return "has an " + std::string(message.substr(at, message.find('\n', at) - at));
    }
    return "is neither a URI of libpq, such as postgresql://user:password@host:5432/database, nor "
           "a "
           "list of its keywords and values";
}

settings::parameters parse(std::string const& url) {
    char* message = nullptr;
    std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> const all(
        PQconninfoParse(url.c_str(), &message), &PQconninfoFree);
    std::unique_ptr<char, decltype(&PQfreemem)> const owner(message, &PQfreemem);
    if (!all)
        reject(reason_of(message ? message : ""));
    settings::parameters found;
    for (auto const* one = all.get(); one->keyword; ++one) {
        if (one->val && *one->val)
            found.emplace_back(one->keyword, one->val);
    }
    return found;
}

std::string of_environment(std::string_view variable) {
    auto const* const value = std::getenv(std::string(variable).c_str());
    return value ? value : "";
}

std::vector<std::string> parts_of(std::string_view list) {
    std::vector<std::string> parts;
    for (;;) {
        auto const comma = list.find(',');
        parts.emplace_back(list.substr(0, comma));
        if (comma == list.npos)
            return parts;
        list.remove_prefix(comma + 1);
    }
}

bool is_port(std::string_view text) {
    int number = 0;
    auto const* const end = text.data() + text.size();
    auto const [at, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && at == end && number >= 1 && number <= 65'535;
}

std::optional<asio::ip::address> address_in(std::string const& text) {
    boost::system::error_code ec;
    auto const found = asio::ip::make_address(text, ec);
    return ec ? std::nullopt : std::optional(found);
}

bool is_socket(std::string_view host) {
    return host.empty() || host.front() == '/' || host.front() == '@';
}

// libpq trusts the authorities of the system by this word since version 16; before, it needs their file.
std::string authorities_of_system() {
    if (PQlibVersion() >= 160'000)
        return "system";
    for (auto const* const file :
         {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}) {
        std::error_code ignored;
        if (std::filesystem::exists(file, ignored))
            return file;
    }
    return {};
}

template <std::size_t N>
void check_word(std::string_view keyword, std::string const& value,
                std::array<std::string_view, N> const& words) {
    if (value.empty() || std::ranges::find(words, value) != words.end())
        return;
    std::string all;
    for (auto const word : words)
        all.append(all.empty() ? "" : ", ").append(word);
    reject("has the " + std::string(keyword) + " `" + value + "`, but must have one of: " + all);
}

}  // namespace

bool target::is_name() const {
    return address.empty() && !is_socket(host) && !address_in(host);
}

bool target::is_local() const {
    if (address.empty() && (is_socket(host) || host == "localhost"))
        return true;
    auto const found = address_in(address.empty() ? host : address);
    return found && found->is_loopback();
}

std::string target::text() const {
    auto const& place = host.empty() ? address : host;
    auto const name = place.empty() ? "the local socket" : place;
    auto const quoted = place.find(':') != place.npos ? '[' + name + ']' : name;
    return port.empty() ? quoted : quoted + ':' + port;
}

settings::settings(options o) : given_(std::move(o)) {
    using weir::detail::check_duration;
    using weir::detail::check_option;
    check_option("postgres", "max_connections", given_.max_connections, 1, 10'000);
    check_duration("postgres", "connect_timeout", given_.connect_timeout, duration(1));
    policy::validate("postgres", given_.retry);

    parsed_ = parse(given_.url);
    if (!value_of("service").empty())
        reject("has a service, which is not supported");
    check_word("sslmode", value_of("sslmode"),
               std::array{"disable"sv, "allow"sv, "prefer"sv, "require"sv, "verify-ca"sv,
                          "verify-full"sv});
    check_word("target_session_attrs", value_of("target_session_attrs"),
               std::array{"any"sv, "read-write"sv, "primary"sv});

    auto const either = [&](std::string_view keyword, std::string_view variable) {
        auto value = value_of(keyword);
        return value.empty() ? of_environment(variable) : value;
    };
    bool const has_place = !value_of("host").empty() || !value_of("hostaddr").empty();
    auto const hosts = parts_of(has_place ? value_of("host") : either("host", "PGHOST"));
    auto const addresses =
        parts_of(has_place ? value_of("hostaddr") : either("hostaddr", "PGHOSTADDR"));
    auto const ports = parts_of(either("port", "PGPORT"));
    auto const count = std::max(hosts.size(), addresses.size());
    auto const fits = [&](std::vector<std::string> const& parts) {
        return parts.size() == count || (parts.size() == 1 && parts.front().empty());
    };
    if (!fits(hosts) || !fits(addresses) || (ports.size() != count && ports.size() != 1))
        reject("has lists of hosts, addresses and ports of different lengths");
    for (auto const& one : ports) {
        if (!one.empty() && !is_port(one))
            reject("has the port `" + one + "`, but must have one from 1 to 65535");
    }
    auto const at = [](std::vector<std::string> const& parts, std::size_t i) {
        return parts.size() == 1 ? parts.front() : parts[i];
    };
    for (std::size_t i = 0; i != count; ++i)
        targets_.push_back({at(hosts, i), at(addresses, i), at(ports, i)});
}

std::chrono::steady_clock::time_point settings::connect_until() const {
    using clock = std::chrono::steady_clock;
    auto const now = clock::now();
    return given_.connect_timeout < clock::time_point::max() - now
               ? now + given_.connect_timeout
               : clock::time_point::max();
}

std::string settings::value_of(std::string_view keyword) const {
    auto const found = std::ranges::find(parsed_, keyword, &parameters::value_type::first);
    return found == parsed_.end() ? std::string() : found->second;
}

void settings::set_default(parameters& all, std::string_view keyword, std::string_view variable,
                           std::string value) const {
    if (value_of(keyword).empty() && of_environment(variable).empty() && !value.empty())
        all.emplace_back(keyword, std::move(value));
}

settings::parameters settings::parameters_of(target const& to) const {
    parameters all;
    for (auto const& one : parsed_) {
        if (one.first != "host" && one.first != "hostaddr" && one.first != "port" &&
            one.first != "connect_timeout")
            all.push_back(one);
    }
    if (!to.host.empty())
        all.emplace_back("host", to.host);
    if (!to.address.empty())
        all.emplace_back("hostaddr", to.address);
    if (!to.port.empty())
        all.emplace_back("port", to.port);

    set_default(all, "target_session_attrs", "PGTARGETSESSIONATTRS", "read-write");
    set_default(all, "gssencmode", "PGGSSENCMODE", "disable");  // looking for a ticket blocks
    set_default(all, "application_name", "PGAPPNAME", "weir");
    set_default(all, "client_encoding", "", "UTF8");
    if (!to.is_local())
        set_default(all, "sslmode", "PGSSLMODE", "verify-full");
    auto const mode = std::ranges::find(all, "sslmode", &parameters::value_type::first);
    if (mode != all.end() && mode->second == "verify-full")
        set_default(all, "sslrootcert", "PGSSLROOTCERT", authorities_of_system());
    return all;
}

}  // namespace weir::inline v0_2::postgres::detail
