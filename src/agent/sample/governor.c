// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/governor.h"

#include "base/time.h"

#define SMOOTH_NS      (30 * NS_PER_S)
#define STEP_NS_MIN    (NS_PER_S / 10)
#define LOWER_AFTER_NS (10 * NS_PER_S) /* since the last change: what it did must show first */
#define RAISE_AFTER_NS (30 * NS_PER_S)
#define LOWER_TO       0.8
#define RAISE_BELOW    0.75

void governor_init(struct governor *governor, double budget, unsigned configured_hz, int64_t now_ns, uint64_t cost_ns)
{
	*governor = (struct governor){
		.budget = budget,
		.configured_hz = configured_hz,
		.hz = configured_hz,
		.time_ns = now_ns,
		.changed_ns = now_ns,
		.cost_ns = cost_ns,
	};
}

static unsigned lower(const struct governor *governor)
{
	double target = governor->hz * governor->budget * LOWER_TO / governor->share;
	unsigned half = (governor->hz + 1) / 2, hz = (unsigned)target;

	hz = hz < half ? half : hz;
	return hz < 1 ? 1 : hz >= governor->hz && governor->hz > 1 ? governor->hz - 1 : hz;
}

static unsigned raise(const struct governor *governor)
{
	unsigned step = governor->hz / 4 ? governor->hz / 4 : 1, room = governor->configured_hz - governor->hz;
	unsigned hz = governor->hz + (step < room ? step : room);

	return governor->share * hz / governor->hz < governor->budget * RAISE_BELOW ? hz : governor->hz;
}

bool governor_update(struct governor *governor, int64_t now_ns, uint64_t cost_ns)
{
	int64_t step_ns = now_ns - governor->time_ns, since_ns = now_ns - governor->changed_ns;
	unsigned hz = governor->hz;

	if (step_ns < STEP_NS_MIN || cost_ns < governor->cost_ns)
		return false;
	double weight = (double)step_ns / (double)(step_ns + SMOOTH_NS);
	governor->share += weight * ((double)(cost_ns - governor->cost_ns) / (double)step_ns - governor->share);
	governor->time_ns = now_ns;
	governor->cost_ns = cost_ns;
	if (governor->budget <= 0)
		return false;
	if (governor->share > governor->budget && since_ns >= LOWER_AFTER_NS)
		hz = lower(governor);
	else if (governor->hz < governor->configured_hz && since_ns >= RAISE_AFTER_NS)
		hz = raise(governor);
	if (hz == governor->hz)
		return false;
	governor->share *= (double)hz / governor->hz; /* what is to be expected; the next updates tell */
	governor->hz = hz;
	governor->changed_ns = now_ns;
	governor->changes++;
	return true;
}
