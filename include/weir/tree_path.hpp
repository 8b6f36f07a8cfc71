#pragma once

#include <boost/container/static_vector.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weir::inline v0_2 {

/// The names from the root of a `rate_tree` to a leaf: `{"acme", user}`. It refers to the names, like a
/// `std::string_view`.
class tree_path {
public:
    /// The greatest number of names.
    static constexpr std::size_t max_size = 15;

    /// The path of the root, which is a leaf if the tree has no other node.
    tree_path() = default;
    /// A path of at most `max_size` names, from the root down.
    template <std::convertible_to<std::string_view>... Names>
        requires(sizeof...(Names) != 0 && sizeof...(Names) <= max_size)
    tree_path(Names const&... names)
        : names_{std::string_view(names)...} {}  // NOLINT(*-explicit-*): like an initializer list
    /// A path of names that are known at run time only.
    ///
    /// @throws std::invalid_argument if there are more than `max_size`
    explicit tree_path(std::span<std::string const> names) { assign(names); }
    /// A path of names that are known at run time only.
    ///
    /// @throws std::invalid_argument if there are more than `max_size`
    explicit tree_path(std::span<std::string_view const> names) { assign(names); }

    /// The names.
    [[nodiscard]] auto begin() const noexcept { return names_.begin(); }
    /// The end of the names.
    [[nodiscard]] auto end() const noexcept { return names_.end(); }
    /// Returns the number of names.
    [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }

private:
    template <class Names>
    void assign(Names const& names) {
        if (names.size() > max_size)
            throw std::invalid_argument(
                "weir::tree_path: " + std::to_string(names.size()) +
                " names, but a tree of rates has at most " + std::to_string(max_size) + " levels");
        names_.assign(names.begin(), names.end());
    }

    boost::container::static_vector<std::string_view, max_size> names_;
};

}  // namespace weir::inline v0_2
