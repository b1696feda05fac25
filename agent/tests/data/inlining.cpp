// Code of which compilers inline much, in namespaces, templates, classes and lambdas.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace shop {
namespace {

struct Item {
  std::string name;
  double price;
  int count;
  double total() const { return price * count; }
  bool operator<(const Item &other) const { return total() < other.total(); }
};

} // namespace

template <typename T> class Stock {
public:
  Stock() = default;
  ~Stock() { items.clear(); }
  void add(T item) {
    by_name[item.name].push_back(item);
    items.push_back(std::move(item));
  }
  double total() const {
    double sum = 0;
    for (auto &item : items)
      sum += item.total();
    return sum;
  }
  void sort() { std::sort(items.begin(), items.end()); }
  template <typename F> void each(F call) {
    for (auto &item : items)
      call(item);
  }

private:
  std::vector<T> items;
  std::map<std::string, std::vector<T>> by_name;
};

static double work(int count) {
  Stock<Item> stock;
  for (int at = 0; at < count; at++) {
    std::ostringstream name;
    name << "item" << at % 97;
    stock.add({name.str(), at * 0.5, at % 7});
  }
  stock.sort();
  double extra = 0;
  stock.each([&](Item &item) { extra += item.price > 10 ? item.total() : 1; });
  std::unordered_map<int, std::shared_ptr<Item>> shared;
  for (int at = 0; at < count; at++)
    shared[at] = std::make_shared<Item>(Item{"x", 1.0, at});
  std::function<double(int)> look_up = [&](int at) {
    return shared[at]->total();
  };
  for (int at = 0; at < count; at++)
    extra += look_up(at);
  if (count > 1000000)
    throw std::runtime_error("too many");
  return stock.total() + extra;
}

} // namespace shop

extern "C" __attribute__((noinline)) double plain_c_name(int count) {
  return shop::work(count);
}

int main(int count, char **) {
  std::printf("%f\n", plain_c_name(1000 * count));
}
