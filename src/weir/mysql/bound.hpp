#pragma once

#include "statements.hpp"

#include <boost/mysql/blob_view.hpp>
#include <boost/mysql/field_view.hpp>

#include <string>
#include <vector>

namespace weir::inline v0_2::mysql::detail {

/// Returns the values of the question marks of `text`: the name of the limiter, and the result of `value_of` for all
/// others. They refer to `name`.
template <class F>
[[nodiscard]] std::vector<boost::mysql::field_view> bound(statement_text const& text,
                                                          std::string const& name, F value_of) {
    std::vector<boost::mysql::field_view> fields;
    fields.reserve(text.parameters().size());
    for (auto const p : text.parameters()) {
        if (p == statement_text::parameter::key)
            fields.emplace_back(boost::mysql::blob_view(
                reinterpret_cast<unsigned char const*>(name.data()), name.size()));
        else
            fields.emplace_back(value_of(p));
    }
    return fields;
}

}  // namespace weir::inline v0_2::mysql::detail
