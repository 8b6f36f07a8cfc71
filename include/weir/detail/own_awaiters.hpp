#pragma once

#include <boost/version.hpp>

// The way in which Asio awaits an operation is not a public interface. In untried versions the operations of weir are
// awaited like any other: the coroutine is suspended, and a post is needed even if a permit is granted immediately. All
// else is equal. WEIR_AWAIT_PLAINLY selects this behaviour.
#if BOOST_VERSION >= 108300 && BOOST_VERSION <= 109000 && !defined(WEIR_AWAIT_PLAINLY) &&          \
    !defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING)
#define WEIR_HAS_OWN_AWAITERS
#endif
