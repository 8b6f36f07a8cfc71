#pragma once
namespace weir::inline v0_2 {
/// The treatment of stored permits when the options change.
enum class carry_over {
    as_is,         ///< kept, up to the new maximum
    proportional,  ///< kept in proportion to the maximum
    reset,         ///< as if the limiter were new
};
}  // namespace weir::inline v0_2
