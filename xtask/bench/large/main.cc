// Calls the units one after the other, for a share of one processor.
//
// Arguments: SECONDS [PERCENT OF A PROCESSOR]
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

/* declarations */

static long (*const units[])(unsigned) = {/* units */};

int main(int count, char **arguments) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::seconds(count > 1 ? std::atol(arguments[1]) : 600);
    const double share = (count > 2 ? std::atol(arguments[2]) : 3) / 100.0;
    const unsigned all = sizeof units / sizeof *units;
    volatile long sum = 0;
    for (unsigned seed = 0; Clock::now() < end;) {
        const auto before = std::clock();
        for (int turn = 0; turn < 10; turn++, seed++) sum = sum + units[seed * 37 % all](seed);
        const double used = double(std::clock() - before) / CLOCKS_PER_SEC;
        std::this_thread::sleep_for(std::chrono::duration<double>(used / share - used + 0.001));
    }
}
