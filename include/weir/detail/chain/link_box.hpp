#pragma once

#include <weir/detail/chain/member.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// A link of a chain, of any type. One of at most `room` bytes needs no allocation.
template <std::size_t room>
class link_box {
public:
    template <class Link>
        requires std::is_base_of_v<chain_member, Link>
    explicit link_box(Link link) {
        if constexpr (fits<Link>)
            put(std::move(link));
        else
            put(std::make_shared<Link>(std::move(link)));
    }
    link_box(link_box const& other) : does_(other.does_) { does_->copy(other.bytes(), bytes()); }
    link_box(link_box&& other) noexcept : does_(other.does_) {
        does_->move(other.bytes(), bytes());
    }
    link_box& operator=(link_box const& other) { return *this = link_box(other); }
    link_box& operator=(link_box&& other) noexcept {
        if (this != &other) {
            std::destroy_at(this);
            std::construct_at(this, std::move(other));
        }
        return *this;
    }
    ~link_box() { does_->destroy(bytes()); }

    /// Valid until the box is moved or changed.
    [[nodiscard]] chain_member& get() const noexcept { return does_->get(bytes()); }

private:
    template <class Link>
    static constexpr bool fits =
        sizeof(Link) <= room && alignof(Link) <= alignof(std::max_align_t) &&
        std::is_nothrow_move_constructible_v<Link>;

    // The operations of the type in a box.
    struct actions {
        chain_member& (*get)(void*) noexcept;
        void (*copy)(void* from, void* to);
        void (*move)(void* from, void* to) noexcept;  // `from` can only be destroyed
        void (*destroy)(void*) noexcept;
    };
    template <class T>
    static T& as(void* bytes) noexcept {
        return *std::launder(static_cast<T*>(bytes));
    }
    template <class T>
    static constexpr actions actions_of = {
        .get = [](void* bytes) noexcept -> chain_member& {
            if constexpr (std::is_base_of_v<chain_member, T>)
                return as<T>(bytes);
            else
                return *as<T>(bytes);
        },
        .copy = [](void* from, void* to) { ::new (to) T(std::as_const(as<T>(from))); },
        .move = [](void* from, void* to) noexcept { ::new (to) T(std::move(as<T>(from))); },
        .destroy = [](void* bytes) noexcept { std::destroy_at(&as<T>(bytes)); }};

    template <class T>
    void put(T kept) {
        ::new (bytes()) T(std::move(kept));
        does_ = &actions_of<T>;
    }
    [[nodiscard]] void* bytes() const noexcept { return bytes_.data(); }

    actions const* does_ = nullptr;
    alignas(std::max_align_t) mutable std::array<std::byte, room> bytes_;
};

}  // namespace weir::inline v0_2::detail
