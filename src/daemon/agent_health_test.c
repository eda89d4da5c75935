/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent says of how it is, and how often it looks at its machine. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>
#include <string.h>

#include "agent/agent.h"
#include "daemon/test_daemon.h"

/* A machine with as many faults as the test says. */
static size_t faults, examined;
static size_t examine(struct doctor_row *rows, size_t max)
{
	size_t count = faults < max ? faults : max;
	examined++;
	for (size_t i = 0; i < count; i++) {
		rows[i] = (struct doctor_row){.verdict = DOCTOR_FAIL, .what = "kernel"};
		snprintf(rows[i].found, sizeof(rows[i].found), "fault %zu", i);
		if (i == 0)
			snprintf(rows[i].fix, sizeof(rows[i].fix), "set it");
	}
	return count;
}

#define agent_examine_faults examine
#define time_monotonic_ns    test_monotonic_ns
#define time_now_ns	     test_now_ns
#include "daemon/agent_health.c"
#undef agent_examine_faults
#undef time_monotonic_ns
#undef time_now_ns

#include <cmocka.h>

static bool has_mode(const struct health *health, const char *name)
{
	for (size_t i = 0; i < health->mode_count; i++)
		if (strcmp(health->modes[i], name) == 0)
			return true;
	return false;
}

static struct health fill(struct agent_health *health, const struct agent_stats *agent, const struct export_stats *server)
{
	struct health ret = {0};
	agent_health_fill(health, agent, server, &ret);
	return ret;
}

static const struct agent_options no_options;
static const struct agent_stats no_agent;
static const struct export_stats no_server;

static void test_counts(void **state)
{
	struct agent_options options = {.off_cpu_chance = 1, .process_stats = true};
	struct agent_stats agent = {.samples_taken = 7,
				    .event = "cycles",
				    .frequency_hz = 9,
				    .frequency_asked_hz = 19,
				    .cpus_online = 2,
				    .cost_share = 0.0125,
				    .relabel_dropped = 3};
	struct export_stats server = {
		.sent_profiles = 4, .sent_bytes = 5, .failures = 6, .refused_profiles = 1, .refused_samples = 10};
	struct agent_health health;
	(void)state;
	faults = 0;
	agent.samples_lost[AGENT_LOSS_COUNTS_FULL] = 8;
	agent.unwind.program_ns = 3 * NS_PER_MS;
	server.spool.profiles = 11;
	server.spool.bytes = 12;
	for (size_t i = 0; i < SPOOL_LOSSES; i++)
		server.spool.lost[i].profiles = 2, server.spool.lost[i].samples = 20;
	agent_health_init(&health, &options, true);
	struct health got = fill(&health, &agent, &server);
	assert_int_equal(got.started_ms, test_clock.now_ns / NS_PER_MS);
	assert_string_equal(got.event, "cycles");
	assert_true(strchr(got.kernel, ' ') != NULL);
	assert_int_equal(got.samples, 7);
	assert_int_equal(got.frequency_hz, 9);
	assert_int_equal(got.frequency_asked_hz, 19);
	assert_int_equal(got.rules_dropped, 3);
	assert_int_equal(got.lost.count, 1); /* what is 0 is left out */
	assert_string_equal(got.lost.items[0].name, "counts_full");
	assert_int_equal(got.lost.items[0].count, 8);
	assert_int_equal(got.sent_profiles, 4);
	assert_int_equal(got.send_failures, 6);
	assert_int_equal(got.waiting_profiles, 11);
	assert_int_equal(got.waiting_bytes, 12);
	assert_int_equal(got.dropped_profiles, 2 * SPOOL_LOSSES + 1);
	assert_int_equal(got.dropped_samples, 20 * SPOOL_LOSSES + 10);
	assert_int_equal(got.program_ms, 3);
	assert_int_equal(got.cost_ppm, 12500);
	assert_true(got.resident_bytes > 0 && got.resident_peak_bytes >= got.resident_bytes);
	assert_true(has_mode(&got, "off_cpu") && has_mode(&got, "markers") && has_mode(&got, "process_stats"));
	assert_int_equal(got.warning_count, 0);
}

static void test_modes(void **state)
{
	struct agent_options options = {.process_stats = true};
	struct agent_stats agent = {.process_stats_problem = "no memory", .cost_share = -1};
	struct export_stats server = {0};
	struct agent_health health;
	(void)state;
	faults = 0;
	agent_health_init(&health, &options, false);
	struct health got = fill(&health, &agent, &server);
	assert_int_equal(got.mode_count, 0); /* wanted, but there are none */
	assert_int_equal(got.warning_count, 1);
	assert_string_equal(got.warnings[0], "process_stats are not sent: no memory");
	assert_int_equal(got.cost_ppm, 0);
}

/* Once an hour, whoever asks how often. */
static void test_examines_seldom(void **state)
{
	struct agent_health health;
	(void)state;
	faults = 2;
	examined = 0;
	agent_health_init(&health, &no_options, false);
	struct health got = fill(&health, &no_agent, &no_server);
	assert_int_equal(got.warning_count, 2);
	assert_string_equal(got.warnings[0], "kernel: fault 0; set it");
	assert_string_equal(got.warnings[1], "kernel: fault 1");
	faults = 0;
	test_pass(EXAMINE_NS - 1);
	assert_int_equal(fill(&health, &no_agent, &no_server).warning_count, 2);
	assert_int_equal(examined, 1);
	test_pass(1);
	assert_int_equal(fill(&health, &no_agent, &no_server).warning_count, 0);
	assert_int_equal(examined, 2);
}

/* More warnings than there is room for, and one that is too long: it can still be written and read. */
static void test_limits(void **state)
{
	struct agent_stats agent = {0};
	struct export_stats server = {0};
	struct agent_health health;
	(void)state;
	faults = 100;
	memset(server.spool.problem, 'p', sizeof(server.spool.problem) - 1);
	memset(agent.process_stats_problem, 'q', sizeof(agent.process_stats_problem) - 1);
	agent_health_init(&health, &no_options, false);
	struct health got = fill(&health, &agent, &server);
	assert_int_equal(health.fault_count, AGENT_HEALTH_FAULTS);
	assert_int_equal(got.warning_count, HEALTH_WARNINGS_MAX);
	assert_int_equal(strlen(got.warnings[0]), HEALTH_WARNING_SIZE - 1);
	assert_int_equal(strlen(got.warnings[1]), HEALTH_WARNING_SIZE - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_examines_seldom),
		cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
