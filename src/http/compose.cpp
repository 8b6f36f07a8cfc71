#include "compose.hpp"

#include "characters.hpp"

#include <boost/beast/http/status.hpp>

#include <array>
#include <charconv>
#include <cstdint>

namespace http {
namespace {

constexpr std::string_view via = "Via: 1.1 weir-proxy\r\n";

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

// By its name: some versions of Beast know it, and some do not.
bool is_forwarded_for(field const& f) {
    return iequals(f.name, "x-forwarded-for");
}

}  // namespace

void compose(std::string& out, request_head const& request, std::string_view client,
             std::string_view upstream) {
    out.assign(request.method_name).append(" ").append(request.target).append(" HTTP/1.1\r\n");
    add(out, "Host", request.host.empty() ? upstream : request.host);
    for (auto const& f : request.fields)
        if (f.goes_on && !is_forwarded_for(f))
            add(out, f.name, f.value);
    // One line for all, since there are servers that look at one line only.
    out.append("X-Forwarded-For: ");
    for (auto const& f : request.fields)
        if (f.goes_on && is_forwarded_for(f))
            out.append(f.value).append(", ");
    out.append(client).append("\r\n").append(via);
    add_framing(out, request.body, request.length);
    out.append("\r\n");
}

framing framing_for(unsigned version, answer_head const& answer) noexcept {
    if (answer.body == framing::none || answer.body == framing::length)
        return answer.body;
    return version < 11 ? framing::until_close : framing::chunked;
}

void compose(std::string& out, answer_head const& answer, framing body, unsigned version,
             bool keep_alive, std::string_view date) {
    add_status(out, answer.status, answer.reason);
    bool dated = false;
    for (auto const& f : answer.fields) {
        if (!f.goes_on)
            continue;
        add(out, f.name, f.value);
        dated |= f.id == beast::field::date;
    }
    if (answer.status >= 200) {
        if (!dated)
            add(out, "Date", date);
        out.append(via);
        add_framing(out, body, answer.length);
        add_connection(out, version, keep_alive);
    }
    out.append("\r\n");
}

void compose(std::string& out, own_answer const& answer, bool is_head, unsigned version,
             bool keep_alive, std::string_view date) {
    add_status(out, answer.status,
               beast::obsolete_reason(static_cast<beast::status>(answer.status)));
    add(out, "Date", date);
    out.append("Server: weir-proxy\r\nContent-Type: text/plain\r\n");
    add_framing(out, framing::length, answer.why.size() + 1);
    if (answer.retry_after)
        add(out, "Retry-After", decimal(static_cast<std::uint64_t>(answer.retry_after->count())));
    add_connection(out, version, keep_alive);
    out.append("\r\n");
    if (!is_head)
        out.append(answer.why).append("\n");
}

}  // namespace http
