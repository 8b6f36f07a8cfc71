#pragma once

#include "feed.hpp"
#include "outcome.hpp"
#include "plan.hpp"
#include "simulation.hpp"
#include "spread.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace replay {

/// All that is told of a replay.
struct report {
    std::string command;  // as it was given
    reading read;
    traffic requests;
    std::vector<plan> plans;
    std::vector<outcome> outcomes;  // of each plan

    std::vector<spread> spreads;
    std::vector<std::vector<double>> rejected_by_spread;  // which part, of each plan
    std::string host;                                     // that was named
    std::optional<service_time> takes;
    int retries = 0;

    struct search {
        std::string what;  // with the number that was found, or the one that was asked
        bool was_found = false;
        double max_rejected = 0;
    };
    std::optional<search> found;  // then the plans are those of the numbers around it
};

/// For a terminal.
[[nodiscard]] std::string to_text(report const& r);
[[nodiscard]] std::string to_json(report const& r);
/// A page of its own, with nothing that would have to be fetched.
[[nodiscard]] std::string to_html(report const& r);

/// `1,234,567`.
[[nodiscard]] std::string grouped(std::uint64_t n);
/// `1.5 ms`.
[[nodiscard]] std::string length(nanoseconds d);
/// `12.3 %`.
[[nodiscard]] std::string percent(double part);
/// `1995-08-01 06:00:00.000`, in UTC.
[[nodiscard]] std::string instant(nanoseconds since_1970);

/// The table of the outcomes: the name of each line, and what it says of each plan. The first line has the names of the
/// plans.
using table_line = std::pair<std::string, std::vector<std::string>>;
[[nodiscard]] std::vector<table_line> summary(report const& r);

/// What a search has found, in a sentence; none if there was none.
[[nodiscard]] std::optional<std::string> result_of_search(report const& r);

/// What holds of the answer, and what nobody can know: a sentence each.
[[nodiscard]] std::vector<std::string> notes(report const& r);
}  // namespace replay
