/* SPDX-License-Identifier: Apache-2.0 */
/* C++: virtual calls, callbacks of the standard library, and exceptions, of which samples are taken while they are thrown. */
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "scenario.h"

namespace
{

struct node {
	virtual ~node() = default;
	virtual uint64_t shadowed_visit(unsigned n) = 0;
};

struct leaf : node {
	SHADOWED uint64_t shadowed_visit(unsigned n) override
	{
		SHADOW();
		shadowed_spin(100 + n);
		return n;
	}
};

struct inner : node {
	std::unique_ptr<node> left, right;
	inner(node *l, node *r) : left(l), right(r)
	{
	}
	SHADOWED uint64_t shadowed_visit(unsigned n) override
	{
		SHADOW();
		return left->shadowed_visit(n + 1) + right->shadowed_visit(n + 2);
	}
};

node *tree(unsigned depth)
{
	if (depth == 0)
		return new leaf;
	return new inner(tree(depth - 1), tree(depth - 1));
}

void run_virtual()
{
	static std::unique_ptr<node> root(tree(8));
	sink += root->shadowed_visit(0);
}

/* ---- callbacks ---- */

struct shadowed_less {
	SHADOWED bool operator()(unsigned a, unsigned b) const
	{
		SHADOW();
		return (a * 2654435761u) < (b * 2654435761u);
	}
};

SHADOWED void shadowed_sort()
{
	SHADOW();
	std::vector<unsigned> items(500);
	for (unsigned i = 0; i < items.size(); i++)
		items[i] = i * 31 % 500;
	std::sort(items.begin(), items.end(), shadowed_less());
	std::map<unsigned, std::string, shadowed_less> map;
	for (unsigned item : items)
		map[item % 60] += "x";
	sink += map.size();
}

SHADOWED uint64_t shadowed_function(const std::function<uint64_t(unsigned)> &f, unsigned n)
{
	SHADOW();
	return f(n);
}

SHADOWED uint64_t shadowed_descend(unsigned n)
{
	SHADOW();
	if (n == 0) {
		shadowed_spin(2000);
		return 1;
	}
	return shadowed_function([](unsigned m) { return shadowed_descend(m - 1) + 1; }, n);
}

void run_functions()
{
	sink += shadowed_descend(25);
}

SHADOWED void shadowed_format()
{
	SHADOW();
	std::ostringstream out;
	for (unsigned i = 0; i < 200; i++)
		out << i << ' ' << i * 0.37 << ' ' << std::hex << i << '\n';
	std::istringstream in(out.str());
	double value;
	std::string word;
	while (in >> value >> word)
		sink += static_cast<uint64_t>(value);
}

/* ---- exceptions ---- */

struct busy { /* its destructor runs in the landing pad of a frame that is being left */
	~busy()
	{
		shadowed_spin(200);
	}
};

SHADOWED unsigned shadowed_throw(unsigned n, unsigned kind)
{
	SHADOW();
	busy here;
	if (n > 0)
		return shadowed_throw(n - 1, kind) + 1;
	if (kind % 3 == 0)
		throw std::runtime_error("a message that is long enough to be allocated");
	if (kind % 3 == 1)
		throw kind;
	throw std::string("text");
}

SHADOWED unsigned shadowed_catch(unsigned n, unsigned kind)
{
	SHADOW();
	try {
		return shadowed_throw(n, kind);
	} catch (const std::runtime_error &error) {
		shadowed_spin(100);
		return static_cast<unsigned>(error.what()[0]);
	} catch (unsigned number) {
		shadowed_spin(100);
		return number;
	}
}

SHADOWED unsigned shadowed_rethrow(unsigned n, unsigned kind)
{
	SHADOW();
	try {
		return shadowed_catch(n, kind);
	} catch (...) {
		try {
			throw;
		} catch (const std::string &text) {
			return static_cast<unsigned>(text.size());
		}
	}
}

SHADOWED int shadowed_compare_throwing(const void *a, const void *b)
{
	SHADOW();
	if (*static_cast<const int *>(a) == 17)
		throw 17;
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

SHADOWED void shadowed_throw_through_qsort()
{
	SHADOW();
	int items[64];
	for (int i = 0; i < 64; i++)
		items[i] = i * 29 % 64;
	try {
		qsort(items, 64, sizeof(*items), shadowed_compare_throwing);
	} catch (int number) {
		sink += static_cast<uint64_t>(number);
	}
}

SHADOWED void shadowed_exceptions()
{
	SHADOW();
	for (unsigned i = 0; i < 60; i++)
		sink += shadowed_rethrow(i % 9, i);
	shadowed_throw_through_qsort();
}

void run_exceptions()
{
	shadowed_exceptions();
}

void run_threads()
{
	std::thread a(shadowed_exceptions), b(run_functions);
	a.join();
	b.join();
}

const struct scenario scenarios[] = {
	{"virtual", run_virtual, 0},	{"sort", shadowed_sort, 0},	   {"functions", run_functions, 0},
	{"format", shadowed_format, 0}, {"exceptions", run_exceptions, 0}, {"threads", run_threads, 0},
};

} // namespace

int main(int argc, char **argv)
{
	return scenario_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(*scenarios));
}
