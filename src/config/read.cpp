#include "read.hpp"

#include "file_reader.hpp"
#include "kinds.hpp"
#include "shadowing.hpp"
#include "tcp.hpp"
#include "tool/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace config {
namespace {

std::string host_and_path(route const& r) {
    return r.host + r.path;
}

}  // namespace

using namespace std::chrono_literals;

configuration file_reader::read() {
    file_.get("threads", made_.threads, number(1, 256));
    file_.get("drain", made_.drain, time(0s));
    file_.get("pid_file", made_.pid_file, text("a file"));
    file_.get("access_log", made_.access_log, text("a file, or `-` for standard output"));
    file_.get("ratelimit_headers", made_.ratelimit_headers, which_headers());
    file_.get("access_log_format", made_.access_log_format, way_of_logging());
    file_.get("log_level", made_.log_level, level());
    file_.table("timeouts", [this](auto& t) { read_timeouts(t); });
    file_.table("clients", [this](auto& t) { read_clients(t); });
    file_.table("admin", [this](auto& t) { read_admin(t); });
    file_.table("state", [this](auto& t) { read_state(t); });
    file_.tables("upstream", [this](auto& t) { read_upstream(t); });
    file_.tables("store", [this](auto& t) { read_store(t); });
    file_.table("agent", [this](auto& t) { read_agent(t); });
    file_.tables("limit", [this](auto& t) { read_limit(t); });
    file_.tables("listen", [this](auto& t) { read_listener(t); });
    file_.tables("route", [this](auto& t) { read_route(t); });
    file_.tables("body", [this](auto& t) { read_body(t); });
    file_.finish();
    upstreams_.check(problems_);
    stores_.check(problems_);
    limits_.check(problems_);
    check_names_of_items();
    check_handshake_limits();
    find_settings_without_effect();
    complete();
    made_.warnings = std::move(warnings_).lines();
    return std::move(made_);
}

// The names of items in RateLimit fields that are not the names of limits.
void file_reader::check_names_of_items() {
    for (auto const& l : made_.limits)
        if (auto const* const all = std::get_if<weir::all_options>(&l.rule.options))
            for (std::size_t n = 2; n <= all->parts.size(); ++n)
                limits_.refuse(fmt::format("{}#{}", l.name, n), problems_,
                               fmt::format("part {} of the rule of `{}` has this name in "
                                           "RateLimit-Policy; use another name",
                                           n, l.name));
    for (auto const& u : made_.upstreams)
        if (auto const seats = seats_of(u))
            limits_.refuse(seats->name, problems_,
                           fmt::format("the seats of the servers of `{}` have this name in "
                                       "RateLimit fields; use another name",
                                       u.name));
}

void file_reader::check_field(position at, std::string_view name) {
    if (made_.clients.pass_underscores || name.find('_') == name.npos)
        return;
    std::string hyphens(name);
    std::ranges::replace(hyphens, '_', '-');
    problems_.add(at, fmt::format("no request has the header `{}`: fields with an underscore are "
                                  "dropped; use `{}`, or set `pass_underscores` in [clients]",
                                  name, hyphens));
}

void file_reader::check_fields(position at, key_part const& part) {
    each_source(part, [&](key_part const& one) {
        if (one.what == key_part::kind::header)
            check_field(at, one.name);
    });
}

// The routes `by` match all requests of route `i`.
void file_reader::warn_of_shadows(std::size_t i, std::vector<std::size_t> const& by) {
    if (by.empty())
        return;
    std::vector<std::size_t> lines;
    for (auto const n : by)
        lines.push_back(routes_at_[n].line);
    auto const name = host_and_path(made_.routes[i]);
    auto const who =
        by.size() == 1
            ? fmt::format("route `{}` in line {} matches", host_and_path(made_.routes[by.front()]),
                          lines.front())
            : fmt::format("the routes in lines {} together match", fmt::join(lines, ", "));
    warnings_.add(routes_at_[i],
                  fmt::format("warning: route `{0}`: unused: {1} all of its requests; put `{0}` "
                              "before {2}",
                              name, who, by.size() == 1 ? "it" : "them"));
}

void file_reader::find_settings_without_effect() {
    stores_.find_unused(warnings_, "no limit and no agent names it: it counts nothing");
    bool const has_checks = std::ranges::any_of(made_.routes, &route::check);
    if (checks_at_ && !has_checks)
        problems_.add(*checks_at_, "no [[route]] has `check = true`, so each check would get 404");
    if (made_.routes.empty() && !has_tcp(made_))
        return;
    if (!made_.routes.empty() && !has_http(made_))
        warnings_.add(routes_at_.front(),
                      "warning: routes have no effect: each [[listen]] has `tcp`");
    char const* const none = has_tcp(made_) ? "no route or listener" : "no route";
    upstreams_.find_unused(warnings_, fmt::format("{} names it: it gets no requests", none));
    limits_.find_unused(warnings_, fmt::format("{} names it: it limits nothing", none));
    earlier_routes earlier;
    for (std::size_t i = 0; i != made_.routes.size(); ++i) {
        auto const& r = made_.routes[i];
        if (r.check && !checks_at_)
            warnings_.add(routes_at_[i],
                          fmt::format("warning: route `{}`: unused: no [[listen]] has `check`",
                                      host_and_path(r)));
        warn_of_shadows(i, earlier.shadows_of(r));
        earlier.add(r);
    }
}

void file_reader::read_timeouts(table_reader& t) {
    auto& to = made_.timeouts;
    t.get("header", to.header, time(1ms));
    t.get("handshake", to.handshake, time(1ms));
    t.get("body", to.body, time(1ms));
    t.get("whole_body", to.whole_body, time(1ms));
    t.get("idle", to.idle, time(1ms));
    t.get("upstream", to.upstream, time(1ms));
    t.get("upstream_idle", to.upstream_idle, time(1ms));
}

void file_reader::read_clients(table_reader& t) {
    auto& c = made_.clients;
    t.list("trusted", network(), [&](tool::network n, position) { c.trusted.push_back(n); });
    t.get("forwarded_by", c.forwarded_by, way_of_forwarding());
    if (t.has("forwarded_by") && !t.has("trusted"))
        warnings_.add(t.at("forwarded_by"),
                      "warning: clients: `forwarded_by` has no effect without `trusted`");
    t.get("max_connections", c.max_connections, number(1, 1'000'000'000));
    t.get("abort_on_hang_up", c.abort_on_hang_up, flag());
    t.get("pass_underscores", c.pass_underscores, flag());
    t.get("min_body_rate", c.min_body_rate, number(0, 1'000'000'000));
    t.get("contended_body_rate", c.contended_body_rate, number(0, 1'000'000'000));
}

void file_reader::read_admin(table_reader& t) {
    auto& a = made_.admin;
    a.is_named = t.get("address", a.address, where_to_administer());
    t.list("allow", network(), [&](tool::network n, position) { a.allow.push_back(n); });
    t.get("write", a.write, flag());
    if (a.address && !is_private(*a.address) && !t.has("allow"))
        t.problem(t.at("address"),
                  fmt::format("`address` is `{}`, which other machines can reach; list the "
                              "permitted networks in `allow`",
                              to_string(*a.address)));
}

void file_reader::read_state(table_reader& t) {
    auto& s = made_.state;
    t.require("file", s.file, text("a file"));
    t.get("every", s.every, time(1s));
}

// Whether the file has an agent, and nothing for clients.
bool file_reader::is_only_agent() const {
    return made_.agent && made_.listeners.empty() && made_.upstreams.empty() &&
           made_.routes.empty() && made_.limits.empty() && made_.bandwidths.empty();
}

// Adds the default listener and the default route.
void file_reader::complete() {
    if (is_only_agent())
        return;
    if (made_.listeners.empty())
        made_.listeners.push_back({.address = tcp_address{"127.0.0.1", 8080}});
    if (!made_.routes.empty() || !has_http(made_))
        return;
    if (made_.upstreams.size() != 1 || has_tcp(made_)) {
        file_.problem({1, 1}, made_.upstreams.empty() ? "missing [[upstream]]"
                              : has_tcp(made_)
                                  ? "missing [[route]]: required for the [[listen]] without `tcp`"
                                  : "missing [[route]]: required with several upstreams");
        return;
    }
    route all;
    all.upstream = made_.upstreams.front().name;
    use_upstream(all.upstream, {1, 1}, "the default route");
    for (auto const& l : made_.limits)
        if (!is_of_listener(l.name))
            all.limits.push_back(l.name);
    for (auto const& l : made_.bandwidths)
        if (!is_of_listener(l.name))
            all.bandwidths.push_back(l.name);
    made_.routes.push_back(std::move(all));
}

bad_configuration::bad_configuration(std::vector<std::string> problems)
    : runtime_error(fmt::format("{}", fmt::join(problems, "\n"))), problems_(std::move(problems)) {}

configuration read(std::string_view text, std::string_view file) {
    problem_list problems(file);
    configuration made;
    try {
        auto const parsed = toml::parse(text);
        made = file_reader(parsed, file, problems).read();
    } catch (toml::parse_error const& wrong) {
        problems.add(wrong.source().begin, std::string(wrong.description()));
    }
    if (!problems.empty())
        throw bad_configuration(std::move(problems).lines());
    return made;
}

configuration read_file(std::string const& file) {
    constexpr std::size_t most_bytes = 64 * 1024 * 1024;
    if (std::error_code ec; std::filesystem::is_directory(file, ec))
        throw tool::usage_error(fmt::format("`{}` is a directory", file));
    std::ifstream in(file, std::ios::binary);
    std::string text;
    std::array<char, 64 * 1024> part;
    while (text.size() <= most_bytes && (in.read(part.data(), part.size()), in.gcount() > 0))
        text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > most_bytes)
        throw tool::usage_error(
            fmt::format("`{}` is too large; the maximum is {} bytes", file, most_bytes));
    if (!in.eof())
        throw tool::usage_error(
            fmt::format("cannot read `{}`: {}", file, std::generic_category().message(errno)));
    return read(text, file);
}

}  // namespace config
