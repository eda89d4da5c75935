/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler runs in whatever thread reads, and takes no lock: mappings are in an array of fixed size, of which only as much
 * is looked at as was ever used. A slot is free when its start is 0; the start is written last and cleared first. mmap() is no
 * function that POSIX allows in a handler, but on Linux a bare system call.
 */
#include "symbol/table_guard.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARDS_MAX 65536u

struct guard {
	atomic_uintptr_t start;
	atomic_size_t len;
	atomic_bool broken;
};
static struct guard guards[GUARDS_MAX];
static atomic_uint guards_used;
static pthread_mutex_t guards_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous;
static uintptr_t page_bytes;

static struct guard *find_guard(uintptr_t address)
{
	unsigned used = atomic_load_explicit(&guards_used, memory_order_acquire);
	for (unsigned i = 0; i < used; i++) {
		uintptr_t start = atomic_load_explicit(&guards[i].start, memory_order_acquire);
		if (start && address >= start && address - start < atomic_load_explicit(&guards[i].len, memory_order_relaxed))
			return &guards[i];
	}
	return NULL;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
	uintptr_t address = (uintptr_t)info->si_addr;
	struct guard *guard = info->si_code > 0 ? find_guard(address) : NULL;
	if (guard) {
		atomic_store_explicit(&guard->broken, true, memory_order_release);
		void *page = (void *)(address & ~(page_bytes - 1));
		if (mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
			return;
	}
	/* Not ours: as if we had never been here. The same instruction faults again; what was sent is sent again. */
	sigaction(number, &previous, NULL);
	if (info->si_code <= 0)
		raise(number);
}

static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
	sigemptyset(&action.sa_mask);
	page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	sigaction(SIGBUS, &action, &previous);
}

unsigned table_guard_add(const void *start, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, install);
	pthread_mutex_lock(&guards_lock);
	unsigned i = 0;
	while (i < guards_used && guards[i].start)
		i++;
	bool found = i < GUARDS_MAX;
	if (found) {
		guards[i].broken = false;
		atomic_store_explicit(&guards[i].len, len, memory_order_relaxed);
		atomic_store_explicit(&guards[i].start, (uintptr_t)start, memory_order_release);
		if (i == guards_used)
			atomic_store_explicit(&guards_used, i + 1, memory_order_release);
	}
	pthread_mutex_unlock(&guards_lock);
	return found ? i + 1 : 0;
}

void table_guard_remove(unsigned guard)
{
	if (guard == 0)
		return;
	pthread_mutex_lock(&guards_lock);
	atomic_store_explicit(&guards[guard - 1].start, 0, memory_order_release);
	pthread_mutex_unlock(&guards_lock);
}

bool table_guard_is_broken(unsigned guard)
{
	return guard > 0 && atomic_load_explicit(&guards[guard - 1].broken, memory_order_acquire);
}
