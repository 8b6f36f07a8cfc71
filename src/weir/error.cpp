#include <weir/error.hpp>

#include <boost/system/errc.hpp>

#include <utility>

namespace weir::inline v0_2 {
namespace {

class category final : public boost::system::error_category {
public:
    // A random id: codes of two copies of the library in one program are equal.
    constexpr category() noexcept : error_category(0xC678'7464'3557'7701) {}

    char const* name() const noexcept override { return "weir"; }

    std::string message(int code) const override {
        switch (static_cast<errc>(code)) {
            case errc::no_permit:
                return "no permit is available";
            case errc::timed_out:
                return "no permit became available within the patience";
            case errc::deadline_unreachable:
                return "the wait would exceed the patience";
            case errc::queue_full:
                return "the queue is full";
            case errc::shed:
                return "dropped from the queue under overload";
            case errc::exceeds_capacity:
                return "the request exceeds the capacity of the limiter";
            case errc::closed:
                return "the limiter is closed";
            case errc::too_many_keys:
                return "the limiter has reached its maximum number of keys";
            case errc::unavailable:
                return "the store is unavailable";
            case errc::lost:
                return "the lease of the shared seat has ended";
            case errc::misconfigured:
                return "the store is misconfigured";
        }
        return "unknown weir error " + std::to_string(code);
    }

    boost::system::error_condition default_error_condition(int code) const noexcept override {
        namespace generic = boost::system::errc;
        switch (static_cast<errc>(code)) {
            case errc::no_permit:
            case errc::shed:
                return generic::make_error_condition(generic::resource_unavailable_try_again);
            case errc::timed_out:
            case errc::deadline_unreachable:
                return generic::make_error_condition(generic::timed_out);
            case errc::queue_full:
            case errc::too_many_keys:
                return generic::make_error_condition(generic::no_buffer_space);
            case errc::exceeds_capacity:
                return generic::make_error_condition(generic::value_too_large);
            case errc::closed:
                return generic::make_error_condition(generic::broken_pipe);
            case errc::unavailable:
                return generic::make_error_condition(generic::not_connected);
            case errc::lost:
                return generic::make_error_condition(generic::owner_dead);
            case errc::misconfigured:
                return generic::make_error_condition(generic::operation_not_permitted);
        }
        return {code, *this};
    }
};

std::string text_of(std::exception_ptr const& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (boost::system::system_error const& e) {
        // Without the place in the source code from which an error comes.
        std::string text = e.what();
        auto const place = " at " + e.code().location().to_string();
        auto const begin = e.code().has_location() ? text.find(place) : text.npos;
        return begin == text.npos ? text : text.erase(begin, place.size());
    } catch (std::exception const& e) {
        return e.what();
    } catch (...) {
        return "an unknown exception";
    }
}

}  // namespace

boost::system::error_category const& error_category() noexcept {
    static category const instance;
    return instance;
}

error_code make_error_code(errc e) noexcept {
    return {static_cast<int>(e), error_category()};
}

rejection::rejection(error_code ec, std::optional<duration> retry_after)
    : rejection({.retry_after = retry_after.value_or(forever)}, ec, {}) {}

rejection::rejection(detail::rejected const& what, error_code ec, std::string const& cause)
    : system_error(ec),
      rejected_(what),
      what_(std::make_shared<std::string>(
          "weir: " + reason() + " [" + ec.to_string() + ']' + cause)) {}

std::string rejection::reason() const {
    std::string text(limiter());
    text.append(text.empty() ? "" : ": ").append(code().message());
    auto const& [retry_after, by, requested, capacity] = rejected_;
    if (requested != 0)
        text += ": " + std::to_string(requested) + (requested == 1 ? " permit" : " permits") +
                " requested, but the capacity is " + std::to_string(capacity);
    return text;
}

detail::failure::failure(std::exception_ptr thrown)
    : thrown_(std::move(thrown)), text_(text_of(thrown_)) {}

checkout_rejection::checkout_rejection(error_code ec, std::exception_ptr failure)
    : checkout_rejection(failure ? new detail::failure(std::move(failure)) : nullptr, ec, {}) {}

checkout_rejection::checkout_rejection(detail::shared_failure failure, error_code ec,
                                       detail::rejected const& what)
    : rejection(what, ec, failure ? "; cannot create an object: " + failure->text() : ""),
      failure_(std::move(failure)) {}

}  // namespace weir::inline v0_2
