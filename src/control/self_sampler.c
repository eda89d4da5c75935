/* SPDX-License-Identifier: Apache-2.0 */
#include "control/self_sampler.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/time.h"

#define SLOTS	    256u	/* samples between two looks, twenty a second: those of 50 busy CPUs */
#define THREADS_MAX 65536u	/* with a timer */
#define STACK_MAX   (64u << 20) /* bytes above the stack pointer that may belong to the stack */
#define PAGE	    4096u
#define NO_PAGE	    1u /* no address of a page */

/* The clock of a thread's CPU time, by its number: what pthread_getcpuclockid() makes of a pthread_t
 * (include/linux/posix-timers.h). */
#define CPU_CLOCK_OF_THREAD(tid) ((clockid_t)((~(unsigned)(tid) << 3) | 6u))

enum slot_state { SLOT_FREE = 0, SLOT_CLAIMED, SLOT_READY };
struct slot {
	_Atomic uint32_t state;
	struct self_sample sample;
};
struct timed_thread {
	pid_t tid;
	timer_t timer;
	bool is_seen;
};
struct self_sampler {
	struct slot *slots;
	_Atomic uint32_t next; /* the slot that is tried first */
	_Atomic uint64_t lost;
	uint32_t taken; /* where the reader looks first: slots are in no order once some were not free */
	struct timed_thread *threads;
	size_t thread_count, thread_capacity;
};

/* The one that samples; handlers that are under way keep it alive. */
static struct self_sampler *_Atomic current;
static _Atomic unsigned in_handler;
static atomic_flag is_busy = ATOMIC_FLAG_INIT;

/* ---- in the signal handler ---- */

/* One call for each page of a stack: the kernel reads the set of signals before it finds that -1 means nothing to do with one.
 */
static bool is_readable(uint64_t address, uint64_t *known_page)
{
	uint64_t page = address & ~(uint64_t)(PAGE - 1);
	if (page == *known_page)
		return true;
	if (syscall(SYS_rt_sigprocmask, -1, page, NULL, 8) == 0 || errno == EFAULT)
		return false;
	*known_page = page;
	return true;
}

/* Aligned words do not reach over the end of a page. */
__attribute__((no_sanitize("address"))) static bool read_word(uint64_t address, uint64_t *known_page, uint64_t *ret)
{
	if (address % sizeof(*ret) != 0 || !is_readable(address, known_page))
		return false;
	*ret = *(const volatile uint64_t *)(uintptr_t)address; /* NOLINT */
	return true;
}

#if defined(__x86_64__)
static void read_registers(const ucontext_t *context, struct self_sample *sample)
{
	const greg_t *registers = context->uc_mcontext.gregs;
	sample->pc = (uint64_t)registers[REG_RIP];
	sample->sp = (uint64_t)registers[REG_RSP];
	sample->fp = (uint64_t)registers[REG_RBP];
}
#elif defined(__aarch64__)
static void read_registers(const ucontext_t *context, struct self_sample *sample)
{
	sample->pc = context->uc_mcontext.pc;
	sample->sp = context->uc_mcontext.sp;
	sample->fp = context->uc_mcontext.regs[29];
}
#else
#error "where the stack of an interrupted thread is, is not known for this machine"
#endif

/* Frames lie one above the other. */
static void follow_frames(struct self_sample *sample)
{
	uint64_t page = NO_PAGE, fp = sample->fp, below = sample->sp, next, caller;
	sample->frame_count = 0;
	while (fp >= below && fp - sample->sp < STACK_MAX && sample->frame_count < SELF_FRAMES_MAX) {
		if (!read_word(fp, &page, &next) || !read_word(fp + 8, &page, &caller) || !caller)
			break;
		sample->frames[sample->frame_count++] = (struct self_frame){fp + 8, caller};
		below = fp + 16;
		fp = next;
	}
}

static void copy_stack(struct self_sample *sample)
{
	uint64_t page = NO_PAGE, word;
	sample->stack_bytes = 0;
	while (sample->stack_bytes < SELF_STACK_BYTES && read_word(sample->sp + sample->stack_bytes, &page, &word)) {
		*(uint64_t *)(void *)(sample->stack + sample->stack_bytes) = word;
		sample->stack_bytes += (uint32_t)sizeof(word);
	}
}

static void sample_into(struct self_sampler *sampler, const siginfo_t *info, const ucontext_t *context)
{
	uint32_t first = atomic_fetch_add(&sampler->next, 1);
	uint32_t free_state = SLOT_FREE;
	struct slot *slot = &sampler->slots[first % SLOTS];
	if (!atomic_compare_exchange_strong(&slot->state, &free_state, SLOT_CLAIMED)) {
		atomic_fetch_add(&sampler->lost, 1);
		return;
	}
	slot->sample.tid = (pid_t)syscall(SYS_gettid);
	slot->sample.periods = 1u + (info->si_overrun > 0 ? (uint32_t)info->si_overrun : 0u);
	read_registers(context, &slot->sample);
	follow_frames(&slot->sample);
	copy_stack(&slot->sample);
	atomic_store(&slot->state, SLOT_READY);
}

static void on_timer(int number, siginfo_t *info, void *context)
{
	int saved = errno;
	(void)number;
	atomic_fetch_add(&in_handler, 1);
	struct self_sampler *sampler = atomic_load(&current);
	if (sampler && info->si_code == SI_TIMER)
		sample_into(sampler, info, context);
	atomic_fetch_sub(&in_handler, 1);
	errno = saved;
}

/* ---- timers ---- */

/* A thread that has ended meanwhile needs none. */
static int add_thread(struct self_sampler *sampler, pid_t tid, struct error *err)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
	const long period_ns = (long)(NS_PER_S / SELF_HZ);
	const struct itimerspec spec = {{0, period_ns}, {0, period_ns}};
	struct timed_thread thread = {.tid = tid, .is_seen = true};
	event._sigev_un._tid = tid; /* glibc has no other name for it */
	if (array_reserve(&sampler->threads, &sampler->thread_capacity, sampler->thread_count + 1, THREADS_MAX) < 0)
		return error_nomem(err);
	if (timer_create(CPU_CLOCK_OF_THREAD(tid), &event, &thread.timer) < 0)
		return errno == EINVAL || errno == ESRCH
			       ? 0
			       : error_set_errno(err, -errno, "cannot create a timer of a thread's CPU time");
	sampler->threads[sampler->thread_count++] = thread;
	timer_settime(thread.timer, 0, &spec, NULL);
	return 0;
}

static struct timed_thread *find_thread(struct self_sampler *sampler, pid_t tid)
{
	for (size_t i = 0; i < sampler->thread_count; i++)
		if (sampler->threads[i].tid == tid)
			return &sampler->threads[i];
	return NULL;
}

static void drop_ended(struct self_sampler *sampler)
{
	size_t kept = 0;
	for (size_t i = 0; i < sampler->thread_count; i++) {
		struct timed_thread thread = sampler->threads[i];
		if (!thread.is_seen) {
			timer_delete(thread.timer);
			continue;
		}
		thread.is_seen = false;
		sampler->threads[kept++] = thread;
	}
	sampler->thread_count = kept;
}

int self_sampler_follow(struct error *err)
{
	struct self_sampler *sampler = atomic_load(&current);
	_cleanup_(dir_closep) DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	int r = tasks ? 0 : error_set_errno(err, -errno, "cannot read /proc/self/task");
	while (r == 0 && (entry = readdir(tasks))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		struct timed_thread *known = tid > 0 ? find_thread(sampler, tid) : NULL;
		if (known)
			known->is_seen = true;
		else if (tid > 0)
			r = add_thread(sampler, tid, err);
	}
	if (r == 0)
		drop_ended(sampler);
	return r;
}

/* ---- life ---- */

static struct self_sampler *sampler_free(struct self_sampler *sampler)
{
	if (!sampler)
		return NULL;
	for (size_t i = 0; i < sampler->thread_count; i++)
		timer_delete(sampler->threads[i].timer);
	mem_free(sampler->threads);
	mem_free(sampler->slots);
	return mem_free(sampler);
}

/* It stays: a signal that is under way would end the process without it. */
static int install_handler(struct error *err)
{
	struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
	sigfillset(&action.sa_mask);
	return sigaction(SIGPROF, &action, NULL) < 0 ? error_set_errno(err, -errno, "cannot handle SIGPROF") : 0;
}

int self_sampler_start(struct error *err)
{
	if (atomic_flag_test_and_set(&is_busy))
		return error_set(err, -EBUSY, "another CPU profile of this process is in progress");
	struct self_sampler *sampler = mem_zalloc(sizeof(*sampler));
	int r = sampler && (sampler->slots = mem_zalloc_array(SLOTS, sizeof(*sampler->slots))) ? 0 : error_nomem(err);
	if (r == 0)
		r = install_handler(err);
	if (r < 0) {
		sampler_free(sampler);
		atomic_flag_clear(&is_busy);
		return r;
	}
	atomic_store(&current, sampler);
	r = self_sampler_follow(err);
	if (r < 0)
		self_sampler_stop();
	return r;
}

bool self_sampler_take(struct self_sample *ret)
{
	struct self_sampler *sampler = atomic_load(&current);
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *slot = &sampler->slots[(sampler->taken + i) % SLOTS];
		if (atomic_load(&slot->state) != SLOT_READY)
			continue;
		*ret = slot->sample;
		atomic_store(&slot->state, SLOT_FREE);
		sampler->taken += i + 1;
		return true;
	}
	return false;
}

uint64_t self_sampler_stop(void)
{
	struct self_sampler *sampler = atomic_load(&current);
	atomic_store(&current, NULL);
	while (atomic_load(&in_handler))
		time_sleep_ns(NS_PER_MS);
	uint64_t lost = atomic_load(&sampler->lost);
	sampler_free(sampler);
	atomic_flag_clear(&is_busy);
	return lost;
}
