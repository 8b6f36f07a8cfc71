#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace weir::inline v0_2::detail {

/// Returns the buffers with the first `max` bytes of `all`: a part of one buffer, or at most 16 buffers, so perhaps
/// fewer bytes. Empty buffers are left out.
template <class Buffer, class Sequence>
[[nodiscard]] auto first_bytes(Sequence const& all, std::size_t max) {
    if constexpr (std::is_convertible_v<Sequence const&, Buffer>) {
        return boost::asio::buffer(Buffer(all), max);
    } else {
        boost::container::static_vector<Buffer, 16> first;
        auto const end = boost::asio::buffer_sequence_end(all);
        for (auto it = boost::asio::buffer_sequence_begin(all); it != end && max != 0; ++it) {
            Buffer const next(*it);
            if (next.size() == 0)
                continue;
            if (first.size() == first.capacity())
                break;
            first.push_back(boost::asio::buffer(next, max));
            max -= first.back().size();
        }
        return first;
    }
}

}  // namespace weir::inline v0_2::detail
