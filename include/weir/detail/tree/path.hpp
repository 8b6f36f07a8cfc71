#pragma once

#include <weir/tree_path.hpp>

#include <boost/container/static_vector.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace weir::inline v0_2::detail {

/// The names of a leaf, by which a room finds its slot.
struct tree_lookup {
    tree_path const& path;
};

/// A path that refers to the names of a caller.
class path_of_caller {
public:
    explicit path_of_caller(tree_path const& path) : path_(path) {}

    template <class F>
    auto with(F f) const {
        return f(tree_lookup{path_});
    }

private:
    tree_path path_;
};

/// A path with its own copies of the names. It also is the key of a request in a chain.
class own_path {
public:
    explicit own_path(tree_path const& path) {
        std::size_t size = 0;
        for (auto const name : path)
            size += sizeof size + name.size();
        text_.reserve(size);
        for (auto const name : path) {
            size = name.size();
            text_.append(reinterpret_cast<char const*>(&size), sizeof size).append(name);
        }
    }

    template <class F>
    auto with(F f) const {
        boost::container::static_vector<std::string_view, tree_path::max_size> names;
        for (std::string_view rest = text_; !rest.empty();) {
            std::size_t size = 0;
            std::memcpy(&size, rest.data(), sizeof size);
            names.push_back(rest.substr(sizeof size, size));
            rest.remove_prefix(sizeof size + size);
        }
        tree_path const path{std::span<std::string_view const>(names)};
        return f(tree_lookup{path});
    }
    friend bool operator==(own_path const&, own_path const&) = default;

private:
    std::string text_;  // each name follows its length: one allocation for all names
};

}  // namespace weir::inline v0_2::detail
