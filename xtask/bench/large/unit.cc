// One of many units of a large program. `unit_0000` is replaced in the compiled object by the name
// of each copy, which has the same length.
#include <algorithm>
#include <any>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <iomanip>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace unit_0000 {

template <int N> struct Number {
    long value = N;
    bool operator<(const Number &other) const { return value < other.value; }
    bool operator==(const Number &other) const { return value == other.value; }
};

template <int N> struct Hash {
    size_t operator()(const Number<N> &number) const { return std::hash<long>()(number.value * 31 + N); }
};

template <int N> struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};

template <int N> struct Square final : Shape<N> {
    double side;
    explicit Square(double side) : side(side) {}
    double area() const override { return side * side + N; }
};

template <int N> struct Circle final : Shape<N> {
    double radius;
    explicit Circle(double radius) : radius(radius) {}
    double area() const override { return radius * radius * 3.14159 + N; }
};

template <int N> __attribute__((noinline)) long containers(unsigned seed) {
    std::mt19937 random(seed + N);
    std::map<Number<N>, std::vector<Number<N>>> ordered;
    std::unordered_map<Number<N>, std::string, Hash<N>> hashed;
    std::set<std::pair<Number<N>, int>> pairs;
    std::deque<std::tuple<Number<N>, double, std::string>> queue;
    std::list<std::unique_ptr<Shape<N>>> shapes;
    for (int i = 0; i < 40; i++) {
        Number<N> number;
        number.value = random() % 97;
        ordered[number].push_back(number);
        hashed[number] += std::to_string(i);
        pairs.emplace(number, i);
        queue.emplace_back(number, i * 0.5, "text");
        if (i % 2) shapes.push_back(std::make_unique<Square<N>>(i));
        else shapes.push_back(std::make_unique<Circle<N>>(i));
    }
    std::sort(queue.begin(), queue.end(), [](const auto &a, const auto &b) {
        return std::get<0>(b) < std::get<0>(a);
    });
    double area = std::accumulate(shapes.begin(), shapes.end(), 0.0,
        [](double sum, const auto &shape) { return sum + shape->area(); });
    long sum = 0;
    for (auto &[number, list] : ordered) {
        std::stable_sort(list.begin(), list.end());
        sum += std::count(list.begin(), list.end(), number) + hashed[number].size();
    }
    return sum + static_cast<long>(area) + pairs.size() + queue.size();
}

template <int N> __attribute__((noinline)) long values(unsigned seed) {
    using Value = std::variant<Number<N>, std::string, double, std::vector<Number<N>>>;
    std::vector<Value> values;
    std::function<long(const Number<N> &)> call = [seed](const Number<N> &number) { return number.value ^ seed; };
    for (unsigned i = 0; i < 60; i++) {
        switch ((seed + i) % 4) {
        case 0: values.emplace_back(Number<N>{}); break;
        case 1: values.emplace_back(std::string(i, 'x')); break;
        case 2: values.emplace_back(i * 1.25); break;
        default: values.emplace_back(std::vector<Number<N>>(i));
        }
    }
    long sum = 0;
    for (const auto &value : values) {
        sum += std::visit([&](const auto &it) -> long {
            using It = std::decay_t<decltype(it)>;
            if constexpr (std::is_same_v<It, Number<N>>) return call(it);
            else if constexpr (std::is_same_v<It, double>) return std::lround(std::sin(it) * 9);
            else return it.size();
        }, value);
    }
    std::any any = Number<N>{};
    if (auto *number = std::any_cast<Number<N>>(&any)) sum += number->value;
    return sum;
}

template <int N> __attribute__((noinline)) long text(unsigned seed) {
    std::ostringstream out;
    out << std::hex << std::setw(N % 7 + 1) << seed << ' ' << std::fixed << seed * 0.37 << Number<N>{}.value;
    std::string line = out.str();
    std::transform(line.begin(), line.end(), line.begin(), [](char c) { return c == ' ' ? '_' : c; });
    return std::count_if(line.begin(), line.end(), [](char c) { return c == '0' + N % 10; });
}

template <int... N> long all(unsigned seed, std::integer_sequence<int, N...>) {
    using Function = long (*)(unsigned);
    static constexpr std::array<Function, 3 * sizeof...(N)> functions = {containers<N>..., values<N>..., text<N>...};
    long sum = 0;
    for (unsigned i = 0; i < 8; i++) sum += functions[(seed * 8 + i) * 7 % functions.size()](seed);
    return sum;
}

long run(unsigned seed) { return all(seed, std::make_integer_sequence<int, INSTANCES>()); }

} // namespace unit_0000
