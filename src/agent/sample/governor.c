// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/governor.h"

#define RECENT_NS      (10 * NS_PER_S)
#define STEP_NS_MIN    (NS_PER_S / 10)
#define LOWER_AFTER_NS (10 * NS_PER_S) /* since the last change: what it did must show first */
#define RAISE_AFTER_NS (8 * NS_PER_S)  /* at each flush, which comes every 9 to 11 s */
#define TRY_AFTER_NS   (60 * NS_PER_S)
#define LOWER_TO       0.8
#define RAISE_BELOW    0.75
#define TRY_BELOW      0.9

void governor_init(struct governor *governor, double budget, unsigned configured_hz, unsigned least_hz, int64_t now_ns,
		   uint64_t cost_ns)
{
	*governor = (struct governor){
		.budget = budget,
		.configured_hz = configured_hz,
		.least_hz = least_hz ? least_hz : GOVERNOR_LEAST_HZ(configured_hz),
		.hz = configured_hz,
		.share = {.time_ns = now_ns, .smooth_ns = COST_SHARE_SMOOTH_NS, .cost_ns = cost_ns},
		.recent = {.time_ns = now_ns, .smooth_ns = RECENT_NS, .cost_ns = cost_ns},
		.changed_ns = now_ns,
	};
}

static unsigned clamp(double hz, unsigned least, unsigned most)
{
	return hz <= least ? least : hz >= most ? most : (unsigned)hz;
}

static unsigned lower(const struct governor *governor)
{
	unsigned half = (governor->hz + 1) / 2, least = half > governor->least_hz ? half : governor->least_hz;
	if (governor->hz <= governor->least_hz)
		return governor->hz;
	return clamp(governor->hz * governor->budget * LOWER_TO / governor->share.share, least, governor->hz - 1);
}

static unsigned raise(const struct governor *governor, int64_t since_ns)
{
	double room = governor->recent.share > 0 ? governor->budget * RAISE_BELOW / governor->recent.share : 2;
	double factor = room < 2 ? room : 2;
	if (factor <= 1 || clamp(governor->hz * factor, governor->hz, governor->configured_hz) == governor->hz) {
		if (since_ns < TRY_AFTER_NS || governor->share.share >= governor->budget * TRY_BELOW)
			return governor->hz;
		factor = 1 + (governor->hz < 8 ? 1.0 / governor->hz : 0.125);
	}
	return clamp(governor->hz * factor + 1e-6, governor->hz, governor->configured_hz);
}

bool cost_share_update(struct cost_share *share, int64_t now_ns, uint64_t cost_ns)
{
	int64_t step_ns = now_ns - share->time_ns;
	if (step_ns < STEP_NS_MIN || cost_ns < share->cost_ns)
		return false;
	double now = (double)(cost_ns - share->cost_ns) / (double)step_ns;
	share->share += (double)step_ns / (double)(step_ns + share->smooth_ns) * (now - share->share);
	share->time_ns = now_ns;
	share->cost_ns = cost_ns;
	return true;
}

static unsigned choose(const struct governor *governor, int64_t since_ns)
{
	if (governor->budget <= 0)
		return governor->configured_hz;
	if (governor->share.share > governor->budget && governor->recent.share > governor->budget * RAISE_BELOW)
		return since_ns >= LOWER_AFTER_NS ? lower(governor) : governor->hz;
	return governor->hz < governor->configured_hz && since_ns >= RAISE_AFTER_NS ? raise(governor, since_ns) : governor->hz;
}

bool governor_update(struct governor *governor, int64_t now_ns, uint64_t cost_ns)
{
	double *share = &governor->share.share, *recent = &governor->recent.share;

	if (!cost_share_update(&governor->share, now_ns, cost_ns) || !cost_share_update(&governor->recent, now_ns, cost_ns))
		return false;
	unsigned hz = choose(governor, now_ns - governor->changed_ns);
	if (hz == governor->hz)
		return false;
	/* What is to be expected; the next updates tell. A raise follows what is recent, and so must the next lowering. */
	if (hz > governor->hz && *recent < *share)
		*share = *recent;
	*share *= (double)hz / governor->hz;
	*recent *= (double)hz / governor->hz;
	governor->hz = hz;
	governor->changed_ns = now_ns;
	governor->changes++;
	return true;
}
