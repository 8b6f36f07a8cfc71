#include <weir/weir.hpp>

#include <boost/asio/io_context.hpp>

int main() {
    boost::asio::io_context ctx;
    weir::seats kitchen{ctx.get_executor(), {.seats = 1}};
    auto seat = kitchen.try_enter();

    // Warnings that weir's own build has switched on, and its consumers' must not.
    long wide = 1;
    {
        int wide = 2;
        short narrow = wide;
        static_cast<void>(narrow);
    }
    static_cast<void>(wide);

    return seat ? 0 : 1;
}
