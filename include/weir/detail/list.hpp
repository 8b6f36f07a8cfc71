#pragma once

#include <utility>

namespace weir::inline v0_2::detail {

/// The base of an element of a `list`, once for each list that it can be in at a time.
template <class Tag>
struct list_hook {
    list_hook* next = nullptr;
    list_hook* previous = nullptr;

    list_hook() = default;
    list_hook(list_hook const&) = delete;
    list_hook& operator=(list_hook const&) = delete;

    [[nodiscard]] bool is_linked() const noexcept { return next != nullptr; }

    /// Removes the element from its list.
    void unlink() noexcept {
        previous->next = next;
        next->previous = previous;
        next = previous = nullptr;
    }
    /// Puts `by` in the position of this element.
    void replace(list_hook& by) noexcept {
        by.next = next;
        by.previous = previous;
        previous->next = next->previous = &by;
        next = previous = nullptr;
    }
};

/// A doubly linked list through hooks inside its elements: it owns nothing and allocates nothing.
template <class T, class Tag>
class list {
    using hook = list_hook<Tag>;

public:
    list() noexcept { clear(); }
    list(list&& other) noexcept {
        clear();
        append(other);
    }

    [[nodiscard]] bool empty() const noexcept { return anchor_.next == &anchor_; }
    [[nodiscard]] T& front() const noexcept { return static_cast<T&>(*anchor_.next); }

    [[nodiscard]] T& back() const noexcept { return static_cast<T&>(*anchor_.previous); }

    void push_back(T& element) noexcept { insert_before(anchor_, element); }
    void push_front(T& element) noexcept { insert_before(*anchor_.next, element); }

    T& pop_front() noexcept {
        T& first = front();
        static_cast<hook&>(first).unlink();
        return first;
    }

    /// Returns the element behind `element`, or null.
    [[nodiscard]] T* after(T& element) const noexcept {
        hook* const next = static_cast<hook&>(element).next;
        return next == &anchor_ ? nullptr : static_cast<T*>(next);
    }

    /// Moves all elements of `other` to the end of this list.
    void append(list& other) noexcept {
        if (other.empty())
            return;
        hook* const first = other.anchor_.next;
        hook* const last = other.anchor_.previous;
        other.clear();
        first->previous = anchor_.previous;
        anchor_.previous->next = first;
        last->next = &anchor_;
        anchor_.previous = last;
    }

    /// Makes the list empty without touching its elements.
    void clear() noexcept { anchor_.next = anchor_.previous = &anchor_; }

private:
    static void insert_before(hook& position, hook& element) noexcept {
        element.previous = position.previous;
        element.next = &position;
        position.previous->next = &element;
        position.previous = &element;
    }

    hook anchor_;
};

}  // namespace weir::inline v0_2::detail
