// SPDX-License-Identifier: Apache-2.0
// Template-heavy C++ as it makes debug information large: PART makes the types of each translation unit its own, so that no
// two of them share an instantiation, COPIES says how many of them there are. Built by tests/symbol/heavy.sh.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {
long sink;
}

template <int N> struct tag {
	int value = N;
	std::string text = std::to_string(N);
	bool operator<(const tag &other) const { return value < other.value || (value == other.value && text < other.text); }
	bool operator==(const tag &other) const { return value == other.value && text == other.text; }
};
template <int N> struct tag_hash {
	std::size_t operator()(const tag<N> &t) const { return std::hash<std::string>()(t.text) ^ static_cast<std::size_t>(t.value); }
};

template <int N> struct node {
	using any = std::variant<tag<N>, std::string, std::vector<tag<N>>, std::map<tag<N>, std::string>, std::tuple<int, tag<N>, double>>;
	std::vector<any> items;
	std::unordered_map<tag<N>, std::shared_ptr<node>, tag_hash<N>> children;
	std::map<std::string, std::set<tag<N>>> names;

	void fill(int count)
	{
		for (int i = 0; i < count; i++) {
			tag<N> t{i, std::to_string(i * N)};
			items.emplace_back(t);
			items.emplace_back(t.text);
			items.emplace_back(std::vector<tag<N>>{t, t});
			items.emplace_back(std::map<tag<N>, std::string>{{t, "x"}});
			items.emplace_back(std::make_tuple(i, t, 0.5 * i));
			names[t.text].insert(t);
			if (i % 3 == 0)
				children.emplace(t, std::make_shared<node>());
		}
	}
	long visit_all() const
	{
		long sum = 0;
		for (const any &a : items)
			for (const any &b : items)
				sum += std::visit(
					[this](const auto &x, const auto &y) -> long {
						using X = std::decay_t<decltype(x)>;
						using Y = std::decay_t<decltype(y)>;
						if constexpr (std::is_same_v<X, tag<N>> && std::is_same_v<Y, tag<N>>)
							return x == y ? names.size() : x.value;
						else if constexpr (std::is_same_v<X, std::string>)
							return static_cast<long>(x.size());
						else if constexpr (std::is_same_v<Y, std::vector<tag<N>>>)
							return std::accumulate(y.begin(), y.end(), 0L,
									       [](long s, const tag<N> &t) { return s + t.value; });
						else
							return static_cast<long>(sizeof(X) + sizeof(Y));
					},
					a, b);
		return sum;
	}
	long sorted()
	{
		std::vector<tag<N>> all;
		for (const auto &[name, set] : names)
			std::copy(set.begin(), set.end(), std::back_inserter(all));
		std::stable_sort(all.begin(), all.end(), [](const tag<N> &a, const tag<N> &b) { return b < a; });
		std::nth_element(all.begin(), all.begin() + static_cast<long>(all.size() / 2), all.end());
		std::function<long(const tag<N> &)> f = [this](const tag<N> &t) { return t.value + static_cast<long>(children.count(t)); };
		long sum = 0;
		std::for_each(all.begin(), all.end(), [&](const tag<N> &t) { sum += f(t); });
		return sum;
	}
};

#ifdef REGEX
template <int N> long match()
{
	std::basic_regex<char> r("([a-z]+)-([0-9]{1," + std::to_string(N % 9 + 1) + "})");
	std::string text = "abc-" + std::to_string(N);
	std::smatch m;
	return std::regex_match(text, m, r) ? static_cast<long>(m.size()) : 0;
}
#else
template <int N> long match() { return N; }
#endif

template <int N> void run()
{
	node<N> n;
	n.fill(4);
	sink += n.visit_all() + n.sorted() + match<N>();
}
template <int... I> void run_all(std::integer_sequence<int, I...>) { (run<PART * 1000 + I>(), ...); }

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
long PASTE(part_, PART)();
long PASTE(part_, PART)()
{
	run_all(std::make_integer_sequence<int, COPIES>());
	return sink;
}
#if PART == 0
int main() { return part_0() == 0; }
#endif
