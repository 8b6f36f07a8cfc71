#include "report.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace replay {
namespace {

// A byte that is no ASCII is shown as Latin-1.
std::string quoted(std::string_view text) {
    return tool::quoted(text, tool::beyond_ascii::as_latin_1);
}

// Objects and arrays, a member or an element at a time.
class writer {
public:
    [[nodiscard]] std::string text() && { return std::move(out_) + '\n'; }

    template <class F>
    void object(F members) {
        enclosed('{', '}', members);
    }
    template <class F>
    void array(F elements) {
        enclosed('[', ']', elements);
    }
    writer& name(std::string_view n) {
        comma();
        out_ += quoted(n) + ": ";
        is_first_ = true;
        return *this;
    }
    void value(std::string_view text) { raw(quoted(text)); }
    void value(bool b) { raw(b ? "true" : "false"); }
    void value(std::uint64_t n) { raw(fmt::format("{}", n)); }
    void value(double n) { raw(fmt::format("{}", n)); }
    void seconds(nanoseconds d) {
        raw(fmt::format("{:.9f}", static_cast<double>(d.count()) / 1e9));
    }

private:
    void comma() {
        if (!is_first_)
            out_ += ", ";
        is_first_ = false;
    }
    void raw(std::string_view text) {
        comma();
        out_ += text;
    }
    template <class F>
    void enclosed(char begin, char end, F inside) {
        comma();
        out_ += begin;
        is_first_ = true;
        inside();
        out_ += end;
        is_first_ = false;
    }

    std::string out_;
    bool is_first_ = true;
};

void write(writer& w, outcome const& o) {
    w.object([&] {
        w.name("name").value(o.name);
        w.name("asked").value(o.asked());
        w.name("at_once").value(o.at_once);
        w.name("waited").value(o.waited);
        w.name("came_back").value(o.later);
        w.name("refused").value(o.refused);
        w.name("answered_by_route").value(o.answered);
        w.name("still_waiting").value(o.open);
        w.name("attempts").value(o.asked() + o.came_back);
        w.name("refused_part").value(o.refused_share());
        w.name("rules").array([&] {
            for (auto const& r : o.rules)
                w.object([&] {
                    w.name("rule").value(r.text);
                    w.name("shadow").value(r.shadow);
                    w.name("refused").object([&] {
                        for (std::size_t why = 0; why != r.refused.size(); ++why)
                            if (r.refused[why] != 0)
                                w.name(text_of(static_cast<weir::errc>(why))).value(r.refused[why]);
                    });
                });
        });
        w.name("waits").object([&] {
            for (auto const& [name, q] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}})
                w.name(name).seconds(std::min(o.waits.quantile(q), o.longest_wait));
            w.name("max").seconds(o.longest_wait);
        });
        w.name("longest_queue").value(o.longest_queue);
        if (o.holds)
            w.name("peak_in_use").value(o.peak_in_use);
        w.name("refused_most").array([&] {
            for (auto const& k : o.refused_most)
                w.object([&] {
                    w.name("of").value(k.what);
                    w.name("key").value(k.key);
                    w.name("asked").value(k.asked);
                    w.name("refused").value(k.refused);
                });
        });
        w.name("over_time").object([&] {
            w.name("begin").value(instant(o.over_time.begin()));
            w.name("step").seconds(o.over_time.width());
            auto const numbers = [&](char const* name, auto member) {
                w.name(name).array([&] {
                    for (auto const& p : o.over_time.points())
                        w.value(p.*member);
                });
            };
            numbers("asked", &point::asked);
            numbers("granted", &point::granted);
            numbers("refused", &point::refused);
            numbers("waiting", &point::waiting);
        });
    });
}

}  // namespace

std::string to_json(report const& r) {
    writer w;
    w.object([&] {
        w.name("command").value(r.command);
        w.name("broken_off").value(r.read.broken_off);
        w.name("files").array([&] {
            for (auto const& f : r.read.files)
                w.object([&] {
                    w.name("name").value(f.name);
                    w.name("format").value(f.format);
                });
        });
        w.name("lines").value(r.read.lines);
        w.name("unreadable").value(r.read.unreadable);
        w.name("unreadable_lines").array([&] {
            for (auto const& l : r.read.shown)
                w.object([&] {
                    w.name("file").value(l.file);
                    w.name("line").value(l.number);
                    w.name("why").value(l.why);
                    w.name("text").value(l.text);
                });
        });
        w.name("requests").value(r.requests.requests);
        w.name("clients").value(r.requests.clients);
        w.name("first").value(instant(r.requests.first));
        w.name("last").value(instant(r.requests.last));
        if (r.found) {
            w.name("find").object([&] {
                w.name(r.found->was_found ? "found" : "not_found").value(r.found->what);
                w.name("refuse_at_most").value(r.found->refuse_at_most);
            });
        }
        w.name("outcomes").array([&] {
            for (auto const& o : r.outcomes)
                write(w, o);
        });
        w.name("refused_part_by_spread").object([&] {
            for (std::size_t i = 0; i != r.spreads.size(); ++i)
                w.name(to_string(r.spreads[i])).array([&] {
                    for (auto const& parts : r.refused_by_spread)
                        if (i < parts.size())
                            w.value(parts[i]);
                });
        });
        w.name("notes").array([&] {
            for (auto const& n : notes(r))
                w.value(n);
        });
    });
    return std::move(w).text();
}

}  // namespace replay
