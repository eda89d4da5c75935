// SPDX-License-Identifier: Apache-2.0
// What tests/oracle/stepper steps through, one instruction at a time: sections of calls into libc, libstdc++ and libcrypto. A
// section begins and ends with a breakpoint instruction; in between, nothing but calls matters. Results go to `sink` so that
// they are needed.
#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cwchar>
#include <dlfcn.h>
#include <map>
#include <regex.h>
#include <search.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

volatile uint64_t sink;

// rax: 1 begins a section, 2 ends it; rdi: its name.
#define BREAKPOINT(what, name)                                                                                                 \
	do {                                                                                                                   \
		uint64_t result = what;                                                                                        \
		__asm__ volatile("int3" : "+a"(result) : "D"(name) : "memory");                                                \
	} while (0)

__attribute__((noinline)) int compare(const void *a, const void *b)
{
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

__attribute__((noinline)) void sorting()
{
	int items[150];
	for (int i = 0; i < 150; i++)
		items[i] = i * 7919 % 211;
	qsort(items, 150, sizeof(*items), compare);
	for (int i = 0; i < 20; i++)
		sink += bsearch(&i, items, 150, sizeof(*items), compare) != nullptr;
	void *root = nullptr;
	for (int i = 0; i < 30; i++)
		tsearch(&items[i], &root, compare);
	for (int i = 0; i < 30; i++)
		tdelete(&items[i], &root, compare);
}

__attribute__((noinline)) void strings()
{
	static char a[5000], b[5000];
	static wchar_t w[100];
	for (size_t n :
	     {0u, 1u, 3u, 7u, 8u, 15u, 16u, 31u, 33u, 63u, 64u, 65u, 100u, 127u, 200u, 255u, 256u, 500u, 1000u, 2100u}) {
		memset(a, 'a', n + 1);
		a[n] = 0;
		memcpy(b, a, n + 1);
		memmove(b + 3, b, n + 1);
		memmove(b, b + 3, n + 1);
		sink += strlen(a) + strnlen(a, 300) + static_cast<uint64_t>(memcmp(a, b, n) + strcmp(a, b) + strncmp(a, b, n));
		sink += reinterpret_cast<uintptr_t>(strchr(a, 'q')) + reinterpret_cast<uintptr_t>(strrchr(a, 'q'));
		sink += reinterpret_cast<uintptr_t>(memchr(a, 'q', n)) + reinterpret_cast<uintptr_t>(memrchr(a, 'q', n));
		sink += reinterpret_cast<uintptr_t>(strstr(a, "aab")) + reinterpret_cast<uintptr_t>(rawmemchr(a, 0));
		sink += strspn(a, "ab") + strcspn(a, "xy") + reinterpret_cast<uintptr_t>(strpbrk(a, "xyz"));
		sink += static_cast<uint64_t>(strcasecmp(a, b)) + reinterpret_cast<uintptr_t>(stpcpy(b, a));
		sink += reinterpret_cast<uintptr_t>(memmem(a, n, "aaaab", 5));
	}
	wmemset(w, L'x', 99);
	sink += wcslen(w) + static_cast<uint64_t>(wmemcmp(w, w + 1, 50)) + reinterpret_cast<uintptr_t>(wcschr(w, L'y'));
}

__attribute__((noinline)) void formatting()
{
	char text[400];
	for (int i = 0; i < 6; i++) {
		snprintf(text, sizeof(text), "%d %5x %s %-10s|%c %p %lld %%", i, i * 77, "text", "left", 'c', text,
			 1234567890123ll);
		snprintf(text, sizeof(text), "%f %.17g %e %a %Lf", i / 3.0, i * 1e100, 1e-300, 0.1, 1.5L);
		sink += static_cast<uint64_t>(strtod("3.14159265358979323846e-10", nullptr) * 1e10);
		sink += static_cast<uint64_t>(strtod("0x1.8p3", nullptr)) + strtoul("12345678901", nullptr, 10);
	}
	int a;
	double d;
	sink += static_cast<uint64_t>(sscanf("42 2.5 word", "%d %lf %399s", &a, &d, text));
	time_t now = 1700000000;
	struct tm tm;
	gmtime_r(&now, &tm);
	sink += strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %a %j", &tm);
	setenv("STEPPED", "yes", 1);
	sink += reinterpret_cast<uintptr_t>(getenv("STEPPED"));
}

__attribute__((noinline)) void memory()
{
	void *places[40];
	for (int i = 0; i < 40; i++)
		places[i] = malloc(static_cast<size_t>(i) * 97 % 3000 + 1);
	for (int i = 0; i < 40; i += 2)
		free(places[i]);
	for (int i = 1; i < 40; i += 2)
		places[i] = realloc(places[i], static_cast<size_t>(i) * 300);
	for (int i = 1; i < 40; i += 2)
		free(places[i]);
	free(calloc(10, 1000));
	void *large = malloc(300000);
	free(large);
}

__attribute__((noinline)) void expressions()
{
	regex_t pattern;
	if (regcomp(&pattern, "^([a-z]+|[0-9]{2,4})*x(b|c)?$", REG_EXTENDED) == 0) {
		sink += static_cast<uint64_t>(regexec(&pattern, "abc123defx", 0, nullptr, 0));
		regfree(&pattern);
	}
}

jmp_buf jump;
__attribute__((noinline)) void jump_out(int n)
{
	if (n == 0 && sink != 1)
		longjmp(jump, 1);
	if (n > 0)
		jump_out(n - 1);
	sink = sink + 1;
}
__attribute__((noinline)) void jumping()
{
	for (volatile int i = 0; i < 5; i = i + 1)
		if (setjmp(jump) == 0)
			jump_out(i);
	sigjmp_buf other;
	if (sigsetjmp(other, 1) == 0)
		siglongjmp(other, 1);
}

// Each of these is called for the first time here: through the dynamic linker's resolver.
__attribute__((noinline)) void binding()
{
	sink += static_cast<uint64_t>(rand()) + static_cast<uint64_t>(labs(static_cast<long>(sink))) +
		strtoull("7", nullptr, 8);
	sink += static_cast<uint64_t>(getppid()) + static_cast<uint64_t>(getuid()) + static_cast<uint64_t>(atoi("12"));
	sink += static_cast<uint64_t>(lrand48()) + static_cast<uint64_t>(clock()) + static_cast<uint64_t>(isatty(0));
	sink += ffsl(static_cast<long>(sink)) + reinterpret_cast<uintptr_t>(index("abc", 'b'));
}

__attribute__((noinline)) void clocks()
{
	struct timespec now;
	for (int i = 0; i < 5; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		clock_getres(CLOCK_MONOTONIC, &now);
		sink += static_cast<uint64_t>(time(nullptr)) + static_cast<uint64_t>(now.tv_nsec);
	}
	unsigned cpu, node;
	getcpu(&cpu, &node);
}

__attribute__((noinline)) void containers()
{
	std::vector<int> items;
	for (int i = 0; i < 120; i++)
		items.push_back(i * 31 % 97);
	std::sort(items.begin(), items.end());
	std::map<std::string, int> map;
	for (int item : items)
		map[std::to_string(item % 20)]++;
	for (int i = 0; i < 10; i++)
		map.erase(std::to_string(i));
	sink += map.size();
}

__attribute__((noinline)) void streams()
{
	std::ostringstream out;
	for (int i = 0; i < 4; i++)
		out << i << ' ' << i * 0.37 << ' ' << std::hex << i << ' ' << true << '\n';
	std::istringstream in(out.str());
	double value;
	while (in >> value)
		sink += static_cast<uint64_t>(value);
	sink += out.str().size();
}

struct busy {
	~busy()
	{
		sink = sink + 1;
	}
};
__attribute__((noinline)) unsigned throwing(unsigned n)
{
	busy here;
	if (n > 0)
		return throwing(n - 1) + 1;
	if (sink & 1)
		throw std::runtime_error("odd");
	throw 5;
}
__attribute__((noinline)) void exceptions()
{
	for (unsigned i = 0; i < 4; i++) {
		try {
			sink += throwing(i);
		} catch (const std::runtime_error &) {
			sink = sink + 1;
		} catch (...) {
			try {
				throw;
			} catch (int n) {
				sink += static_cast<uint64_t>(n);
			}
		}
		sink = sink + 1;
	}
}

// ---- libcrypto, by name, so that no header of it is needed ----

void *crypto;
template <typename F> F *symbol(const char *name)
{
	void *found = dlsym(crypto, name);
	if (!found) {
		fprintf(stderr, "stepped: libcrypto has no %s\n", name);
		_exit(1);
	}
	return reinterpret_cast<F *>(found);
}
#define CALL(name, type) symbol<type>(#name)

unsigned char data[4096], result[8192];

void digest(const char *name)
{
	auto *md = CALL(EVP_get_digestbyname, const void *(const char *))(name);
	auto *once = CALL(EVP_Digest, int(const void *, size_t, void *, unsigned *, const void *, void *));
	if (!md)
		return;
	once(data, 10, result, nullptr, md, nullptr); // fetched, and its functions bound, outside of the section
	BREAKPOINT(1, name);
	once(data, 600, result, nullptr, md, nullptr);
	BREAKPOINT(2, name);
}

void cipher(const char *name, int bytes)
{
	auto *type = CALL(EVP_get_cipherbyname, const void *(const char *))(name);
	auto *context = CALL(EVP_CIPHER_CTX_new, void *(void))();
	auto *init = CALL(EVP_CipherInit_ex, int(void *, const void *, void *, const void *, const void *, int));
	auto *update = CALL(EVP_CipherUpdate, int(void *, void *, int *, const void *, int));
	auto *final = CALL(EVP_CipherFinal_ex, int(void *, void *, int *));
	int n = 0;
	if (!type || !context)
		return;
	for (int encrypt = 0; encrypt < 2; encrypt++) {
		init(context, type, nullptr, data, data + 64, encrypt);
		BREAKPOINT(1, name);
		init(context, nullptr, nullptr, data + 7, data + 80, encrypt);
		update(context, result, &n, data, bytes);
		final(context, result + n, &n);
		BREAKPOINT(2, name);
	}
	CALL(EVP_CIPHER_CTX_free, void(void *))(context);
}

void sign(const char *title, void *key, const char *hash)
{
	const void *md = hash ? CALL(EVP_get_digestbyname, const void *(const char *))(hash) : nullptr;
	auto *context_new = CALL(EVP_MD_CTX_new, void *(void));
	auto *init = CALL(EVP_DigestSignInit, int(void *, void *, const void *, void *, void *));
	auto *once = CALL(EVP_DigestSign, int(void *, void *, size_t *, const void *, size_t));
	if (!key)
		return;
	for (int i = 0; i < 2; i++) { // the first time outside of a section: blinding and tables are set up
		void *context = context_new();
		size_t n = sizeof(result);
		init(context, nullptr, md, nullptr, key);
		if (i)
			BREAKPOINT(1, title);
		sink += static_cast<uint64_t>(once(context, result, &n, data, 100));
		if (i)
			BREAKPOINT(2, title);
	}
}

void cryptography(const std::string &how_much)
{
	crypto = dlopen("libcrypto.so.3", RTLD_NOW);
	if (!crypto) {
		fprintf(stderr, "stepped: %s\n", dlerror());
		return;
	}
	for (const char *name : {"SHA1", "SHA256", "SHA512", "SHA3-256", "MD5", "SM3", "BLAKE2b512", "RIPEMD160"})
		digest(name);
	if (how_much == "digests")
		return;
	for (const char *name :
	     {"AES-128-GCM", "AES-256-CBC", "AES-128-CTR", "ChaCha20-Poly1305", "CAMELLIA-128-CBC", "AES-128-XTS"})
		cipher(name, 1024);
	cipher("AES-128-GCM", 3000);
	auto *keygen = CALL(EVP_PKEY_Q_keygen, void *(void *, const char *, const char *, ...));
	sign("ECDSA-P256", keygen(nullptr, nullptr, "EC", "P-256"), "SHA256");
	if (how_much == "short") // the others take a million instructions
		return;
	sign("ED25519", keygen(nullptr, nullptr, "ED25519"), nullptr);
	sign("RSA-1024", keygen(nullptr, nullptr, "RSA", static_cast<size_t>(1024)), "SHA256");
}

struct section {
	const char *name;
	void (*run)();
};
const section sections[] = {
	{"binding", binding},	    {"sorting", sorting},   {"strings", strings},	{"formatting", formatting},
	{"memory", memory},	    {"regex", expressions}, {"jumping", jumping},	{"clocks", clocks},
	{"containers", containers}, {"streams", streams},   {"exceptions", exceptions},
};

} // namespace

// stepped [libs|crypto [short|digests]|SECTION]: all of it without arguments.
int main(int argc, char **argv)
{
	const std::string what = argc > 1 ? argv[1] : "";
	for (const section &section : sections) {
		if (!what.empty() && what != "libs" && what != section.name)
			continue;
		BREAKPOINT(1, section.name);
		section.run();
		BREAKPOINT(2, section.name);
	}
	if (what.empty() || what == "crypto")
		cryptography(argc > 2 ? argv[2] : "");
	return 0;
}
