// SPDX-License-Identifier: Apache-2.0
// The choice of the time zone, which is that of the URL, or what this browser had last.
import { useEffect } from 'preact/hooks';
import * as T from '../base/texts';
import { setZone, zoneName, ZONES, type Zone, type ZoneOffsets } from '../base/zone';
import type { PageState } from '../state/page';
import { useStored, type SetState } from './hooks';

export interface ZoneChoice {
	zone: Zone;
	serverOffsets: ZoneOffsets | null;
	onZone: (zone: Zone) => void;
}

/** Sets the zone for all that is drawn from here on. */
export function useZone(state: PageState, set: SetState, serverOffsets: ZoneOffsets | null): ZoneChoice {
	const [stored, store] = useStored('wick-zone', 'browser');
	const remembered = ZONES.find((one) => one === stored) ?? 'browser';
	const zone = state.tz || remembered;
	setZone(zone, serverOffsets);
	// A link means the same to whom it is sent.
	useEffect(() => {
		if (state.tz === '' && remembered !== 'browser') set({ tz: remembered }, 'replace');
	}, [state.tz, remembered, set]);
	return {
		zone,
		serverOffsets,
		onZone: (next) => {
			store(next);
			set({ tz: next === 'browser' ? '' : next }, 'replace');
		},
	};
}

export function ZoneSelect({ zone, serverOffsets, onZone }: ZoneChoice) {
	const now = Date.now();
	return (
		<select
			class="select zone"
			aria-label={T.zone.label}
			title={T.zone.label}
			data-testid="zone"
			value={zone}
			onChange={(event) => onZone(ZONES.find((one) => one === event.currentTarget.value) ?? 'browser')}
		>
			{ZONES.map((one) => {
				const name = zoneName(now, { zone: one, serverOffsets });
				return (
					<option key={one} value={one}>
						{one === zone ? name : T.zone.choices[one](name)}
					</option>
				);
			})}
		</select>
	);
}
