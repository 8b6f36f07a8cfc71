#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace http {

/// A variable in the value of an added field. Its value describes a request.
enum class variable : std::uint8_t { client, client_certificate, host, id, route };

/// The values of the variables for one request. No value has a control character.
class variable_values {
public:
    [[nodiscard]] std::string_view& operator[](variable v) noexcept {
        return all_[static_cast<std::size_t>(v)];
    }
    [[nodiscard]] std::string_view operator[](variable v) const noexcept {
        return all_[static_cast<std::size_t>(v)];
    }

private:
    std::array<std::string_view, 5> all_;
};

/// A part of the value of an added field: a text, and a variable after it.
struct value_part {
    std::string text;
    std::optional<variable> behind = {};

    friend bool operator==(value_part const&, value_part const&) = default;
};

/// Parses a value such as `for={client}`. `{{` and `}}` stand for one brace. Throws `std::invalid_argument` if a brace
/// is alone, or if there is no such variable.
[[nodiscard]] std::vector<value_part> value_of(std::string_view text);

struct added_field {
    std::string name;
    std::vector<value_part> value;
};

/// Changes to the header of a forwarded message. An added field replaces all fields of the same name, in which `_` and
/// `-` are one character. No change concerns the connection or the framing.
struct field_changes {
    std::vector<added_field> add;
    std::vector<std::string> remove;

    /// Whether the value of a field has a variable.
    [[nodiscard]] bool has_variables() const noexcept;
};

/// The changes of one message. The object refers to its arguments.
class changes_of_message {
public:
    /// No changes.
    changes_of_message() = default;
    changes_of_message(field_changes const& all, variable_values const& values) noexcept
        : all_(&all), values_(&values) {}

    /// Whether a field of that name stays as it is.
    [[nodiscard]] bool keep(std::string_view name) const noexcept;
    /// Writes the added fields.
    void write_to(std::string& out) const;

private:
    field_changes const* all_ = nullptr;
    variable_values const* values_ = nullptr;
};

}  // namespace http
