#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace replay {
namespace {

std::string plain(std::string_view text) {
    std::string out;
    for (char const c : text)
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            default: {
                auto const byte = static_cast<unsigned char>(c);
                if (byte >= 0x80)  // shown as Latin-1, so that the page is valid for any log
                    out += fmt::format("&#{};", byte);
                else
                    out += byte < 0x20 ? ' ' : c;
            }
        }
    return out;
}

class page {
public:
    template <class... Arguments>
    void add(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
        fmt::format_to(std::back_inserter(out_), text, std::forward<Arguments>(arguments)...);
    }
    void raw(std::string_view text) { out_ += text; }
    [[nodiscard]] std::string text() && { return std::move(out_); }

private:
    std::string out_{head_of_page()};
};

// A row of numbers.
void row(page& p, std::string_view first, std::vector<std::string> const& others) {
    p.add("<tr><th scope=\"row\">{}</th>", plain(first));
    for (auto const& text : others)
        p.add("<td>{}</td>", plain(text));
    p.raw("</tr>\n");
}

void head_row(page& p, std::vector<std::string> const& titles) {
    p.raw("<thead><tr>");
    for (auto const& text : titles)
        p.add("<th scope=\"col\">{}</th>", plain(text));
    p.raw("</tr></thead>\n");
}

// ---- The difference

// A sentence about the effect of `o`, compared with `base`.
std::string difference(outcome const& base, outcome const& o) {
    auto text = base.rejected == o.rejected
                    ? fmt::format("<b>{}</b> rejects as many requests as {}: {}", plain(o.name),
                                  plain(base.name), grouped(o.rejected))
                    : fmt::format("<b>{}</b> rejects {} instead of {} requests", plain(o.name),
                                  grouped(o.rejected), grouped(base.rejected));
    auto const before = wait_of_granted(base, 0.99);
    auto const after = wait_of_granted(o, 0.99);
    if (before != after)
        text += fmt::format(". The p99 wait of granted requests is {} instead of {}", length(after),
                            length(before));
    return text + '.';
}

std::string signed_difference(std::uint64_t before, std::uint64_t after) {
    if (before == after)
        return "0";
    return after > before ? "+" + grouped(after - before) : "&minus;" + grouped(before - after);
}

void summary_table(page& p, report const& r) {
    auto const lines = summary(r);
    bool const compares = r.outcomes.size() == 2;
    p.raw("<div class=\"wide\"><table id=\"summary\">\n");
    auto titles = lines.front().cells;
    titles.insert(titles.begin(), "");
    if (compares)
        titles.emplace_back("difference");
    head_row(p, titles);
    p.raw("<tbody>\n");
    for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
        auto const indent = line->name.find_first_not_of(' ') / 2;
        bool const is_main = line->name == "rejected" || line->name == "wait p99";
        p.add("<tr{}><th scope=\"row\"{}>{}</th>", is_main ? " class=\"main\"" : "",
              indent == 0 ? "" : fmt::format(" class=\"in{}\"", indent),
              plain(line->name.substr(2 * indent)));
        for (auto const& cell : line->cells)
            p.add("<td>{}</td>", plain(cell));
        if (compares)
            p.add("<td>{}</td>",
                  line->counts.size() == 2 ? signed_difference(line->counts[0], line->counts[1])
                                           : "");
        p.raw("</tr>\n");
    }
    p.raw("</tbody></table></div>\n");
}

// ---- Plots over time. All outcomes have the same axes.

constexpr double width = 600, height = 150;  // of a plot, in its own units

// A round number that is not below `n`.
double round_up(double n) {
    if (n <= 0)
        return 2;
    auto const power = std::pow(10.0, std::floor(std::log10(n)));
    for (double const digit : {1, 2, 4, 6, 8, 10})
        if (digit * power >= n * 0.9999)
            return digit * power;
    return n;
}

std::string short_number(double n) {
    return n < 10 ? fmt::format("{:.3g}", n) : grouped(static_cast<std::uint64_t>(n + 0.5));
}

// A range of time, and its ticks at round times.
class time_axis {
public:
    explicit time_axis(report const& r) {
        for (auto const& o : r.outcomes) {
            auto const& t = o.over_time;
            if (t.points().empty())
                continue;
            auto const end = t.begin() + t.width() * static_cast<std::int64_t>(t.points().size());
            begin_ = is_empty() ? t.begin() : std::min(begin_, t.begin());
            end_ = std::max(end_, end);
        }
    }

    [[nodiscard]] bool is_empty() const noexcept { return end_ == nanoseconds::min(); }
    // From 0 to 1.
    [[nodiscard]] double part(nanoseconds t) const noexcept {
        return static_cast<double>((t - begin_).count()) /
               static_cast<double>((end_ - begin_).count());
    }

    void draw_ticks(page& p) const {
        for_each_tick([&](nanoseconds t, nanoseconds) {
            p.add("<path class=\"grid\" d=\"M{:.1f} {}v-5\"/>", part(t) * width, height);
        });
    }
    void add_texts(page& p) const {
        p.raw("<svg class=\"x\">");
        for_each_tick([&](nanoseconds t, nanoseconds step) {
            auto const text = instant(t);  // YYYY-MM-DD HH:MM:SS
            auto const shown = step >= std::chrono::hours(24)    ? text.substr(0, 10)
                               : step >= std::chrono::minutes(1) ? text.substr(11, 5)
                                                                 : text.substr(11, 8);
            p.add("<text x=\"{:.1f}%\" y=\"1.2em\">{}</text>", part(t) * 100, shown);
        });
        p.raw("</svg>");
    }

private:
    template <class F>
    void for_each_tick(F f) const {
        using std::chrono::seconds;
        constexpr std::int64_t hour = 3600, day = 24 * hour;
        auto step = std::chrono::nanoseconds(seconds(365 * day));
        for (auto const s :
             {std::int64_t{1}, std::int64_t{2}, std::int64_t{5}, std::int64_t{10}, std::int64_t{30},
              std::int64_t{60}, std::int64_t{120}, std::int64_t{300}, std::int64_t{600},
              std::int64_t{1800}, hour, 2 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day,
              30 * day, 90 * day})
            if (seconds(s) * 5 >= end_ - begin_) {
                step = seconds(s);
                break;
            }
        auto t = nanoseconds((begin_.count() + step.count() - 1) / step.count() * step.count());
        for (; t <= end_; t += step)
            if (part(t) > 0.05 && part(t) < 0.95)
                f(t, step);
    }

    nanoseconds begin_{};
    nanoseconds end_ = nanoseconds::min();
};

// The corners of an area with one step per interval; `value(point)` is its height.
template <class Value>
std::string area(series const& all, time_axis const& axis, double most, Value value) {
    auto const x = [&](std::size_t i) {
        return axis.part(all.begin() + all.width() * static_cast<std::int64_t>(i)) * width;
    };
    auto out = fmt::format("{:.1f},{} ", x(0), height);
    auto const& points = all.points();
    for (std::size_t i = 0; i != points.size(); ++i) {
        auto const y = height * (1 - value(points[i]) / most);
        fmt::format_to(std::back_inserter(out), "{:.1f},{:.2f} {:.1f},{:.2f} ", x(i), y, x(i + 1),
                       y);
    }
    return out + fmt::format("{:.1f},{}", x(points.size()), height);
}

double per_second(std::uint64_t n, series const& of) {
    return static_cast<double>(n) / std::chrono::duration<double>(of.width()).count();
}

template <class Value>
double most_of(report const& r, Value value) {
    double most = 0;
    for (auto const& o : r.outcomes)
        for (auto const& point : o.over_time.points())
            most = std::max(most, value(o.over_time, point));
    return round_up(most);
}

// A plot of one outcome; `draw()` adds its areas.
template <class Draw>
void plot(page& p, outcome const& o, time_axis const& axis, double most, std::string_view in_words,
          Draw draw) {
    p.add("<figure><h3>{}</h3><div class=\"plot\"><div class=\"y\">", plain(o.name));
    for (double const part : {1.0, 0.5, 0.0})
        p.add("<span>{}</span>", short_number(most * part));
    p.add("</div><svg class=\"areas\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" "
          "role=\"img\" "
          "aria-label=\"{}: {}\">",
          width, height, plain(o.name), in_words);
    for (double const part : {0.0, 0.5, 1.0})
        p.add("<path class=\"grid\" d=\"M0 {}H{}\"/>", part * height, width);
    axis.draw_ticks(p);
    draw();
    p.raw("</svg>");
    axis.add_texts(p);
    p.add("</div><figcaption>{}</figcaption></figure>\n", in_words);
}

void over_time(page& p, report const& r) {
    time_axis const axis(r);
    if (axis.is_empty())
        return;
    auto const all = [](point const& each) { return each.granted + each.rejected; };
    auto const most =
        most_of(r, [&](series const& of, point const& each) { return per_second(all(each), of); });
    p.raw("<h2>Requests per second</h2>\n<p><span class=\"key\"></span><span>granted</span>"
          "<span class=\"key hatch\"></span><span>rejected</span></p>\n"
          "<div class=\"sides\">\n");
    for (auto const& o : r.outcomes) {
        auto const& t = o.over_time;
        double highest = 0;
        for (auto const& each : t.points())
            highest = std::max(highest, per_second(all(each), t));
        plot(p, o, axis, most,
             fmt::format("at most {} requests per second; {} rejected in all",
                         short_number(highest), grouped(o.rejected)),
             [&] {
                 p.add("<polygon class=\"rejected\" points=\"{}\"/>",
                       area(t, axis, most, [&](point const& x) { return per_second(all(x), t); }));
                 p.add(
                     "<polygon class=\"granted\" points=\"{}\"/>",
                     area(t, axis, most, [&](point const& x) { return per_second(x.granted, t); }));
             });
    }
    auto const longest = most_of(r, [](series const&, point const& each) {
        return static_cast<double>(each.waiting);
    });
    p.raw("</div>\n<h2>Most requests waiting at any time</h2>\n<div class=\"sides\">\n");
    for (auto const& o : r.outcomes)
        plot(p, o, axis, longest, fmt::format("at most {} waiting", grouped(o.longest_queue)), [&] {
            p.add("<polygon class=\"waiting\" points=\"{}\"/>",
                  area(o.over_time, axis, longest,
                       [](point const& x) { return static_cast<double>(x.waiting); }));
        });
    p.raw("</div>\n");
}

// ---- Waits and keys

// A bar with the length `part`, from 0 to 1. The policy of the page forbids lengths in a style attribute.
std::string bar(double part, std::string_view colour) {
    return fmt::format(
        "<svg aria-hidden=\"true\"><rect class=\"{}\" width=\"{:.1f}%\" height=\"100%\"/></svg>",
        colour, 100 * part);
}

// The waits, in one range for each doubling.
constexpr std::size_t ranges_of_doubling = 8;
constexpr std::size_t doublings = weir::wait_histogram::ranges / ranges_of_doubling;

std::array<std::uint64_t, doublings> by_doubling(outcome const& o) {
    std::array<std::uint64_t, doublings> counts{};
    for (std::size_t i = 0; i != weir::wait_histogram::ranges; ++i)
        counts[i / ranges_of_doubling] += o.waits.count_in(i);
    return counts;
}

void waits(page& p, report const& r) {
    std::array<std::uint64_t, doublings> most_by_range{};
    for (auto const& o : r.outcomes) {
        auto const counts = by_doubling(o);
        for (std::size_t i = 0; i != doublings; ++i)
            most_by_range[i] = std::max(most_by_range[i], counts[i]);
    }
    auto const some = [](std::uint64_t n) { return n != 0; };
    auto const first = std::ranges::find_if(most_by_range, some) - most_by_range.begin();
    auto const last = std::find_if(most_by_range.rbegin(), most_by_range.rend(), some).base() -
                      most_by_range.begin();
    auto const most = *std::ranges::max_element(most_by_range);
    p.raw("<h2>Wait times</h2>\n<div class=\"sides\">\n");
    std::size_t number = 0;
    for (auto const& o : r.outcomes) {
        p.add("<figure><h3>{}</h3><table class=\"full\" id=\"waits-{}\">", plain(o.name), number++);
        head_row(p, {"up to", "", "requests"});
        p.raw("<tbody>\n");
        p.add(
            "<tr><th scope=\"row\">immediately</th><td class=\"bar\"><small>not drawn</small></td>"
            "<td>{}</td></tr>\n",
            grouped(o.at_once));
        auto const counts = by_doubling(o);
        for (auto i = first; i < last; ++i) {
            auto const n = counts[static_cast<std::size_t>(i)];
            auto const end = weir::wait_histogram::end_of(
                static_cast<std::size_t>(i) * ranges_of_doubling + ranges_of_doubling - 1);
            p.add("<tr><th scope=\"row\">{}</th><td class=\"bar\">{}</td><td>{}</td></tr>\n",
                  length(end), bar(static_cast<double>(n) / static_cast<double>(most), "waiting"),
                  grouped(n));
        }
        p.raw("</tbody></table></figure>\n");
    }
    p.raw("</div>\n");
}

void keys(page& p, report const& r) {
    p.raw("<h2>Most rejected keys</h2>\n<div class=\"sides\">\n");
    std::size_t number = 0;
    for (auto const& o : r.outcomes) {
        p.add("<figure><h3>{}</h3>", plain(o.name));
        auto const id = number++;
        if (o.top_rejected.empty()) {
            p.raw("<p class=\"soft\">No request was rejected.</p></figure>\n");
            continue;
        }
        p.add("<table class=\"full keys\" id=\"keys-{}\">", id);
        head_row(p, {"key", "requests", "rejected", "share", ""});
        p.raw("<tbody>\n");
        for (auto const& k : o.top_rejected) {
            auto const share =
                k.asked == 0 ? 0.0 : static_cast<double>(k.rejected) / static_cast<double>(k.asked);
            p.add("<tr><th scope=\"row\">{} {}</th><td>{}</td><td>{}</td><td>{}</td>"
                  "<td class=\"bar\">{}</td></tr>\n",
                  plain(k.what), plain(k.key), grouped(k.asked), grouped(k.rejected),
                  plain(percent(share)), bar(std::min(share, 1.0), "rejected"));
        }
        p.raw("</tbody></table></figure>\n");
    }
    p.raw("</div>\n");
}

void bytes(page& p, report const& r) {
    std::size_t number = 0;
    for (auto const& o : r.outcomes)
        for (auto const& b : o.bandwidths) {
            if (b.top_keys.empty())
                continue;
            if (number == 0)
                p.raw("<h2>Keys with the most bytes</h2>\n<div class=\"sides\">\n");
            p.add("<figure><h3>{}: {}</h3><table class=\"full\" id=\"bytes-{}\">", plain(o.name),
                  plain(b.text), number++);
            head_row(p, {"key", "bytes", "busiest second", "waited"});
            p.raw("<tbody>\n");
            for (auto const& k : b.top_keys)
                row(p, k.key, {size(k.bytes), size(k.busiest_second), length(k.waited)});
            p.raw("</tbody></table></figure>\n");
        }
    if (number != 0)
        p.raw("</div>\n");
}

void numbers(page& p, report const& r) {
    p.raw("<section class=\"numbers\"><h2>Numbers</h2>\n");
    std::size_t number = 0;
    for (auto const& o : r.outcomes) {
        auto const& t = o.over_time;
        p.add(
            "<details><summary>{} over time</summary><div class=\"wide\"><table id=\"time-{}\">\n",
            plain(o.name), number++);
        head_row(p, {"from", "requests", "granted", "rejected", "waiting"});
        p.raw("<tbody>\n");
        for (std::size_t i = 0; i != t.points().size(); ++i) {
            auto const& each = t.points()[i];
            row(p, instant(t.begin() + t.width() * static_cast<std::int64_t>(i)),
                {grouped(each.asked), grouped(each.granted), grouped(each.rejected),
                 grouped(each.waiting)});
        }
        p.raw("</tbody></table></div></details>\n");
    }
    p.raw("</section>\n");
}

}  // namespace

std::string to_html(report const& r) {
    page p;
    p.raw("<h1>weir-replay: the effect of limits</h1>\n");
    if (auto const found = result_of_search(r))
        p.add("<p class=\"difference\">{}</p>\n", plain(*found));
    for (std::size_t i = 1; i < r.outcomes.size(); ++i)
        p.add("<p class=\"difference\">{}</p>\n", difference(r.outcomes.front(), r.outcomes[i]));
    p.add("<p>{} {} of {} {}, from {} to {} UTC.</p>\n", grouped(r.requests.requests),
          r.requests.requests == 1 ? "request" : "requests", grouped(r.requests.clients),
          r.requests.clients == 1 ? "client" : "clients", instant(r.requests.first),
          instant(r.requests.last));
    if (r.read.unreadable != 0)
        p.add("<p>{} of {} lines were skipped.</p>\n", grouped(r.read.unreadable),
              grouped(r.read.lines));
    for (auto const& text : left_out(r))
        p.add("<p>{}</p>\n", plain(text));
    p.add("<pre id=\"command\">{}</pre>\n", plain(r.command));
    if (!r.outcomes.empty())
        summary_table(p, r);
    over_time(p, r);
    waits(p, r);
    keys(p, r);
    bytes(p, r);
    p.raw("<h2>Assumptions and limitations</h2>\n<ul>\n");
    for (auto const& n : notes(r))
        p.add("<li>{}</li>\n", plain(n));
    p.raw("</ul>\n");
    numbers(p, r);
    p.raw("</body>\n</html>\n");
    return std::move(p).text();
}

}  // namespace replay
