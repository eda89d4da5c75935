/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "query/query_int.h"

static void note_type(struct query_scan *scan, const struct profile_type *type)
{
	pthread_mutex_lock(&scan->lock);
	size_t i = 0;
	while (i < scan->type_count && !profile_type_equal(&scan->types[i], type))
		i++;
	if (i == scan->type_count && i < QUERY_TYPES_MAX)
		scan->types[scan->type_count++] = *type;
	pthread_mutex_unlock(&scan->lock);
}

static bool scan_match(void *context, const struct profile_type *type, const struct labels *labels)
{
	struct query_scan *scan = context;
	if (!selector_matches(scan->selector, type, labels))
		return false;
	note_type(scan, type);
	return true;
}

int query_scan_init(struct query_scan *scan, const struct query *query, struct error *err)
{
	memset(scan, 0, sizeof(*scan));
	if (query->from_ns >= query->to_ns)
		return error_set(err, -EINVAL, "query: the time range is empty: 'from' is not before 'to'");
	int r = selector_parse(query->selector ? query->selector : "", &scan->selector, err);
	if (r)
		return r;
	pthread_mutex_init(&scan->lock, NULL);
	scan->select = (struct store_select){.from_ns = query->from_ns,
					     .to_ns = query->to_ns,
					     .match = scan_match,
					     .context = scan,
					     .cancel = query->cancel};
	return 0;
}

void query_scan_release(struct query_scan *scan)
{
	if (!scan->selector)
		return;
	scan->selector = selector_free(scan->selector);
	pthread_mutex_destroy(&scan->lock);
}

int query_scan_check(struct query_scan *scan, bool one_type, struct error *err)
{
	int r = selector_failure(scan->selector, err);
	if (r || !one_type || scan->type_count <= 1)
		return r;
	_cleanup_(buffer_release) struct buffer list;
	buffer_init(&list, ERROR_MESSAGE_MAX);
	for (size_t i = 0; i < scan->type_count; i++) {
		char text[PROFILE_TYPE_TEXT_MAX];
		if (buffer_printf(&list, "%s%s", i ? ", " : "", profile_type_format(&scan->types[i], text)))
			break;
	}
	return error_set(err, -EINVAL, "query: the selector leaves %zu profile types, name one of them before the '{': %s",
			 scan->type_count, buffer_string(&list));
}
