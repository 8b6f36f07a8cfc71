#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace admin {

enum class metric { counter, gauge, histogram };

struct label {
    std::string_view name;
    std::string value;
};
using labels = std::vector<label>;

struct histogram {
    struct bucket {
        double end;
        std::uint64_t count;  ///< of this bucket and of all before it
    };
    std::vector<bucket> buckets;
    std::uint64_t count = 0;
    double sum = 0;
};

/// Writes the text format of Prometheus, version 0.0.4: families of samples, in the order in which they are added.
class exposition {
public:
    /// Starts a family for the next samples. A family without samples is omitted.
    void family(std::string_view name, std::string_view help, metric type);

    void add(double value, labels const& of = {});
    void add(std::uint64_t value, labels const& of = {});
    void add(histogram const& h, labels const& of);

    [[nodiscard]] std::string const& text() const noexcept { return text_; }

private:
    template <class Value>
    void sample(std::string_view suffix, labels const& of, Value value);

    std::string name_;
    std::string head_;  // of a family without samples
    std::string text_;
};

}  // namespace admin
