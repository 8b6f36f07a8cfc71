#include <weir/queue_options.hpp>
#include <weir/saved_tree.hpp>
#include <weir/tree_path.hpp>

#include <boost/container/static_vector.hpp>

#include <fmt/format.h>

#include <span>
#include <utility>

namespace weir::inline v0_2::detail {

tree_state_access::tree_of_file::tree_of_file(saved_state::saved_limiter const& saved,
                                              time_point then)
    : saved_(saved), result_{.is_restored = true} {
    if (auto reason = read(then); !reason.empty())
        refuse(std::move(reason));
}

// Returns why it cannot be read, or an empty text.
std::string tree_state_access::tree_of_file::read(time_point then) {
    if (!saved_.is_keyed)
        return not_of_keys(false);
    try {
        nodes_ =
            std::make_unique<tree_slots>(rate_tree_options::parse(saved_.rule), queue_options());
    } catch (std::invalid_argument const&) {
        return saved_.rule.starts_with("tree ")
                   ? "the saved options of the tree of rates are wrong"
                   : fmt::format("the saved rule `{}` cannot become a tree of rates", saved_.rule);
    }
    bool const is_good = read_named(then) && read_keys(then);
    return is_good ? "" : "the saved tree of rates cannot have the saved nodes";
}

bool tree_state_access::tree_of_file::read_named(time_point then) {
    number_reader from(saved_.numbers);
    while (!from.is_done()) {
        auto const path = from.next_bytes();
        if (from.failed() || !read_node(path, false, from, then))
            return false;
    }
    return true;
}

bool tree_state_access::tree_of_file::read_keys(time_point then) {
    auto rest = saved_.records;
    while (auto const next = saved_state::next_record(rest)) {
        number_reader from(next->content);
        auto const path = from.next_bytes();
        if (next->what != kind::key || from.failed() || !read_node(path, true, from, then) ||
            !from.is_done())
            return false;
    }
    return true;
}

// A key may have no place: during the saving, keys were forgotten and others took their places.
bool tree_state_access::tree_of_file::read_node(std::string_view path, bool is_a_key,
                                                number_reader& from, time_point then) {
    boost::container::static_vector<std::string_view, tree_path::max_size> names;
    number_reader names_of(path);
    while (!names_of.is_done()) {
        if (names_of.failed() || names.size() == names.capacity())
            return false;
        names.push_back(names_of.next_bytes());
    }
    tree_path const where(std::span(std::as_const(names)));
    switch (nodes_->load(tree_lookup{where}, is_a_key, from, then)) {
        case tree_slots::loaded::yes:
            return true;
        case tree_slots::loaded::wrong:
            return false;
        case tree_slots::loaded::no_place:
            break;
    }
    add({.dropped = 1});
    from = number_reader("");
    return true;
}

void tree_state_access::tree_of_file::add(tree_slots::resumed const& r) {
    result_.keys += r.keys;
    result_.dropped += r.dropped;
    if (r.dropped != 0)
        result_.reason = no_place();
}

void tree_state_access::tree_of_file::refuse(std::string reason) {
    nodes_ = nullptr;
    result_ = {.dropped = saved_.keys, .reason = std::move(reason)};
}

}  // namespace weir::inline v0_2::detail
