/* SPDX-License-Identifier: Apache-2.0 */
/* What agents and servers tell each other: whatever is taken is written again and means the same. */
#include <string.h>

#include "base/alloc.h"
#include "control/orders.h"
#include "must.h"

/* How an agent is: what is taken is the same when it was written and read again. */
static void check_health(struct bytes text)
{
	static struct health health[2];
	struct orders_question question = {.agent = "1", .host = "h"};
	struct buffer out;
	if (orders_read_health(text, &health[0], NULL) < 0)
		return;
	buffer_init(&out, 16 * ORDERS_BODY_BYTES_MAX);
	question.health = &health[0];
	must(orders_write_question(&question, &out, NULL) == 0);
	must(orders_read_health(buffer_bytes(&out), &health[1], NULL) == 0);
	must(memcmp(&health[0], &health[1], sizeof(health[0])) == 0);
	buffer_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(struct bytes text)
{
	struct orders_order order = {0};
	char(*hosts)[ORDERS_HOST_SIZE];
	size_t count;
	if (orders_read_request(text, &order, &hosts, &count, NULL) < 0)
		return;
	must(count <= ORDERS_HOSTS_MAX && order.target_count <= ORDERS_TARGETS_MAX);
	must(order.duration_ns > 0 && order.duration_ns <= ORDERS_DURATION_MAX_NS);
	mem_free(hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct orders_question question[2];
	static struct orders_answer answer[2];
	struct buffer out;
	struct bytes text = {data, size};
	if (size > ORDERS_BODY_BYTES_MAX)
		return 0;
	buffer_init(&out, 16 * ORDERS_BODY_BYTES_MAX);
	if (orders_read_question(text, &question[0], NULL) == 0) {
		must(orders_write_question(&question[0], &out, NULL) == 0);
		must(orders_read_question(buffer_bytes(&out), &question[1], NULL) == 0);
		must(strcmp(question[0].host, question[1].host) == 0);
	}
	buffer_clear(&out);
	if (orders_read_answer(text, &answer[0], NULL) == 0) {
		must(orders_write_answer(&answer[0], &out, NULL) == 0);
		must(orders_read_answer(buffer_bytes(&out), &answer[1], NULL) == 0);
		must(memcmp(&answer[0].order, &answer[1].order, sizeof(answer[0].order)) == 0 || !answer[0].has_order);
	}
	buffer_release(&out);
	check_request(text);
	check_health(text);
	return 0;
}
