#include <weir/pool.hpp>

#include <utility>

namespace weir {
namespace {

std::string text_of(std::exception_ptr const& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (std::exception const& e) {
        return e.what();
    } catch (...) {
        return "an unknown exception";
    }
}

}  // namespace

checkout_refusal::checkout_refusal(error_code ec, std::exception_ptr failure)
    : refusal(ec, std::nullopt),
      failure_(std::move(failure)),
      what_(std::make_shared<std::string>(
          refusal::what() + (failure_ ? "; no object could be made: " + text_of(failure_) : ""))) {}

}  // namespace weir
