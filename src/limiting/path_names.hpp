#pragma once

#include <weir/tree_path.hpp>

#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <span>
#include <string_view>

namespace limiting {

/// The names of the nodes of a request's path in a tree, from the root to the leaf. Names of 128 bytes together need no
/// allocation.
class path_names {
public:
    void add(std::string_view name) {
        text_.insert(text_.end(), name.begin(), name.end());
        ends_.push_back(text_.size());
    }

    /// The path refers to this object.
    ///
    /// @throws std::invalid_argument if there are more names than a path may have
    [[nodiscard]] weir::tree_path path() const {
        boost::container::small_vector<std::string_view, usual_size> names;
        std::size_t begin = 0;
        for (auto const end : ends_) {
            names.emplace_back(text_.data() + begin, end - begin);
            begin = end;
        }
        return weir::tree_path(std::span<std::string_view const>(names));
    }

private:
    static constexpr std::size_t usual_size = 4;

    boost::container::small_vector<char, 128> text_;
    boost::container::small_vector<std::size_t, usual_size> ends_;
};

}  // namespace limiting
