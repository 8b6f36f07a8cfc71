#include "response_counter.hpp"

#include <fmt/format.h>

#include <utility>

namespace proxy {

admin::route_state response_counter::sum(std::string name) const {
    std::array<std::uint64_t, cells> all{};
    statuses_.for_each([&all](auto const& one) {
        for (std::size_t i = 0; i != cells; ++i)
            all[i] += one[i].load(std::memory_order_relaxed);
    });
    admin::route_state out{.name = std::move(name), .responses = {}, .times = times_.sum()};
    auto const add = [&](std::size_t cell, std::string status) {
        if (all[cell] != 0)
            out.responses.push_back({std::move(status), all[cell]});
    };
    std::size_t cell = 0;
    for (unsigned i = 0; i != registered.size(); ++i) {
        for (unsigned n = 0; n != registered[i]; ++n)
            add(cell++, std::to_string((i + 1) * 100 + n));
        add(cell++, fmt::format("{}xx", i + 1));
    }
    add(cell, "other");
    return out;
}

}  // namespace proxy
