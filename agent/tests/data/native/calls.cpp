// What only C++ does to stacks: exceptions, destructors, virtual calls, callables.

#include <algorithm>
#include <any>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// A debugger takes this for a breakpoint of its own, so that no symbols are needed.
#define STOP() __asm__ volatile("int3" ::: "memory")

#define APART __attribute__((noipa))

volatile int sink = 3;

APART int leaf(int value)
{
    STOP();
    return value + sink;
}

// Objects.

struct Guard {
    int value;
    explicit Guard(int value) : value(value) {}
    ~Guard() noexcept(false) { leaf(value); }
};

struct First {
    long first = 1;
    virtual ~First() { leaf(1); }
    virtual int call(int value) { return leaf(value); }
};

struct Second {
    long second = 2;
    virtual ~Second() {}
    virtual int other(int value) = 0;
};

struct Both : First, virtual Second {
    std::string text = "a text that is too long to be kept inside of the object";
    ~Both() override { leaf(2); }
    int call(int value) override { return First::call(value) + 1; }
    // Called through a thunk that moves `this`.
    int other(int value) override { return leaf(value) + static_cast<int>(text.size()); }
};

APART int calls_virtually(First &first, Second &second)
{
    STOP();
    return first.call(1) + second.other(2);
}

Guard made_before_main(4);
thread_local std::unique_ptr<First> of_thread;

// Exceptions.

APART void throws(int value)
{
    Guard guard(value);
    std::string text(100, 'x');
    STOP();
    if (value)
        throw std::runtime_error(text);
}

APART int passes_on(int depth)
{
    Guard guard(depth);
    if (depth)
        return passes_on(depth - 1) + guard.value;
    throws(1);
    return 0;
}

APART int translates()
{
    try {
        return passes_on(2);
    } catch (const std::runtime_error &error) {
        STOP();
        std::throw_with_nested(std::logic_error("translated"));
    }
}

APART int catches()
{
    try {
        return translates();
    } catch (const std::logic_error &error) {
        try {
            std::rethrow_if_nested(error);
        } catch (...) {
            return leaf(5);
        }
    }
    return 0;
}

APART int throws_in_a_constructor()
{
    struct Member : Guard {
        Guard inner{7};
        Member() : Guard(6) { throws(8); }
    };
    try {
        Member member;
    } catch (const std::exception &) {
        return leaf(9);
    }
    return 0;
}

// Callables.

APART int sorts()
{
    std::vector<std::string> words;
    for (int nth = 0; nth < 20; nth++)
        words.push_back(std::to_string(nth * 7 % 20));
    int calls = 0;
    std::sort(words.begin(), words.end(), [&](const auto &left, const auto &right) {
        if (calls++ % 16 == 0)
            STOP();
        return left < right;
    });
    std::map<std::string, int, std::function<bool(const std::string &, const std::string &)>> map(
        [&](const auto &left, const auto &right) {
            if (calls++ % 16 == 0)
                leaf(1);
            return left > right;
        });
    for (const auto &word : words)
        map[word] = 1;
    return std::accumulate(map.begin(), map.end(), 0, [](int sum, const auto &pair) {
        return sum + pair.second;
    });
}

APART int binds()
{
    std::function<int(int)> nested = leaf;
    for (int nth = 0; nth < 5; nth++)
        nested = [nested, nth](int value) { return nested(value + nth); };
    std::any any = nested;
    return std::any_cast<std::function<int(int)> &>(any)(1);
}

APART bool matches()
{
    std::regex pattern("(a|b)*c([0-9]+)x?");
    STOP();
    return std::regex_match("abababc123", pattern);
}

APART int in_threads()
{
    std::mutex mutex;
    auto work = [&](int value) {
        of_thread = std::make_unique<First>();
        std::lock_guard lock(mutex);
        return leaf(value);
    };
    auto future = std::async(std::launch::async, work, 1);
    std::thread thread(work, 2);
    thread.join();
    std::packaged_task<int()> task([] {
        throws(3);
        return 1;
    });
    task();
    try {
        task.get_future().get();
    } catch (const std::exception &) {
    }
    return future.get();
}

int main()
{
    {
        auto both = std::make_unique<Both>();
        calls_virtually(*both, *both);
    }
    catches();
    throws_in_a_constructor();
    sorts();
    binds();
    matches();
    in_threads();
    std::set_terminate([] {
        leaf(1);
        exit(0);
    });
    auto ends = []() noexcept { throws(1); };
    ends();
}
