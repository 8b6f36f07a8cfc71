#include "routes.hpp"

#include "http/path.hpp"
#include "limiting/request.hpp"

#include <algorithm>
#include <utility>

namespace proxy {
routes::routes(std::vector<route> all)
    : all_(std::move(all)), needs_path_(std::ranges::any_of(all_, [](route const& r) {
          return r.configuration.path != "/";
      })) {}

route const* routes::find(http::request_head const& request) const {
    auto const path = needs_path_ ? http::normal_path(request.target) : std::string();
    for (auto const& one : all_)
        if (limiting::fits(one.configuration, request.host, path, request.method_name))
            return &one;
    return nullptr;
}

}  // namespace proxy
