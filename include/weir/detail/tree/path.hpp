#pragma once

#include <weir/tree_path.hpp>

#include <string>
#include <vector>

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
    explicit own_path(tree_path const& path) : names_(path.begin(), path.end()) {}

    template <class F>
    auto with(F f) const {
        tree_path const path(names_);
        return f(tree_lookup{path});
    }
    friend bool operator==(own_path const&, own_path const&) = default;

private:
    std::vector<std::string> names_;
};

}  // namespace weir::inline v0_2::detail
