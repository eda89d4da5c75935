/* SPDX-License-Identifier: Apache-2.0 */
/* What agents and servers tell each other: whatever is taken is written again and means the same. */
#include <string.h>

#include "base/alloc.h"
#include "control/protocol.h"
#include "must.h"

/* How an agent is: what is taken is the same when it was written and read again. */
static void check_health(struct bytes text)
{
	static struct health health[2];
	struct control_poll poll = {.agent = "1", .host = "h"};
	struct buffer out;
	if (control_read_health(text, &health[0], NULL) < 0)
		return;
	buffer_init(&out, 16 * CONTROL_BODY_BYTES_MAX);
	poll.health = &health[0];
	must(control_write_poll(&poll, &out, NULL) == 0);
	must(control_read_health(buffer_bytes(&out), &health[1], NULL) == 0);
	must(memcmp(&health[0], &health[1], sizeof(health[0])) == 0);
	buffer_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(struct bytes text)
{
	struct recording_request request = {0};
	char(*hosts)[CONTROL_HOST_SIZE];
	size_t count;
	if (control_read_api_request(text, &request, &hosts, &count, NULL) < 0)
		return;
	must(count <= RECORDING_HOSTS_MAX && request.target_count <= RECORDING_TARGETS_MAX);
	must(request.duration_ns > 0 && request.duration_ns <= RECORDING_DURATION_MAX_NS);
	mem_free(hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct control_poll poll[2];
	static struct control_reply reply[2];
	struct buffer out;
	struct bytes text = {data, size};
	if (size > CONTROL_BODY_BYTES_MAX)
		return 0;
	buffer_init(&out, 16 * CONTROL_BODY_BYTES_MAX);
	if (control_read_poll(text, &poll[0], NULL) == 0) {
		must(control_write_poll(&poll[0], &out, NULL) == 0);
		must(control_read_poll(buffer_bytes(&out), &poll[1], NULL) == 0);
		must(strcmp(poll[0].host, poll[1].host) == 0);
	}
	buffer_clear(&out);
	if (control_read_reply(text, &reply[0], NULL) == 0) {
		must(control_write_reply(&reply[0], &out, NULL) == 0);
		must(control_read_reply(buffer_bytes(&out), &reply[1], NULL) == 0);
		must(memcmp(&reply[0].request, &reply[1].request, sizeof(reply[0].request)) == 0 || !reply[0].has_request);
	}
	buffer_release(&out);
	check_request(text);
	check_health(text);
	return 0;
}
