#include <weir/weir.hpp>

#include <boost/asio/io_context.hpp>

int main() {
    boost::asio::io_context ctx;
    weir::seats kitchen{ctx.get_executor(), {.seats = 1}};
    auto seat = kitchen.try_enter();

    // These warnings are on in weir's own build, and must be off in a consumer's.
    long wide = 1;
    {
        int wide = 2;
        short narrow = wide;
        static_cast<void>(narrow);
    }
    static_cast<void>(wide);

    return seat ? 0 : 1;
}
