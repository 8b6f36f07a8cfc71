#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace replay {
namespace {

// The page loads nothing, neither fonts nor scripts. Its Content-Security-Policy enforces this.
constexpr std::string_view head =
    R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>weir-replay</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --faint: #d7dce1; --soft: #59636e;
        --asked: #c3ccd5; --granted: #1f6feb; --waiting: #9a6700; --rejected: #cf222e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --faint: #30363d; --soft: #9198a1;
          --asked: #3d444d; --granted: #58a6ff; --waiting: #d29922; --rejected: #ff7b72; } }
body { font: 16px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 46rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
pre { white-space: pre-wrap; background: color-mix(in srgb, var(--faint) 40%, transparent); padding: .6rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--faint); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
svg { width: 100%; max-width: 40rem; display: block; }
svg text { font: 10px system-ui, sans-serif; fill: var(--soft); }
svg .axis { stroke: var(--faint); fill: none; }
.asked { fill: var(--asked); } .granted { stroke: var(--granted); } .waiting { stroke: var(--waiting); }
.rejected { stroke: var(--rejected); } polyline { fill: none; stroke-width: 1.2; }
rect.bar-waiting { fill: var(--waiting); } rect.bar-rejected { fill: var(--rejected); }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .8em; }
summary { color: var(--soft); cursor: pointer; } .note { color: var(--soft); }
</style>
</head>
<body>
)";

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
    void row(std::string_view cell, std::string_view first,
             std::vector<std::string> const& others) {
        add("<tr><{0}>{1}</{0}>", "th", plain(first));
        for (auto const& text : others)
            add("<{0}>{1}</{0}>", cell, plain(text));
        raw("</tr>\n");
    }
    void begin_table(std::string_view id) { add("<div class=\"wide\"><table id=\"{}\">\n", id); }
    void end_table() { raw("</table></div>\n"); }
    [[nodiscard]] std::string text() && { return std::move(out_); }

private:
    std::string out_{head};
};

// The bounds of a plot.
constexpr double left = 4, right = 376, top = 14, bottom = 124, foot = 140;

std::string begin_plot(std::string_view title, std::string_view most, std::string_view first,
                       std::string_view last) {
    return fmt::format("<svg viewBox=\"0 0 380 {:.0f}\" role=\"img\" aria-label=\"{}\">"
                       "<path class=\"axis\" d=\"M{} {}H{}M{} {}H{}\"/>"
                       "<text x=\"{}\" y=\"10\">{}</text><text x=\"{}\" y=\"{}\">{}</text>"
                       "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                       foot + 4, plain(title), left, top, right, left, bottom, right, left,
                       plain(most), left, foot - 2, plain(first), right, foot - 2, plain(last));
}

double y_of(std::uint64_t n, std::uint64_t most) {
    return bottom - (bottom - top) * static_cast<double>(n) /
                        static_cast<double>(std::max<std::uint64_t>(most, 1));
}

template <class Member>
std::uint64_t most_of(std::vector<point> const& all, Member member) {
    std::uint64_t most = 0;
    for (auto const& p : all)
        most = std::max(most, p.*member);
    return most;
}

// The points of a line with one step per interval.
template <class Member>
std::string steps(std::vector<point> const& all, Member member, std::uint64_t most) {
    std::string out;
    for (std::size_t i = 0; i != all.size(); ++i) {
        auto const step = (right - left) / static_cast<double>(all.size());
        auto const x = left + step * static_cast<double>(i);
        auto const y = y_of(all[i].*member, most);
        fmt::format_to(std::back_inserter(out), "{:.1f},{:.1f} {:.1f},{:.1f} ", x, y, x + step, y);
    }
    return out;
}

void over_time(page& p, outcome const& o, std::size_t number) {
    auto const& all = o.over_time.points();
    if (all.empty())
        return;
    auto const begin = o.over_time.begin();
    auto const width = o.over_time.width();
    auto const end = begin + width * static_cast<std::int64_t>(all.size());
    auto const most = std::max(most_of(all, &point::asked), most_of(all, &point::granted));
    p.raw("<h3>Requests over time</h3>\n");
    p.add("<p><span class=\"key\" style=\"background:var(--asked)\"></span>requests"
          "<span class=\"key\" style=\"background:var(--granted)\"></span>granted"
          "<span class=\"key\" style=\"background:var(--rejected)\"></span>rejected, per "
          "{}</p>\n",
          length(width));
    p.raw(begin_plot("requests over time", grouped(most), instant(begin), instant(end)));
    p.add("<polygon class=\"asked\" points=\"{},{} {}{},{}\"/>\n", left, bottom,
          steps(all, &point::asked, most), right, bottom);
    p.add("<polyline class=\"granted\" points=\"{}\"/>\n", steps(all, &point::granted, most));
    p.add("<polyline class=\"rejected\" points=\"{}\"/>\n</svg>\n",
          steps(all, &point::rejected, most));
    auto const longest = most_of(all, &point::waiting);
    p.raw("<p><span class=\"key\" style=\"background:var(--waiting)\"></span>most requests waiting "
          "at any time</p>\n");
    p.raw(begin_plot("waiting requests", grouped(longest), instant(begin), instant(end)));
    p.add("<polyline class=\"waiting\" points=\"{}\"/>\n</svg>\n",
          steps(all, &point::waiting, longest));

    p.raw("<details><summary>Numbers</summary>\n");
    p.begin_table(fmt::format("time-{}", number));
    p.row("th", "from", {"requests", "granted", "rejected", "waiting"});
    for (std::size_t i = 0; i != all.size(); ++i)
        p.row("td", instant(begin + width * static_cast<std::int64_t>(i)),
              {grouped(all[i].asked), grouped(all[i].granted), grouped(all[i].rejected),
               grouped(all[i].waiting)});
    p.end_table();
    p.raw("</details>\n");
}

void waits(page& p, outcome const& o, std::size_t number) {
    p.raw("<h3>Wait times</h3>\n");
    if (o.waits.count() == 0) {
        p.raw("<p>No request waited.</p>\n");
        return;
    }
    // A bar for each doubling of the wait.
    struct bar {
        nanoseconds end;
        std::uint64_t count;
    };
    std::vector<bar> bars;
    for (std::size_t i = 0; i != weir::wait_histogram::ranges; ++i) {
        auto const n = o.waits.count_in(i);
        if (i % 8 == 0 || bars.empty())
            bars.push_back({{}, 0});
        bars.back().end = weir::wait_histogram::end_of(i);
        bars.back().count += n;
    }
    auto const is_empty = [](bar const& b) { return b.count == 0; };
    bars.erase(bars.begin(), std::ranges::find_if_not(bars, is_empty));
    while (is_empty(bars.back()))
        bars.pop_back();
    std::uint64_t most = 0;
    for (auto const& b : bars)
        most = std::max(most, b.count);
    p.raw(begin_plot("waits", grouped(most), fmt::format("up to {}", length(bars.front().end)),
                     fmt::format("up to {}", length(bars.back().end))));
    auto const step = (right - left) / static_cast<double>(bars.size());
    for (std::size_t i = 0; i != bars.size(); ++i) {
        auto const y = y_of(bars[i].count, most);
        p.add("<rect class=\"bar-waiting\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
              "height=\"{:.1f}\"/>\n",
              left + step * static_cast<double>(i), y, 0.8 * step, bottom - y);
    }
    p.raw("</svg>\n<details><summary>Numbers</summary>\n");
    p.begin_table(fmt::format("waits-{}", number));
    p.row("th", "up to", {"requests"});
    for (auto const& b : bars)
        p.row("td", length(b.end), {grouped(b.count)});
    p.end_table();
    p.raw("</details>\n");
}

void keys(page& p, outcome const& o, std::size_t number) {
    p.raw("<h3>Most rejected keys</h3>\n");
    if (o.top_rejected.empty()) {
        p.raw("<p>No request was rejected.</p>\n");
        return;
    }
    auto const most = o.top_rejected.front().rejected;
    constexpr double height = 12;
    p.add("<svg viewBox=\"0 0 380 {:.0f}\" role=\"img\" aria-label=\"most rejected keys\">\n",
          height * static_cast<double>(o.top_rejected.size()) + 4);
    for (std::size_t i = 0; i != o.top_rejected.size(); ++i) {
        auto const& k = o.top_rejected[i];
        auto const y = height * static_cast<double>(i);
        p.add("<rect class=\"bar-rejected\" x=\"180\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"8\"/>"
              "<text x=\"176\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n",
              y + 2, 196 * static_cast<double>(k.rejected) / static_cast<double>(most), y + 10,
              plain(k.key.substr(0, 32)));
    }
    p.raw("</svg>\n");
    p.begin_table(fmt::format("keys-{}", number));
    p.row("th", "", {"rejected", "requests"});
    for (auto const& k : o.top_rejected)
        p.row("td", fmt::format("{} {}", k.what, k.key), {grouped(k.rejected), grouped(k.asked)});
    p.end_table();
}

}  // namespace

std::string to_html(report const& r) {
    page p;
    p.raw("<h1>Effect of the limits</h1>\n");
    p.add("<pre id=\"command\">{}</pre>\n", plain(r.command));
    p.add("<p>{} requests of {} clients, from {} to {} UTC.</p>\n", grouped(r.requests.requests),
          grouped(r.requests.clients), instant(r.requests.first), instant(r.requests.last));
    if (r.read.unreadable != 0)
        p.add("<p>{} of {} lines were skipped.</p>\n", grouped(r.read.unreadable),
              grouped(r.read.lines));
    if (r.read.invalid != 0)
        p.add("<p>{} invalid requests were left out: no limit applies to them.</p>\n",
              grouped(r.read.invalid));
    if (auto const found = result_of_search(r))
        p.add("<p><strong>{}</strong></p>\n", plain(*found));

    p.begin_table("summary");
    bool is_first = true;
    for (auto const& [name, cells] : summary(r))
        p.row(std::exchange(is_first, false) ? "th" : "td", name, cells);
    p.end_table();
    for (auto const& n : notes(r))
        p.add("<p class=\"note\">{}</p>\n", plain(n));

    for (std::size_t i = 0; i != r.outcomes.size(); ++i) {
        auto const& o = r.outcomes[i];
        p.add("<h2>{}</h2>\n", plain(o.name));
        over_time(p, o, i);
        waits(p, o, i);
        keys(p, o, i);
    }
    p.raw("</body>\n</html>\n");
    return std::move(p).text();
}

}  // namespace replay
