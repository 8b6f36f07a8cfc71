#pragma once

#include <weir/stats.hpp>
#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Metrics of limiters for Prometheus and OpenTelemetry. No other header includes this one.
///
///     fmt::print("{}", weir::prometheus("workers", workers.snapshot()));   // the response to `GET /metrics`
///     fmt::print("{}", weir::prometheus(workers.snapshot()));              // the same if queue_options::name is set
namespace weir::inline v0_2 {

/// A cumulative histogram of durations.
struct cumulative_histogram {
    /// Durations of at most `end`.
    struct bucket {
        /// The longest duration that counts in this bucket.
        duration end;
        /// The number of durations of at most `end`.
        std::uint64_t count;
    };
    /// By increasing `end`. The bucket without an end is not among them: its count is `count`.
    std::vector<bucket> buckets;
    /// All durations.
    std::uint64_t count = 0;
    /// Their sum.
    duration sum{};
};

/// The ends of the buckets that `prometheus` writes: 16 durations from 1 ms to 5 min.
[[nodiscard]] std::span<duration const> standard_wait_ends() noexcept;

/// Returns the wait times of granted requests in buckets that end at `ends`, which increase. A request that was granted
/// immediately waited for 0 s. Both `stats` and `waits` must be of one snapshot. A wait counts in the bucket that
/// contains the end of its range in `waits`, so no wait appears shorter than it was.
///
/// In OpenTelemetry the count of a bucket does not include the buckets before it: subtract the count before.
[[nodiscard]] cumulative_histogram accumulate(
    limiter_stats const& stats, wait_histogram const& waits,
    std::span<duration const> ends = standard_wait_ends());

/// A limiter, pool or keyed limiter and its metrics at one instant.
struct limit_metrics {
    /// A limiter without a name and with all counters 0.
    limit_metrics() = default;
    /// The metrics of a limiter that is named `limit`.
    limit_metrics(std::string limit, snapshot<limiter_stats> s);
    /// The metrics of a pool that is named `limit`.
    limit_metrics(std::string limit, snapshot<pool_stats> s);
    /// The metrics of a keyed limiter that is named `limit`.
    limit_metrics(std::string limit, snapshot<keyed_stats> s);
    /// The metrics of a limiter, pool or keyed limiter. Its `queue_options::name` is the name.
    ///
    /// @throws std::invalid_argument if it has none
    template <class Stats>
    limit_metrics(snapshot<Stats> const& s) : limit_metrics(name_in(requests_of(s.stats)), s) {}

    /// The value of the label `limit`; different for each limiter. Any UTF-8 text.
    std::string name;
    /// The counters and the state of the limiter, of the requests of the pool, or of all keys together.
    limiter_stats stats;
    /// The wait times of granted requests that waited.
    wait_histogram waits;
    /// Keys of a keyed limiter. If present, capacity, remaining permits and oldest wait are omitted, because each key
    /// has its own.
    std::optional<std::uint64_t> keys;
    /// Objects of a pool.
    std::optional<pool_stats> pool;
    /// Whether rejections have no effect on requests: then their label `decision` is `would_reject`.
    bool dry_run = false;

private:
    static limiter_stats const& requests_of(limiter_stats const& s) noexcept { return s; }
    static limiter_stats const& requests_of(pool_stats const& s) noexcept { return s.requests; }
    static limiter_stats const& requests_of(keyed_stats const& s) noexcept { return s.total; }
    static std::string name_in(limiter_stats const& s);
};

/// Writes the text format of Prometheus, version 0.0.4: families of samples, in the order in which they are added. The
/// content type is `text/plain; version=0.0.4; charset=utf-8`.
class metrics_writer {
public:
    /// The type of the samples of a family.
    enum class type : std::uint8_t {
        counter,  ///< a count since the start
        gauge,    ///< a current value
    };

    /// A label of a sample.
    struct label {
        /// The name, which must be a label name of Prometheus.
        std::string_view name;
        /// The value: any UTF-8 text.
        std::string_view value;
    };
    /// The labels of a sample.
    using labels = std::initializer_list<label>;

    /// Starts a family: the next calls of `add` add its samples. A family without samples is omitted. `name` must be a
    /// metric name of Prometheus, and `help` a text without line breaks and backslashes; neither is checked.
    void family(std::string_view name, std::string_view help, type kind);
    /// Starts a family of histograms.
    void histogram_family(std::string_view name, std::string_view help);

    /// Adds a sample of the family with the value of a gauge.
    void add(double value, labels of = {});
    /// Adds a sample of the family with a whole number.
    void add(std::uint64_t value, labels of = {});
    /// Adds the samples of a histogram of the family: its buckets, sum and count.
    void add(cumulative_histogram const& h, labels of = {});

    /// Adds the families `weir_limit_*` and, for pools, `weir_pool_*`. A text must contain each family once: add all
    /// limiters in one call.
    void add(std::span<limit_metrics const> limits);

    /// Returns the text of all families so far.
    [[nodiscard]] std::string const& text() const& noexcept { return text_; }
    /// Moves the text of all families out.
    [[nodiscard]] std::string text() && noexcept { return std::move(text_); }

private:
    void head(std::string_view name, std::string_view help, std::string_view type_name);
    template <class Value>
    void sample(std::string_view suffix, labels of, std::string_view end, Value value);

    std::string name_;
    std::string head_;  // of a family without samples
    std::string text_;
};

/// Returns the metrics of `limits` in the text format of Prometheus. The families:
///
/// - `weir_limit_decisions_total`: requests by `decision` (`granted`, `delayed`: granted after a wait, `rejected`,
///   `cancelled`) and, if rejected, by `reason`: a name of `errc`;
/// - `weir_limit_permits_total`: permits of granted requests;
/// - `weir_limit_wait_seconds`: a histogram of the waits of granted requests, with 0 s for immediate grants;
/// - `weir_limit_overdue_total`: permits that were held for longer than `max_hold`;
/// - `weir_limit_waiting`, `weir_limit_oldest_wait_seconds`, `weir_limit_in_use`, `weir_limit_capacity`,
///   `weir_limit_remaining`, `weir_limit_keys`: the current state;
/// - `weir_pool_objects` by `state`, `weir_pool_objects_total` by `event`: objects of pools.
[[nodiscard]] std::string prometheus(std::span<limit_metrics const> limits);
/// Returns the metrics of the listed limiters in the text format of Prometheus.
[[nodiscard]] std::string prometheus(std::initializer_list<limit_metrics> limits);

/// Returns the metrics of one limiter, pool or keyed limiter. `name` is the value of the label `limit`, also if the limiter
/// has another name. For several limiters in one text, use an overload with a list.
template <class Stats>
[[nodiscard]] std::string prometheus(std::string name, snapshot<Stats> const& s) {
    return prometheus({limit_metrics(std::move(name), s)});
}
/// Returns the metrics of one limiter, pool or keyed limiter. The value of the label `limit` is `queue_options::name`.
///
/// @throws std::invalid_argument if the limiter has no name
template <class Stats>
[[nodiscard]] std::string prometheus(snapshot<Stats> const& s) {
    return prometheus({limit_metrics(s)});
}

}  // namespace weir::inline v0_2
