#include "json.hpp"

#include "number.hpp"
#include "request_line.hpp"
#include "stamp.hpp"

#include <boost/json/basic_parser_impl.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace logs {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

// The index of a member that was not found; also the absence of a maximum.
constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

// The value of a line for one of the requested members.
struct wanted {
    std::string value;
    std::size_t which = nowhere;  // the index of the name that was found

    [[nodiscard]] bool is_there() const noexcept { return which != nowhere; }
};

// The requested members, each with its possible names.
class wanted_members {
public:
    void add(std::vector<std::string> names) {
        for (std::size_t which = 0; which != names.size(); ++which) {
            auto const length = names[which].size();
            if (by_length_.size() <= length)
                by_length_.resize(length + 1);
            by_length_[length].push_back({std::move(names[which]), found_.size(), which});
        }
        found_.emplace_back();
    }

    void clear() noexcept {
        for (auto& f : found_) {
            f.value.clear();
            f.which = nowhere;
        }
    }
    void note(std::string_view path, std::string_view value) {
        if (path.size() >= by_length_.size())
            return;
        for (auto const& n : by_length_[path.size()]) {
            auto& f = found_[n.member];
            if (n.which < f.which && n.path == path) {
                f.value = value;
                f.which = n.which;
            }
        }
    }
    // The member with index `i`, in the order of `add`.
    [[nodiscard]] wanted const& operator[](std::size_t i) const noexcept { return found_[i]; }

private:
    struct name {
        std::string path;
        std::size_t member;
        std::size_t which;  // the index among the member's names
    };
    std::vector<std::vector<name>> by_length_;  // few names have the same length
    std::vector<wanted> found_;
};

// Stores the requested members. It is a handler of `boost::json::basic_parser`, which calls it for each part of a text.
class finder {
public:
    static constexpr std::size_t max_object_size = nowhere;
    static constexpr std::size_t max_array_size = nowhere;
    static constexpr std::size_t max_key_size = nowhere;
    static constexpr std::size_t max_string_size = nowhere;
    using error_code = boost::json::error_code;

    void begin(wanted_members& all) noexcept {
        all_ = &all;
        path_.clear();
        text_.clear();
        enclosing_.clear();
    }

    bool on_document_begin(error_code&) { return true; }
    bool on_document_end(error_code&) { return true; }
    bool on_object_begin(error_code&) {
        enclosing_.push_back(path_.size());
        return true;
    }
    bool on_object_end(std::size_t, error_code&) { return leave(); }
    bool on_array_begin(error_code&) {
        enclosing_.push_back(path_.size());
        path_ += "[]";
        return true;
    }
    bool on_array_end(std::size_t, error_code&) { return leave(); }

    // The parser delivers a text with escapes in parts.
    bool on_key_part(std::string_view part, std::size_t, error_code&) { return add(part); }
    bool on_key(std::string_view last, std::size_t, error_code&) {
        path_.resize(enclosing_.back());
        if (!path_.empty())
            path_ += '.';
        path_.append(text_).append(last);
        text_.clear();
        return true;
    }
    bool on_string_part(std::string_view part, std::size_t, error_code&) { return add(part); }
    bool on_string(std::string_view last, std::size_t, error_code&) {
        if (text_.empty())
            return note(last);
        note(text_.append(last));
        text_.clear();
        return true;
    }
    // Keeps the text of a number.
    bool on_number_part(std::string_view, error_code&) { return true; }
    bool on_int64(std::int64_t, std::string_view text, error_code&) { return note(text); }
    bool on_uint64(std::uint64_t, std::string_view text, error_code&) { return note(text); }
    bool on_double(double, std::string_view text, error_code&) { return note(text); }
    bool on_bool(bool b, error_code&) { return note(b ? "true" : "false"); }
    bool on_null(error_code&) { return true; }
    bool on_comment_part(std::string_view, error_code&) { return true; }
    bool on_comment(std::string_view, error_code&) { return true; }

private:
    bool leave() {
        path_.resize(enclosing_.back());
        enclosing_.pop_back();
        return true;
    }
    bool add(std::string_view part) {
        text_ += part;
        return true;
    }
    bool note(std::string_view text) {
        all_->note(path_, text);
        return true;
    }

    wanted_members* all_ = nullptr;
    std::string path_;
    std::string text_;                    // the parts received so far
    std::vector<std::size_t> enclosing_;  // the lengths of the paths of the open objects and arrays
};

// Finds members in lines.
class member_parser {
public:
    member_parser() : parser_(options()) {}

    // Returns whether the line is exactly one JSON text.
    bool find(std::string_view line, wanted_members& all) {
        all.clear();
        parser_.reset();
        parser_.handler().begin(all);
        boost::json::error_code ec;
        auto const read = parser_.write_some(false, line.data(), line.size(), ec);
        return !ec && read == line.size();
    }

private:
    static boost::json::parse_options options() noexcept {
        boost::json::parse_options o;
        o.numbers = boost::json::number_precision::none;
        // Accepts lines that quote invalid UTF-8 from a client.
        o.allow_invalid_utf8 = true;
        return o;
    }

    boost::json::basic_parser<finder> parser_;
};

class json_reader final : public line_reader {
public:
    json_reader(json_names names, stamped when, std::vector<key_source> const& keys)
        : when_(when), unit_(names.unit), keys_(keys) {
        for (auto* const n : {&names.time, &names.client, &names.request, &names.target,
                              &names.method, &names.host, &names.status, &names.took, &names.waited,
                              &names.upstream, &names.sent, &names.received})
            members_.add(std::move(*n));
        for (auto const& k : keys_)
            members_.add(
                k.what == key_source::kind::field ? names_of(k.name) : std::vector<std::string>());
    }

    bool read(std::string_view line, entry& e) override {
        e = {};
        if (!parser_.find(line, members_))
            return false;
        auto const s = times_(members_[time].value);
        auto const code = status_of(members_[status].value);
        if (!s || (members_[status].is_there() && !code))
            return false;
        e.at = s->at;
        e.whole_second = s->whole_second;
        e.status = code.value_or(0);
        bool const is_request = !has(request) || is_request_line(members_[request].value);
        e.sent = has(sent) ? size_of(members_[sent].value) : std::nullopt;
        e.received = has(received) ? size_of(members_[received].value) : std::nullopt;
        e.is_connection =
            has(waited) && has(request) && is_connection_line(members_[request].value);
        e.is_invalid =
            is_of_invalid_request(e.status) && (!is_request || (has(waited) && !has(upstream)));
        if (auto const took_it = time_in(unit_, members_[took].value)) {
            // A request that weir-proxy rejected has no service time.
            auto const in_queue = time_in(unit_, members_[waited].value);
            bool const was_rejected = in_queue && (e.status == 429 || e.status == 503);
            if (!was_rejected)
                e.held = std::max(*took_it - in_queue.value_or(0ns), 0ns);
            if (when_ == stamped::at_the_end)
                e.before = *took_it;
        }
        for (std::size_t k = 0; k != keys_.size(); ++k)
            e.keys[k] = key(keys_[k], members_[first_key + k]);
        return true;
    }

private:
    enum member : std::uint8_t {
        time,
        client,
        request,
        target,
        method,
        host,
        status,
        took,
        waited,
        upstream,
        sent,
        received,
        first_key
    };

    // The member names that nginx and Caddy use for `header User-Agent`, and nginx for `cookie session`.
    static std::vector<std::string> names_of(std::string const& name) {
        constexpr std::string_view header = "header ";
        constexpr std::string_view cookie = "cookie ";
        if (name.starts_with(cookie))
            return {name, "cookie_" + name.substr(cookie.size())};
        if (!name.starts_with(header))
            return {name};
        auto const field = name.substr(header.size());
        std::string low = "http_";
        for (char const c : field)
            low += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        return {field, low, "headers." + field, "request.headers." + field,
                "request.headers." + field + "[]"};
    }

    [[nodiscard]] std::string_view key(key_source const& k, wanted const& own) const noexcept {
        switch (k.what) {
            case key_source::kind::client:
                return members_[client].value;
            case key_source::kind::field:
                return own.value;
            case key_source::kind::method:
                return has(method) ? members_[method].value : method_of(members_[request].value);
            case key_source::kind::target:
                return has(target) ? members_[target].value : target_of(members_[request].value);
            case key_source::kind::host:
                break;
        }
        return members_[host].value;
    }
    [[nodiscard]] bool has(member m) const noexcept { return members_[m].is_there(); }

    stamped when_;
    nanoseconds unit_;
    std::vector<key_source> keys_;
    wanted_members members_;
    member_parser parser_;
    stamp_reader times_;
};

}  // namespace

json_names json_names::parse(std::string_view text) {
    json_names names;
    std::array<std::pair<std::string_view, std::vector<std::string>*>, 10> const all{
        {{"time", &names.time},
         {"client", &names.client},
         {"request", &names.request},
         {"target", &names.target},
         {"method", &names.method},
         {"host", &names.host},
         {"status", &names.status},
         {"took", &names.took},
         {"sent", &names.sent},
         {"received", &names.received}}};
    while (!text.empty()) {
        auto const word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        if (word.empty())
            continue;
        auto const equals = word.find('=');
        auto const* const known = std::ranges::find(
            all, word.substr(0, equals), [](auto const& pair) { return pair.first; });
        if (equals == word.npos || equals + 1 == word.size() || known == all.end())
            throw std::invalid_argument(fmt::format(
                "unknown field `{}`: use time=, client=, request=, target=, method=, host=, "
                "status=, took=, sent= or received= with the name of a member",
                word));
        auto name = word.substr(equals + 1);
        if (known->first == "took") {
            constexpr std::array<std::pair<std::string_view, nanoseconds>, 4> units{
                {{":ms", 1ms}, {":us", 1us}, {":ns", 1ns}, {":s", 1s}}};
            for (auto const& [end, unit] : units)
                if (name.ends_with(end)) {
                    name.remove_suffix(end.size());
                    names.unit = unit;
                    break;
                }
        }
        *known->second = {std::string(name)};
    }
    return names;
}

std::unique_ptr<line_reader> make_json_reader(json_names names, stamped when,
                                              std::vector<key_source> const& keys) {
    return std::make_unique<json_reader>(std::move(names), when, keys);
}

}  // namespace logs
