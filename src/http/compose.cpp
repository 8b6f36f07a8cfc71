#include "compose.hpp"

#include <boost/beast/http/status.hpp>

#include <array>
#include <charconv>
#include <cstdint>

namespace http {
namespace {

constexpr std::string_view via = "Via: 1.1 weir-proxy\r\n";
constexpr std::string_view forwarded_proto = "X-Forwarded-Proto";
constexpr std::string_view forwarded_host = "X-Forwarded-Host";

class decimal {
public:
    explicit decimal(std::uint64_t n) noexcept
        : end_(std::to_chars(digits_.data(), digits_.data() + digits_.size(), n).ptr) {}
    decimal(decimal const&) = delete;
    operator std::string_view() const noexcept { return {digits_.data(), end_}; }

private:
    std::array<char, 20> digits_;
    char* end_;
};

void add(std::string& out, std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
}

void add_status(std::string& out, unsigned status, std::string_view reason) {
    out.assign("HTTP/1.1 ").append(decimal(status)).append(" ").append(reason).append("\r\n");
}

void add_framing(std::string& out, framing body, std::uint64_t length) {
    if (body == framing::length)
        add(out, "Content-Length", decimal(length));
    else if (body == framing::chunked)
        add(out, "Transfer-Encoding", "chunked");
}

void add_connection(std::string& out, unsigned version, bool keep_alive) {
    if (!keep_alive)
        add(out, "Connection", "close");
    else if (version < 11)
        add(out, "Connection", "keep-alive");
}

void add_upgrade(std::string& out, std::string_view protocol) {
    if (protocol.empty())
        return;
    add(out, "Connection", "Upgrade");
    add(out, "Upgrade", protocol);
}

}  // namespace

void compose(std::string& out, request_head const& request, forwarding const& how,
             changes_of_message const& changes) {
    auto const target = how.target.empty() ? request.target : how.target;
    out.assign(request.method_name).append(" ").append(target).append(" HTTP/1.1\r\n");
    add(out, "Host", request.host.empty() ? how.upstream : request.host);
    bool has_proto = false;
    bool has_host = false;
    for (auto const& f : request.fields) {
        if (!f.goes_on || f.id == field_name::x_forwarded_for)
            continue;
        bool const names_proto = f.id == field_name::x_forwarded_proto;
        bool const names_host = f.id == field_name::x_forwarded_host;
        if ((names_proto || names_host) && !how.is_trusted)
            continue;
        has_proto |= names_proto;
        has_host |= names_host;
        if (changes.keep(f.name))
            add(out, f.name, f.value);
    }
    if (!has_proto && changes.keep(forwarded_proto))
        add(out, forwarded_proto, how.scheme);
    if (!has_host && !request.host.empty() && changes.keep(forwarded_host))
        add(out, forwarded_host, request.host);
    changes.write_to(out);
    // All values go into one line, because some servers read only one line.
    out.append("X-Forwarded-For: ");
    for (auto const& f : request.fields)
        if (f.goes_on && f.id == field_name::x_forwarded_for)
            out.append(f.value).append(", ");
    out.append(how.peer).append("\r\n").append(via);
    add_framing(out, request.body, request.length);
    add_upgrade(out, how.upgrade);
    out.append("\r\n");
}

framing framing_for(unsigned version, answer_head const& answer) noexcept {
    if (answer.body == framing::none || answer.body == framing::length)
        return answer.body;
    return version < 11 ? framing::until_close : framing::chunked;
}

void compose(std::string& out, answer_head const& answer, framing body, unsigned version,
             bool keep_alive, std::string_view date, changes_of_message const& changes,
             std::string_view lines) {
    add_status(out, answer.status, answer.reason);
    bool dated = false;
    for (auto const& f : answer.fields) {
        if (!f.goes_on || !changes.keep(f.name))
            continue;
        add(out, f.name, f.value);
        dated |= f.id == field_name::date;
    }
    if (answer.status >= 200) {
        if (!dated)
            add(out, "Date", date);
        changes.write_to(out);
        out.append(lines).append(via);
        add_framing(out, body, answer.length);
        add_connection(out, version, keep_alive);
    }
    out.append("\r\n");
}

void compose_switch(std::string& out, answer_head const& answer, std::string_view upgrade,
                    changes_of_message const& changes, std::string_view lines) {
    add_status(out, answer.status, answer.reason);
    for (auto const& f : answer.fields)
        if (f.goes_on && changes.keep(f.name))
            add(out, f.name, f.value);
    changes.write_to(out);
    out.append(lines).append(via);
    add_upgrade(out, upgrade);
    out.append("\r\n");
}

void compose(std::string& out, own_response const& answer, unsigned version, bool keep_alive,
             std::string_view date, changes_of_message const& changes) {
    add_status(out, answer.status,
               beast::obsolete_reason(static_cast<beast::status>(answer.status)));
    auto const add_own = [&](std::string_view name, std::string_view value) {
        if (changes.keep(name))
            add(out, name, value);
    };
    add_own("Date", date);
    add_own("Server", "weir-proxy");
    if (has_body(answer.status)) {
        add_own("Content-Type", answer.type);
        add_own("Vary", "Accept");
        add_framing(out, framing::length, answer.length);
    }
    if (answer.retry_after)
        add_own("Retry-After", decimal(static_cast<std::uint64_t>(answer.retry_after->count())));
    changes.write_to(out);
    out.append(answer.lines);
    add_connection(out, version, keep_alive);
    out.append("\r\n");
}

void join(gather& pieces, std::string& head) {
    constexpr std::size_t small_piece = 4096;
    std::size_t rest = 0;
    for (auto const& piece : pieces)
        rest += piece.size();
    rest -= head.size();
    if (pieces.size() == 1 || rest > small_piece)
        return;
    for (auto piece = pieces.begin() + 1; piece != pieces.end(); ++piece)
        head.append(*piece);
    pieces = {head};
}

}  // namespace http
