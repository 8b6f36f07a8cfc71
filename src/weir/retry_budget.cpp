#include <weir/retry_budget.hpp>

#include "check_option.hpp"

#include <cmath>
#include <cstdint>
#include <string_view>

namespace weir::inline v0_2::detail {
namespace {

std::int64_t thousandths(std::string_view option, double tokens, double least = 0) {
    check_option("retry_budget", option, tokens, least, 1e6);
    return std::llround(tokens * 1'000);
}

}  // namespace

retry_numbers::retry_numbers(retry_budget_options const& options)
    : most(thousandths("most", options.most, 0.001)),
      reserve(thousandths("reserve", options.reserve)),
      cost(thousandths("cost", options.cost)),
      success(thousandths("success", options.success)),
      retry_success(thousandths("retry_success", options.retry_success)),
      failure(thousandths("failure", options.failure)),
      per_second(thousandths("per_second", options.per_second)) {}

}  // namespace weir::inline v0_2::detail
