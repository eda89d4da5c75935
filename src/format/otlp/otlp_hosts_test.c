/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that describe the host: out and in again, in protobuf and JSON, and what is none of them. */
#include "format/test_format.h"

#include "codec/protobuf.h"
#include "format/otlp/otlp.h"

static uint32_t label_set(struct profile *profile, const char *const (*pairs)[2], size_t count)
{
	struct profile_label labels[8] = {{0}};
	uint32_t id;
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(profile_add_cstring(profile, pairs[i][0], &labels[i].key, NULL), 0);
		assert_int_equal(profile_add_cstring(profile, pairs[i][1], &labels[i].value, NULL), 0);
	}
	assert_int_equal(profile_add_label_set(profile, labels, count, &id, NULL), 0);
	return id;
}

static struct profile *make_profile(bool with_host)
{
	static const char *const resource[][2] = {{"host.name", "web-1"}, {"os.version", "6.1.0"}, {"service.name", "shop"}};
	static const char *const host[][2] = {{"os.version", "6.1.0"}, {"zone", "eu-1a"}, {"host.arch", "arm64"}};
	struct profile *profile;
	int64_t value = 7;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_named_type(profile, "cpu", "nanoseconds", NULL), 0);
	profile->time_ns = 1700000000000000000;
	profile->resource_labels = label_set(profile, resource, 3);
	profile->host_labels = with_host ? label_set(profile, host, 3) : 0;
	assert_int_equal(profile_add_sample(profile, &(struct profile_sample){0}, &value, NULL), 0);
	return profile;
}

static size_t count_text(struct bytes bytes, const char *text)
{
	size_t count = 0, len = strlen(text);
	for (size_t at = 0; at + len <= bytes.len; at++)
		count += memcmp(bytes.data + at, text, len) == 0;
	return count;
}

static void check_decoded(struct bytes input)
{
	struct otlp_request request = {0};
	struct error err = {0};
	if (otlp_decode(input, NULL, &request, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(request.count, 1);
	const struct profile *profile = request.profiles[0];
	assert_int_equal(profile->label_sets[profile->host_labels].count, 3);
	assert_string_equal(profile_label_value(profile, profile->host_labels, "os.version"), "6.1.0");
	assert_string_equal(profile_label_value(profile, profile->host_labels, "zone"), "eu-1a");
	assert_string_equal(profile_label_value(profile, profile->host_labels, "host.arch"), "arm64");
	/* Who does not know of hosts has all of it as ever. */
	assert_int_equal(profile->label_sets[profile->resource_labels].count, 5);
	assert_string_equal(profile_label_value(profile, profile->resource_labels, "zone"), "eu-1a");
	assert_string_equal(profile_label_value(profile, profile->resource_labels, "service.name"), "shop");
	otlp_request_release(&request);
}

static void test_round_trip(void **state)
{
	struct buffer out = {.max = MIB}, plain = {.max = MIB};
	for (int with = 0; with < 2; with++) {
		_cleanup_(profile_freep) struct profile *profile = make_profile(with);
		const struct profile *profiles[] = {profile};
		assert_int_equal(otlp_encode(profiles, 1, with ? &out : &plain, NULL), 0);
	}
	check_decoded(buffer_bytes(&out));
	/* An attribute that is both stands once, and its key once more in the entity. */
	assert_int_equal(count_text(buffer_bytes(&out), "6.1.0"), 1);
	assert_int_equal(count_text(buffer_bytes(&out), "os.version"), 2);
	assert_int_equal(count_text(buffer_bytes(&plain), "host.name"), 1);
	struct otlp_request request = {0};
	assert_int_equal(otlp_decode(buffer_bytes(&plain), NULL, &request, NULL), 0);
	assert_int_equal(request.profiles[0]->host_labels, 0);
	otlp_request_release(&request);
	buffer_release(&plain);
	buffer_release(&out);
}

#define ATTRIBUTE(key, value) "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" value "\"}}"
#define REQUEST(entity)                                                                                                        \
	"{\"resourceProfiles\":[{\"resource\":{\"attributes\":[" ATTRIBUTE("host.name", "web-1") "," ATTRIBUTE(                \
		"os.version",                                                                                                  \
		"6.1.0") "," ATTRIBUTE("zone",                                                                                 \
				       "eu-1a") "," ATTRIBUTE("host.arch",                                                     \
							      "arm64") "," ATTRIBUTE("service.name",                           \
										     "shop") "],\"entityRefs\":[" entity       \
											     "]},\"scopeProfiles\":[{"         \
											     "\"profiles\":[{\"samples\":[{"   \
											     "\"values\":[\"7\"]}]}]}]}],"     \
											     "\"dictionary\":{"                \
											     "\"stringTable\":[\"\"]}}"

static struct otlp_request decode_json(const char *text)
{
	_cleanup_(buffer_release) struct buffer message = {.max = MIB};
	struct otlp_request request = {0};
	struct error err = {0};
	if (otlp_json_to_binary(bytes_of_string(text), &message, &err) < 0 ||
	    otlp_decode(buffer_bytes(&message), NULL, &request, &err) < 0)
		fail_msg("%s", err.message);
	return request;
}

static void test_json(void **state)
{
	_cleanup_(buffer_release) struct buffer message = {.max = MIB};
	static const char text[] = REQUEST("{\"schemaUrl\":\"x\",\"type\":\"host\",\"idKeys\":[\"host.name\"],"
					   "\"descriptionKeys\":[\"zone\",\"os.version\",\"host.arch\",\"absent\"]}");
	assert_int_equal(otlp_json_to_binary(bytes_of_string(text), &message, NULL), 0);
	check_decoded(buffer_bytes(&message));
}

static void test_other_entities(void **state)
{
	static const char *const texts[] = {
		REQUEST("{\"type\":\"service\",\"descriptionKeys\":[\"zone\"]}"),
		REQUEST("{\"type\":\"host\",\"idKeys\":[\"zone\"]}"),
		REQUEST("{\"descriptionKeys\":[\"zone\"]}"),
		REQUEST("{\"type\":\"host\",\"descriptionKeys\":[\"absent\"]}"),
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct otlp_request request = decode_json(texts[i]);
		assert_int_equal(request.profiles[0]->host_labels, 0);
		otlp_request_release(&request);
	}
	struct otlp_request request = decode_json(REQUEST("{\"type\":\"service\",\"descriptionKeys\":[\"zone\"]},"
							  "{\"descriptionKeys\":[\"host.arch\"],\"type\":\"host\"}"));
	const struct profile *profile = request.profiles[0];
	assert_int_equal(profile->label_sets[profile->host_labels].count, 1);
	assert_string_equal(profile_label_value(profile, profile->host_labels, "host.arch"), "arm64");
	otlp_request_release(&request);
}

/* Keys beyond any use are passed over, and cost little. */
static void test_many_keys(void **state)
{
	struct buffer out = {.max = 64 * MIB};
	size_t resources, resource, entity, pair, value;
	pb_begin(&out, 1, &resources);
	pb_begin(&out, 1, &resource);
	for (int i = 0; i < 20000; i++) {
		char key[16];
		snprintf(key, sizeof(key), "k%d", i);
		pb_begin(&out, 1, &pair);
		pb_write_string(&out, 1, key);
		pb_begin(&out, 2, &value);
		pb_write_string(&out, 1, "v");
		pb_end(&out, value);
		pb_end(&out, pair);
	}
	pb_begin(&out, 3, &entity);
	pb_write_string(&out, 2, "host");
	for (int i = 0; i < 200000; i++)
		pb_write_string(&out, 4, "k7");
	pb_end(&out, entity);
	pb_end(&out, resource);
	assert_int_equal(pb_end(&out, resources), 0);
	struct otlp_request request = {0};
	assert_int_equal(otlp_decode(buffer_bytes(&out), NULL, &request, NULL), 0);
	assert_int_equal(request.count, 0);
	otlp_request_release(&request);
	/* A number in place of a text */
	static const uint8_t bad[] = {0x0a, 0x06, 0x0a, 0x04, 0x1a, 0x02, 0x10, 0x01};
	struct error err = {0};
	assert_int_equal(otlp_decode((struct bytes){bad, sizeof(bad)}, NULL, &request, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "EntityRef.type"));
	buffer_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_other_entities),
		cmocka_unit_test(test_many_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
