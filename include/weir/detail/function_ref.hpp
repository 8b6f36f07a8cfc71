#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>

namespace weir::inline v0_2::detail {

template <class Signature>
class function_ref;

/// A reference to a callable object that exists until the last call.
template <class R, class... Args>
class function_ref<R(Args...)> {
public:
    template <class F>
        requires(!std::same_as<std::remove_cvref_t<F>, function_ref> &&
                 std::is_invocable_r_v<R, F&, Args...>)
    function_ref(F&& f) noexcept  // implicit, like std::function_ref
        : object_(const_cast<void*>(static_cast<void const*>(std::addressof(f)))),
          call_([](void* object, Args... args) -> R {
              return std::invoke(*static_cast<std::remove_reference_t<F>*>(object),
                                 static_cast<Args&&>(args)...);
          }) {}

    R operator()(Args... args) const { return call_(object_, static_cast<Args&&>(args)...); }

private:
    void* object_;
    R (*call_)(void*, Args...);
};

}  // namespace weir::inline v0_2::detail
