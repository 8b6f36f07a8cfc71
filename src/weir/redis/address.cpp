#include "address.hpp"

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace weir::inline v0_2::redis::detail {
namespace {

[[noreturn]] void reject(std::string_view why) {
    throw std::invalid_argument("weir::redis: the URL " + std::string(why));
}

// Removes and returns the text before the first `mark`, and removes the mark; returns an empty text without a mark.
std::string_view cut_front(std::string_view& text, char mark) {
    auto const at = text.find(mark);
    if (at == text.npos)
        return {};
    auto const front = text.substr(0, at);
    text.remove_prefix(at + 1);
    return front;
}

std::string decoded(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i != text.size(); ++i) {
        if (text[i] != '%') {
            plain += text[i];
            continue;
        }
        unsigned char byte = 0;
        auto const digits = text.substr(i + 1, 2);
        auto const* const end = digits.data() + digits.size();
        if (digits.size() != 2 || std::from_chars(digits.data(), end, byte, 16).ptr != end)
            reject("has a % that is not followed by two hexadecimal digits");
        plain += static_cast<char>(byte);
        i += 2;
    }
    return plain;
}

template <class Number>
Number number_of(std::string_view text, Number least, char const* why) {
    Number n = 0;
    auto const* const end = text.data() + text.size();
    auto const [stop, failed] = std::from_chars(text.data(), end, n);
    if (failed != std::errc() || stop != end || n < least)
        reject(why);
    return n;
}

std::uint32_t database_of(std::string_view text) {
    return number_of<std::uint32_t>(text, 0, "has a database that is not a number");
}

// Removes `user:password@` from the start.
void cut_login(std::string_view& rest, address& a) {
    auto const at = rest.substr(0, rest.find('/')).rfind('@');
    if (at == rest.npos)
        return;
    auto login = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (login.find(':') == login.npos)
        reject("has a user but no password");
    a.user = decoded(cut_front(login, ':'));
    a.password = decoded(login);
    if (a.password.empty())
        reject("has an empty password");
}

address parse_local(std::string_view rest) {
    address a;
    if (rest.starts_with("//")) {
        rest.remove_prefix(2);
        cut_login(rest, a);
    }
    if (auto const options = rest.find('?'); options != rest.npos) {
        auto const said = rest.substr(options + 1);
        if (!said.starts_with("db="))
            reject("has an option other than db");
        a.database = database_of(said.substr(3));
        rest = rest.substr(0, options);
    }
    a.path = decoded(rest);
    if (!a.path.starts_with('/'))
        reject("has no absolute path to a socket");
    if (a.path.find('\0') != a.path.npos)
        reject("contains a NUL byte in its path");
    try {
        boost::asio::local::stream_protocol::endpoint const fits(a.path);
    } catch (boost::system::system_error const&) {
        reject("has a path that is too long for a socket");
    }
    return a;
}

// Sets host and port from `host`, `host:port` or `[address]:port`.
void set_place(address& a, std::string_view place) {
    std::string_view host = place;
    if (place.starts_with('[')) {
        place.remove_prefix(1);
        host = cut_front(place, ']');
        if (!place.empty() && !place.starts_with(':'))
            reject("has unexpected text after the address in brackets");
    } else {
        host = place.substr(0, place.find(':'));
        place.remove_prefix(host.size());
    }
    a.host = decoded(host);
    if (a.host.empty() || a.host.find('\0') != a.host.npos)
        reject("has no host");
    if (!place.empty())
        a.port = number_of<std::uint16_t>(
            place.substr(1), 1, "has a port that is not a number from 1 to 65535");
}

// The parameters of a URL, after the ?. Each may be taken once.
class parameters {
public:
    explicit parameters(std::string_view text) {
        while (!text.empty()) {
            auto one = text.substr(0, text.find('&'));
            text.remove_prefix(std::min(text.size(), one.size() + 1));
            auto const equals = one.find('=');
            auto const key = one.substr(0, equals);
            bool const has_value = equals != one.npos;
            if (has_value != (key != "insecure"))
                reject(has_value ? "has a value after insecure"
                                 : "has a parameter without a value");
            auto value = has_value ? decoded(one.substr(equals + 1)) : std::string();
            if (has_value && (value.empty() || value.find('\0') != value.npos))
                reject("has a parameter with an empty or invalid value");
            if (!all_.try_emplace(std::string(key), std::move(value)).second)
                reject("has a parameter twice");
        }
    }

    std::string take(std::string const& key) {
        auto const found = all_.extract(key);
        return found ? std::move(found.mapped()) : std::string();
    }
    bool take_mark(std::string const& key) { return !all_.extract(key).empty(); }
    // Rejects the parameters that were not taken.
    void end() const {
        for (std::string_view const of_tls : {"authorities", "insecure", "certificate", "key"})
            if (all_.contains(of_tls))
                reject("has the parameter " + std::string(of_tls) +
                       ", which requires rediss:// or rediss+sentinel://");
        if (!all_.empty())
            reject("has an unknown parameter");
    }

private:
    std::map<std::string, std::string, std::less<>> all_;
};

tls_options tls_of(parameters& given) {
    tls_options tls;
    tls.authorities = given.take("authorities");
    tls.is_insecure = given.take_mark("insecure");
    tls.certificate = given.take("certificate");
    tls.key = given.take("key");
    if (tls.is_insecure && !tls.authorities.empty())
        reject("has both authorities and insecure, which exclude each other");
    if (tls.certificate.empty() != tls.key.empty())
        reject("has one of the parameters certificate and key, which require each other");
    return tls;
}

// Removes the name of the primary, the path up to the next /.
std::string cut_primary_name(std::string_view& path) {
    auto const name = decoded(path.substr(0, path.find('/')));
    path.remove_prefix(std::min(path.size(), path.find('/')));
    if (!path.empty())
        path.remove_prefix(1);
    if (name.empty())
        reject("has no name of a primary after the Sentinels, such as /mymaster");
    return name;
}

destination parse_remote(std::string_view rest, bool has_tls, bool has_sentinels) {
    destination to;
    address common;
    cut_login(rest, common);
    auto const question = rest.find('?');
    parameters given(question == rest.npos ? "" : rest.substr(question + 1));
    rest = rest.substr(0, question);

    auto const slash = rest.find('/');
    auto path = slash == rest.npos ? std::string_view() : rest.substr(slash + 1);
    auto places = rest.substr(0, slash);
    if (places.find('#') != places.npos)
        reject("has unexpected text after the host");
    if (has_sentinels)
        to.primary_name = cut_primary_name(path);
    if (!path.empty())
        common.database = database_of(path);
    if (has_tls)
        to.tls = tls_of(given);
    if (has_sentinels) {
        to.primary = std::exchange(common, {});
        common.port = 26379;
        common.user = given.take("sentinel_user");
        common.password = given.take("sentinel_password");
        if (!common.user.empty() && common.password.empty())
            reject("has the parameter sentinel_user, which requires sentinel_password");
    }
    given.end();

    for (bool more = true; more;) {
        auto const end = places.find(',');
        set_place(to.servers.emplace_back(common), places.substr(0, end));
        more = end != places.npos;
        places.remove_prefix(more ? end + 1 : places.size());
    }
    return to;
}

}  // namespace

std::optional<address> redirected(std::string_view said, address const& by) {
    auto place = said.substr(said.rfind(' ') + 1);
    auto const colon = place.rfind(':');
    if (colon == place.npos)
        return std::nullopt;
    address to = by;
    auto const port = place.substr(colon + 1);
    auto const [stop, failed] = std::from_chars(port.data(), port.data() + port.size(), to.port);
    if (failed != std::errc() || stop != port.data() + port.size() || to.port == 0)
        return std::nullopt;
    if (colon != 0)
        to.host = place.substr(0, colon);
    to.path.clear();
    if (to.host.empty() ||
        to.host == "?")  // the server has a local socket, or does not know the host
        return std::nullopt;
    return to;
}

destination destination::parse(std::string_view url) {
    if (url.find('\0') != url.npos)
        reject("contains a NUL byte");
    constexpr std::string_view local = "unix:";
    if (url.starts_with(local))
        return {.servers = {parse_local(url.substr(local.size()))},
                .tls = {},
                .primary_name = {},
                .primary = {}};
    auto const scheme = url.substr(0, url.find("://"));
    bool const has_tls = scheme.starts_with("rediss");
    bool const has_sentinels = scheme.ends_with("+sentinel");
    for (std::string_view const known : {"redis", "rediss", "redis+sentinel", "rediss+sentinel"})
        if (scheme == known && scheme.size() != url.size())
            return parse_remote(url.substr(scheme.size() + 3), has_tls, has_sentinels);
    reject("must start with redis://, rediss://, redis+sentinel://, rediss+sentinel:// or unix:");
}

}  // namespace weir::inline v0_2::redis::detail
