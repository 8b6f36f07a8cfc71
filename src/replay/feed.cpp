#include "feed.hpp"

#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <utility>

namespace replay {
namespace {

constexpr std::size_t lines_of_a_look = 100;
constexpr std::uint64_t lines_between_looks =
    8192;  // between checks for a stop and reports of progress

// A line as a terminal can show it, shortened.
std::string shown(std::string_view text) {
    constexpr std::size_t most = 100;
    std::string out;
    tool::append_escaped(out, text.substr(0, most), [&out](char c) {
        if (c == '"' || c == '\\')
            out += c;
        else
            out += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    });
    return text.size() > most ? out + "..." : out;
}

logs::format format_of(logs::line_source& file, logs_options const& o) {
    try {
        auto format = o.format ? logs::format::parse(*o.format)
                               : logs::format::of_lines(file.first_lines(lines_of_a_look));
        if (o.when)
            format.set_when(*o.when);
        return format;
    } catch (std::invalid_argument const& wrong) {
        if (o.format)
            throw tool::usage_error(fmt::format("--format: {}", wrong.what()));
        auto const lines = file.first_lines(1);
        throw logs::input_error(
            fmt::format("{}: {}; it begins with: {}", file.name(), wrong.what(),
                        lines.empty() ? "an empty line" : shown(lines.front())));
    }
}

}  // namespace

// An open log and its next line.
class log_set::file {
public:
    file(std::string const& path, logs_options const& o, watch const& w, reading& r)
        : number_(r.files.size()),
          lines_(path, w.stop),
          reading_(r),
          format_(format_of(lines_, o)) {
        r.files.push_back({lines_.name(), format_.text(), format_.says_held()});
    }

    void find(std::vector<logs::key_source> const& keys) {
        try {
            reader_ = format_.make_reader(keys);
        } catch (std::invalid_argument const& wrong) {
            throw tool::usage_error(
                fmt::format("{}: format {}: {}", lines_.name(), format_.text(), wrong.what()));
        }
    }

    // Advances to the next readable line; false at the end of the log.
    bool next() {
        while (lines_.next(line_)) {
            if (line_.text.empty())
                continue;
            ++reading_.lines;
            if (line_.is_whole && reader_->read(line_.text, entry_)) [[likely]] {
                if (!entry_.is_invalid && !entry_.is_connection) [[likely]]
                    return true;
                ++(entry_.is_connection ? reading_.connections : reading_.invalid);
                continue;
            }
            leave_out(line_.is_whole ? "does not match the format"
                                     : fmt::format("longer than {} bytes", line_.text.size()));
        }
        return false;
    }
    void leave_out(std::string why) {
        if (++reading_.unreadable <= reading::most_shown)
            reading_.shown.push_back(
                {lines_.name(), line_.number, shown(line_.text), std::move(why)});
    }

    [[nodiscard]] std::size_t number() const noexcept { return number_; }
    [[nodiscard]] logs::entry const& entry() const noexcept { return entry_; }
    [[nodiscard]] logs::line_source& lines() noexcept { return lines_; }
    [[nodiscard]] logs::format const& format() const noexcept { return format_; }

private:
    std::size_t number_;
    logs::line_source lines_;
    reading& reading_;
    logs::format format_;
    std::unique_ptr<logs::line_reader> reader_;
    logs::line line_;
    logs::entry entry_;
};

log_set::log_set(logs_options o, watch w) : options_(std::move(o)), watch_(std::move(w)) {
    for (auto const& path : options_.files) {
        files_.push_back(std::make_unique<file>(path, options_, watch_, reading_));
        auto& f = *files_.back();
        auto const reader = f.format().make_reader({});
        logs::entry e;
        has_whole_seconds_ =
            has_whole_seconds_ ||
            std::ranges::any_of(
                f.lines().first_lines(lines_of_a_look),
                [&](std::string const& line) { return reader->read(line, e) && e.whole_second; });
    }
    auto const sizes =
        files_ | std::views::transform([](auto const& f) { return f->lines().size(); });
    if (std::ranges::find(sizes, 0u) == sizes.end())
        reading_.bytes_in_all = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

log_set::~log_set() = default;

bool log_set::says_held() const noexcept {
    return std::ranges::all_of(reading_.files, &reading::file::says_held);
}

reading log_set::feed(simulation& e) {
    auto const& wanted = e.sources();
    std::vector<std::size_t> missing;  // keys that no line had yet
    for (std::size_t k = 0; k != wanted.size(); ++k)
        if (wanted[k].may_be_missing)
            missing.push_back(k);
    std::vector<file*> going;
    for (auto const& f : files_) {
        f->find(wanted);
        if (f->next())
            going.push_back(f.get());
    }

    // The next line is the earliest of all files; at equal times, the line of the file named first.
    auto const is_later = [](file const* a, file const* b) {
        return std::pair(a->entry().at, a->number()) > std::pair(b->entry().at, b->number());
    };
    std::ranges::make_heap(going, is_later);
    for (auto until_look = lines_between_looks; !going.empty();) {
        auto& f = *going.front();
        std::erase_if(missing, [&keys = f.entry().keys](std::size_t k) {
            return !keys[k].empty() && keys[k] != "-";
        });
        if (!e.add(f.entry()))
            f.leave_out("out of order by more than --slack");
        if (going.size() > 1)
            std::ranges::pop_heap(going, is_later);
        if (!f.next())
            going.pop_back();
        else if (going.size() > 1)
            std::ranges::push_heap(going, is_later);
        if (--until_look != 0)
            continue;
        until_look = lines_between_looks;
        if (watch_.stop && *watch_.stop)
            break;
        if (watch_.progress) {
            reading_.bytes = 0;
            for (auto const& each : files_)
                reading_.bytes += each->lines().position();
            watch_.progress(reading_);
        }
    }
    for (auto const k : missing)
        reading_.missing.push_back(wanted[k]);
    reading_.broken_off = watch_.stop && *watch_.stop;
    if (!reading_.broken_off)
        check();
    e.finish(reading_.broken_off);
    return reading_;
}

void log_set::check() const {
    auto const& r = reading_;
    if (r.lines == 0)
        throw logs::input_error(fmt::format("{}: the log has no lines", r.files.front().name));
    if (r.invalid + r.connections != 0 && r.lines == r.unreadable + r.invalid + r.connections)
        throw logs::input_error(fmt::format(
            "{}: the log has no valid request{}", r.files.front().name,
            r.connections == 0 ? ""
                               : fmt::format("; {} lines are connections of other protocols, which "
                                             "have no requests",
                                             r.connections)));
    auto const part = static_cast<double>(r.unreadable) / static_cast<double>(r.lines);
    if (r.lines != r.unreadable && part <= options_.most_unreadable)
        return;
    auto text = fmt::format("{} of {} lines are unreadable (limit {:g} %)", r.unreadable, r.lines,
                            100 * options_.most_unreadable);
    for (auto const& l : r.shown)
        text += fmt::format("\n  {}:{}: {}: {}", l.file, l.number, l.why, l.text);
    text += "\nset --format or raise --max-unreadable";
    throw logs::input_error(text);
}

}  // namespace replay
