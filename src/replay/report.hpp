#pragma once

#include "feed.hpp"
#include "outcome.hpp"
#include "plan.hpp"
#include "simulation.hpp"
#include "spread.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace replay {

/// The results of a replay.
struct report {
    std::string command;  // the command line as given
    reading read;
    traffic requests;
    std::vector<plan> plans;
    std::vector<outcome> outcomes;  // of each plan

    std::vector<spread> spreads;
    std::vector<std::vector<double>> rejected_by_spread;  // share of rejections, by plan and spread
    std::string host;                                     // value of --host
    std::optional<service_time> takes;
    int retries = 0;

    struct search {
        std::string what;  // the text of --find, with the number found if `was_found`
        bool was_found = false;
        bool is_of_bytes = false;
        double most_share = 0;  // of rejected requests, or with bytes of slowed responses
    };
    std::optional<search>
        found;  // result of --find; the outcomes then belong to the numbers around it
};

/// Formats the report for a terminal.
[[nodiscard]] std::string to_text(report const& r);
/// Formats the report as JSON.
[[nodiscard]] std::string to_json(report const& r);
/// Formats the report as one HTML page, which loads nothing else.
[[nodiscard]] std::string to_html(report const& r);
/// Returns the beginning of this page, which is the same for each report.
[[nodiscard]] std::string_view head_of_page() noexcept;

/// Formats a number with separators: `1,234,567`.
[[nodiscard]] std::string grouped(std::uint64_t n);
/// Formats a duration: `1.5 ms`.
[[nodiscard]] std::string length(nanoseconds d);
/// Formats a number of bytes: `1.5 MB`.
[[nodiscard]] std::string size(std::uint64_t bytes);
/// Formats a share as a percentage: `12.30 %`.
[[nodiscard]] std::string percent(double part);
/// Formats an instant in UTC: `1995-08-01 06:00:00.000`.
[[nodiscard]] std::string instant(nanoseconds since_1970);

/// A line of a table: its name, and a cell for each plan.
struct table_line {
    std::string name;
    std::vector<std::string> cells;
    std::vector<std::uint64_t> counts = {};  // the numbers in the cells, if these are counts
};
/// Returns what the replay left out of the lines that it could read, in one text each.
[[nodiscard]] std::vector<std::string> left_out(report const& r);

/// Returns the table of the outcomes. Its first line has the names of the plans.
[[nodiscard]] std::vector<table_line> summary(report const& r);

/// Returns the result of the search as a sentence; empty without a search.
[[nodiscard]] std::optional<std::string> result_of_search(report const& r);

/// Returns the assumptions and limitations of the replay, in one text each.
[[nodiscard]] std::vector<std::string> notes(report const& r);
}  // namespace replay
