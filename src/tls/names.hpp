#pragma once

#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tls {

/// Finds certificates, which are numbers here, by the name of a server. Names are compared without case. Any thread may
/// call `find` once all names are added.
class names {
public:
    using list = boost::container::small_vector<std::size_t, 4>;

    /// Whether `name` can be added: a name, or `*.` and a name.
    [[nodiscard]] static bool is_usable(std::string_view name);

    /// Whether `name` is an IP address. Some clients state it although it is not a name (RFC 6066, 3).
    [[nodiscard]] static bool is_address(std::string_view name);

    /// The name that a client states, in lower case; empty for an address.
    [[nodiscard]] static std::string normal(std::string_view name);

    /// Precondition: `is_usable(name)`.
    void add(std::string_view name, std::size_t certificate);

    /// The certificates with this name or, if none has it, with a wildcard for it, in the order in which they were added. A
    /// wildcard matches one label.
    [[nodiscard]] list find(std::string_view name) const;
    /// The certificates with this name, and then the ones with a wildcard for it.
    [[nodiscard]] list find_all(std::string_view name) const;
    /// The certificates with the same name, or the same wildcard.
    [[nodiscard]] list with(std::string_view name) const;

private:
    [[nodiscard]] list with_wildcard_for(std::string_view name) const;

    std::multimap<std::string, std::size_t, std::less<>> all_;  // in lower case
};

}  // namespace tls
