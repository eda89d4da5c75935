/* SPDX-License-Identifier: Apache-2.0 */
/* Debug information over HTTP: what is wanted, an upload in pieces, and what is refused with which status. */
#include <jansson.h>

#include "server/test_server.h"

#include "base/hash.h"
#include "elf/test_elf.h"
#include "server/debuginfo/api_debuginfo.h"

#define UPLOADS "POST /api/v1/debuginfo/uploads\n\n"

static int setup(void **state)
{
	static struct test_server test;
	test_server_open(&test, NULL);
	*state = &test;
	return 0;
}

static int teardown(void **state)
{
	test_server_close(*state);
	return 0;
}

static char *begin(struct test_server *test, const char *build_id, size_t size)
{
	char text[300];
	snprintf(text, sizeof(text), UPLOADS "{\"build_id\":\"%s\",\"kind\":\"debuginfo\",\"size\":%zu}", build_id, size);
	test_expect(test, text, 201, "\"offset\":0");
	json_t *root = json_loads(test->text, 0, NULL);
	char *id = strdup(json_string_value(json_object_get(root, "id")));
	json_decref(root);
	return id;
}

static void test_wanted(void **state)
{
	static const struct {
		const char *body;
		int status;
		const char *part;
	} cases[] = {
		{"{\"binaries\":[]}", 200, "\"enabled\":true,\"retry_after_s\":30,\"wanted\":[],\"later\":[]"},
		{"{\"binaries\":[{\"build_id\":\"abcd\",\"path\":\"/bin/a\"}]}", 200,
		 "{\"build_id\":\"abcd\",\"kind\":\"debuginfo\"}"},
		/* What cannot be helped keeps nobody from an answer. */
		{"{\"binaries\":[5,{},{\"build_id\":\"../x\"},{\"build_id\":7},{\"build_id\":\"abcd\"}]}", 200, "\"abcd\""},
		{"{\"binaries\":[{\"build_id\":\"abcd\",\"kinds\":[\"sources\",\"executable\",\"nothing\",5]}]}", 200,
		 "\"wanted\":[],\"later\":[]"},
		{"{\"binaries\":[{\"build_id\":\"abcd\",\"kinds\":{}}]}", 200, "\"wanted\":[]"},
		{"", 400, "the body must be a JSON object"},
		{"[]", 400, "the body must be a JSON object"},
		{"{\"binaries\":", 400, "the body must be a JSON object"},
		{"{\"binaries\":[],\"binaries\":[]}", 400, "the body must be a JSON object"},
		{"{}", 400, "'binaries' must be a list"},
		{"{\"binaries\":{}}", 400, "'binaries' must be a list"},
	};
	struct test_server *test = *state;
	char text[400];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "POST /api/v1/debuginfo/wanted\n\n%s", cases[i].body);
		test_expect(test, text, cases[i].status, cases[i].part);
	}
	_cleanup_(buffer_release) struct buffer many = {0};
	buffer_init(&many, MIB);
	buffer_append_string(&many, "POST /api/v1/debuginfo/wanted\n\n{\"binaries\":[0");
	for (size_t i = 0; i < 1000; i++)
		buffer_append_string(&many, ",0");
	buffer_append_string(&many, "]}");
	test_expect(test, buffer_string(&many), 400, "more than 1000 entries");
}

#define ONE    "11111111111111111111111111111111"
#define TWO    "22222222222222222222222222222222"
#define WANTED "POST /api/v1/debuginfo/wanted\n\n{\"binaries\":[%s]}"

static void expect_wanted(struct test_server *test, const char *binaries, const char *part)
{
	char text[600];
	snprintf(text, sizeof(text), WANTED, binaries);
	test_expect(test, text, 200, part);
}

static void upload(struct test_server *test, const char *content)
{
	static const struct test_symbol symbol = {"main", 0, 16, STT_FUNC, STB_GLOBAL, 0};
	struct upload_begin begin = {.build_id = TEST_ELF_BUILD_ID, .kind = UPLOAD_DEBUGINFO};
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	struct buffer elf;
	test_elf_build(&(struct test_elf){.symbols = &symbol, .symbol_count = 1}, &elf);
	begin.size = elf.len;
	snprintf(begin.content_key, sizeof(begin.content_key), "%s", content);
	assert_int_equal(uploads_begin(test->server->uploads, &begin, id, &offset, NULL), 0);
	assert_int_equal(uploads_write(test->server->uploads, id, 0, buffer_bytes(&elf), &offset, NULL), 0);
	assert_int_equal(uploads_finish(test->server->uploads, id, NULL), 0);
	buffer_release(&elf);
}

/* Two binaries of one id: the second is asked for, although the id is known, and so is the first. */
static void test_wanted_contents(void **state)
{
	static const char id[] = "\"build_id\":\"" TEST_ELF_BUILD_ID "\"";
	struct test_server *test = *state;
	char one[300], two[300], old[200], answer[400];
	snprintf(one, sizeof(one), "{%s,\"id_type\":\"gnu\",\"content\":\"" ONE "\"}", id);
	snprintf(two, sizeof(two), "{%s,\"id_type\":\"gnu\",\"content\":\"" TWO "\"}", id);
	snprintf(old, sizeof(old), "{%s}", id);
	/* As an older agent has sent it: it stands for the only one there is. */
	upload(test, "");
	expect_wanted(test, old, "\"wanted\":[],\"later\":[]");
	expect_wanted(test, one, "\"wanted\":[],\"later\":[]");
	snprintf(answer, sizeof(answer),
		 "\"wanted\":[{%s,\"id_type\":\"gnu\",\"content\":\"" TWO "\",\"kind\":\"debuginfo\"}],\"later\":[]", id);
	expect_wanted(test, two, answer);
	expect_wanted(test, one, "\"content\":\"" ONE "\",\"kind\":\"debuginfo\"}],\"later\":[]");
	expect_wanted(test, old, "\"wanted\":[],\"later\":[]");
	test_expect(test, "GET /api/v1/binaries", 200, "\"ambiguous\":true");
	upload(test, TWO);
	expect_wanted(test, two, "\"wanted\":[],\"later\":[]");
	expect_wanted(test, one, "\"content\":\"" ONE "\",\"kind\":\"debuginfo\"}],\"later\":[]");
	/* After a restart: the other one is known by what is there. */
	test_server_reopen(test, NULL);
	expect_wanted(test, two, "\"wanted\":[],\"later\":[]");
	expect_wanted(test, one, "\"content\":\"" ONE "\",\"kind\":\"debuginfo\"}],\"later\":[]");
}

/* Nothing of them is sent, so that nobody can tell whose code is whose: then none of it has a name. */
static void test_contents_that_are_told_only(void **state)
{
	static const struct {
		const char *content, *code;
		bool is_ambiguous;
	} told[] = {
		{ONE, "0000000000000001", false},
		{ONE, "0000000000000001", false},
		{TWO, "0000000000000001", true}, /* a stripped copy: it is counted, and its names are those of the other */
		{TWO, "1", true},
		{TWO, "000000000000000g", true},
		{"33333333333333333333333333333333", "0000000000000002", true},
	};
	struct test_server *test = *state;
	char text[300];
	upload(test, "");
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		snprintf(text, sizeof(text),
			 "{\"build_id\":\"" TEST_ELF_BUILD_ID "\",\"content\":\"%s\",\"code\":\"%s\",\"kinds\":[]}",
			 told[i].content, told[i].code);
		expect_wanted(test, text, "\"wanted\":[],\"later\":[]");
		test_expect(test, "GET /api/v1/binaries", 200,
			    told[i].is_ambiguous ? "\"ambiguous\":true" : "\"ambiguous\":false");
	}
}

/* What says that it is a content and is none is not answered, and leads nowhere. */
static void test_contents_that_are_none(void **state)
{
	static const char *const bad[] = {"x", "../../../../../../../../../etc/x", "1111111111111111111111111111111G",
					  "111111111111111111111111111111111", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
	struct test_server *test = *state;
	char text[300];
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "{\"build_id\":\"abcd\",\"content\":\"%s\"}", bad[i]);
		expect_wanted(test, text, "\"wanted\":[],\"later\":[]");
		snprintf(text, sizeof(text), UPLOADS "{\"build_id\":\"abcd\",\"size\":5,\"content\":\"%s\"}", bad[i]);
		test_expect(test, text, 400, i == 3 ? "'content' must be a string" : "a content key must be");
	}
	expect_wanted(test, "{\"build_id\":\"abcd\",\"content\":5,\"id_type\":7}",
		      "{\"build_id\":\"abcd\",\"kind\":\"debuginfo\"}");
	test_expect(test, UPLOADS "{\"build_id\":\"abcd\",\"size\":5,\"id_type\":\"pdb\"}", 400, "'id_type' is not one of");
}

/* As many as are told apart, here and on the disk. */
static void test_too_many_contents(void **state)
{
	struct test_server *test = *state;
	char text[300];
	for (unsigned i = 0; i < 6; i++) {
		snprintf(text, sizeof(text), "{\"build_id\":\"abcd\",\"content\":\"%032u\"}", i);
		/* The first may have to wait until it was looked for elsewhere. */
		expect_wanted(test, text, i < 4 ? "\"build_id\":\"abcd\"" : "\"wanted\":[],\"later\":[]");
	}
	test_expect(test, "GET /api/v1/binaries", 200, "too many different files have this id");
	test_expect(test, "GET /metrics", 200, "wick_symbol_contents_refused_total 2\n");
	for (unsigned i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), UPLOADS "{\"build_id\":\"abcd\",\"size\":5,\"content\":\"%032u\"}", i);
		test_expect(test, text, i < 4 ? 201 : 409, i < 4 ? "\"offset\":0" : "\"reason\":\"contents\"");
	}
	test_expect(test, "GET /metrics", 200, "wick_debuginfo_uploads_contents_refused_total 1\n");
}

static void test_begin(void **state)
{
	static const struct {
		const char *body;
		int status;
		const char *part;
	} cases[] = {
		{"", 400, "must be a JSON object"},
		{"{}", 400, "'size'"},
		{"{\"build_id\":\"abcd\",\"size\":0}", 400, "'size' must be the number of bytes"},
		{"{\"build_id\":\"abcd\",\"size\":-1}", 400, "'size'"},
		{"{\"build_id\":\"abcd\",\"size\":1.5}", 400, "'size'"},
		{"{\"build_id\":\"abcd\",\"size\":\"5\"}", 400, "'size'"},
		{"{\"build_id\":5,\"size\":5}", 400, "'build_id' must be a string"},
		{"{\"build_id\":\"../../etc\",\"size\":5}", 400, ""},
		{"{\"build_id\":\"\",\"size\":5}", 400, ""},
		{"{\"build_id\":\"abcd\",\"size\":5,\"kind\":\"nothing\"}", 400, "'kind' is not one of debuginfo"},
		{"{\"build_id\":\"abcd\",\"size\":5,\"kind\":\"a kind that is much too long\"}", 400,
		 "'kind' must be a string"},
		{"{\"build_id\":\"abcd\",\"size\":9223372036854775807}", 413, ""},
	};
	struct test_server *test = *state;
	char text[400];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), UPLOADS "%s", cases[i].body);
		test_expect(test, text, cases[i].status, cases[i].part);
	}
}

static void test_pieces(void **state)
{
	struct test_server *test = *state;
	char text[300], *id = begin(test, "abcd", 10);
	/* Somebody else is told so. */
	test_expect(test, UPLOADS "{\"build_id\":\"abcd\",\"size\":11}", 409, "\"reason\":\"busy\"");
	assert_true(test_has_header(test, "Retry-After: 30"));
	test_expect(test, "POST /api/v1/debuginfo/wanted\n\n{\"binaries\":[{\"build_id\":\"abcd\"}]}", 200,
		    "\"wanted\":[],\"later\":[{\"build_id\":\"abcd\"");
	snprintf(text, sizeof(text), "PUT /api/v1/debuginfo/uploads/%s?offset=0\n\n01234", id);
	test_expect(test, text, 200, "{\"offset\":5}");
	snprintf(text, sizeof(text), "PUT /api/v1/debuginfo/uploads/%s?offset=7\n\n789", id);
	test_expect(test, text, 409, "\"offset\":5");
	snprintf(text, sizeof(text), "PUT /api/v1/debuginfo/uploads/%s\n\n567", id);
	test_expect(test, text, 400, "parameter 'offset'");
	snprintf(text, sizeof(text), "PUT /api/v1/debuginfo/uploads/%s?offset=x\n\n567", id);
	test_expect(test, text, 400, "parameter 'offset'");
	snprintf(text, sizeof(text), "PUT /api/v1/debuginfo/uploads/%s/finish?offset=5\n\n567", id);
	test_expect(test, text, 404, "no such path");
	snprintf(text, sizeof(text), "POST /api/v1/debuginfo/uploads/%s/finish", id);
	test_expect(test, text, 409, "\"offset\":5");
	snprintf(text, sizeof(text), "POST /api/v1/debuginfo/uploads/%s", id);
	test_expect(test, text, 404, "no such path");
	snprintf(text, sizeof(text), "PUT /api/v1/debuginfo/uploads/%s?offset=5\n\n5678901234", id); /* more than was said */
	int status = test_ask(test, text);
	assert_true(status >= 400 && status < 500);
	snprintf(text, sizeof(text), "DELETE /api/v1/debuginfo/uploads/%s", id);
	test_expect(test, text, 200, "{}");
	test_expect(test, text, 404, "");
	free(id);
}

/* What is no ELF file is not kept. */
static void test_nonsense(void **state)
{
	struct test_server *test = *state;
	char text[300], *id = begin(test, "abcd", 5);
	snprintf(text, sizeof(text), "PUT /api/v1/debuginfo/uploads/%s?offset=0\n\nhello", id);
	test_expect(test, text, 400, "does not start like a file of kind debuginfo");
	test_expect(test, "GET /api/v1/binaries", 200, "\"uploads\":{\"enabled\":true,\"files\":0");
	free(id);
}

static void test_strange_ids(void **state)
{
	static const char *const ids[] = {"x", "", "..", "../../x", "0000000000000000", "a%00"};
	struct test_server *test = *state;
	char text[300];
	for (size_t i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), "PUT /api/v1/debuginfo/uploads/%s?offset=0\n\nx", ids[i]);
		test_expect(test, text, 404, "error");
		snprintf(text, sizeof(text), "POST /api/v1/debuginfo/uploads/%s/finish", ids[i]);
		test_expect(test, text, 404, "error");
		snprintf(text, sizeof(text), "DELETE /api/v1/debuginfo/uploads/%s", ids[i]);
		test_expect(test, text, 404, "error");
	}
	snprintf(text, sizeof(text), "DELETE /api/v1/debuginfo/uploads/%0200d", 1);
	test_expect(test, text, 404, "error");
}

static void test_disabled(void **state)
{
	struct server_options options;
	struct test_server *test = *state;
	server_options_init(&options);
	options.symbols.no_uploads = true;
	test_server_reopen(test, &options);
	test_expect(test, UPLOADS "{\"build_id\":\"abcd\",\"size\":5}", 403, "\"reason\":\"disabled\"");
	test_expect(test, "PUT /api/v1/debuginfo/uploads/x?offset=0\n\nx", 403, "accepts no debug information");
	test_expect(test, "POST /api/v1/debuginfo/wanted\n\n{\"binaries\":[{\"build_id\":\"abcd\"}]}", 200,
		    "{\"enabled\":false,\"retry_after_s\":30,\"wanted\":[],\"later\":[]}");
	test_expect(test, "GET /api/v1/binaries", 200, "\"uploads\":{\"enabled\":false");
}

static void test_binaries(void **state)
{
	static const struct {
		const char *query;
		int status;
		const char *part;
	} cases[] = {
		{"", 200, "\"binaries\":[],\"total\":0"},
		{"?state=missing,failed&state=queued&limit=0&offset=5", 200, "\"total\":0"},
		{"?state=lost", 400, "parameter 'state': 'lost' is not one of"},
		{"?state=missing,,", 400, "parameter 'state'"},
		{"?limit=x", 400, "parameter 'limit'"},
		{"?limit=99999999999999999999", 400, "parameter 'limit'"},
		{"?offset=-1", 400, "parameter 'offset'"},
		{"?limit=9999999", 200, "\"counts\":{\"queued\":0"},
	};
	struct test_server *test = *state;
	char text[200];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "GET /api/v1/binaries%s", cases[i].query);
		test_expect(test, text, cases[i].status, cases[i].part);
	}
	test_expect(test, "POST /api/v1/binaries/abcd/retry", 404, "error");
	test_expect(test, "POST /api/v1/binaries/xyz/retry", 400, "not a build-id");
	test_expect(test, "POST /api/v1/binaries/abcd", 404, "did you mean");
	test_expect(test, "POST /api/v1/binaries/abcd/retry/now", 404, "did you mean");
	snprintf(text, sizeof(text), "POST /api/v1/binaries/%0130d/retry", 1);
	test_expect(test, text, 404, "did you mean");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_wanted_contents),
		TEST(test_contents_that_are_told_only),
		TEST(test_contents_that_are_none),
		TEST(test_too_many_contents),
		TEST(test_wanted),
		TEST(test_begin),
		TEST(test_pieces),
		TEST(test_nonsense),
		TEST(test_strange_ids),
		TEST(test_disabled),
		TEST(test_binaries),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
