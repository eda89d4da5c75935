/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "cmd/top.h"

int top_feed_init(struct top_feed *feed, int wake_fd, struct error *err)
{
	(void)err;
	*feed = (struct top_feed){.wake_fd = wake_fd};
	pthread_mutex_init(&feed->lock, NULL);
	return 0;
}

void top_feed_release(struct top_feed *feed)
{
	for (size_t i = 0; i < feed->count; i++)
		profile_free(feed->parts[i].profile);
	feed->count = 0;
	pthread_mutex_destroy(&feed->lock);
}

static void wake(struct top_feed *feed)
{
	uint64_t one = 1;
	ssize_t n = write(feed->wake_fd, &one, sizeof(one));
	(void)n; /* it is full only when it is awake */
}

static struct top_part remove_first(struct top_feed *feed)
{
	struct top_part first = feed->parts[0];
	feed->count--;
	memmove(feed->parts, feed->parts + 1, feed->count * sizeof(*feed->parts));
	return first;
}

void top_feed_put(struct top_feed *feed, struct top_part part)
{
	THREAD_LOCK_SCOPE(&feed->lock);
	if (feed->count == TOP_PARTS_MAX)
		profile_free(remove_first(feed).profile);
	feed->parts[feed->count++] = part;
	wake(feed);
}

void top_feed_end(struct top_feed *feed, int r, const struct error *err)
{
	THREAD_LOCK_SCOPE(&feed->lock);
	feed->has_ended = true;
	feed->has_failed = r < 0;
	if (r < 0)
		feed->why = *err;
	wake(feed);
}

void top_feed_trouble(struct top_feed *feed, const struct error *err)
{
	THREAD_LOCK_SCOPE(&feed->lock);
	feed->is_troubled = err != NULL;
	if (err)
		feed->why = *err;
	wake(feed);
}

bool top_feed_take(struct top_feed *feed, struct top_part *ret)
{
	THREAD_LOCK_SCOPE(&feed->lock);
	if (feed->count == 0)
		return false;
	*ret = remove_first(feed);
	return true;
}
