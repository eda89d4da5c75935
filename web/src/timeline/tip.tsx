// SPDX-License-Identifier: Apache-2.0
// The tooltip of a marker.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { valuesOf, type Timeline } from '../api/timeline_data';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import type { Spans } from './spans';
import { extentOf, formatField, formatMoment, formatNs, isInstant } from './text';

interface MarkerTipProps {
	t: Timeline;
	spans: Spans;
	marker: number;
	flow: number; // how many markers its flow has
	x: number; // in the window
	y: number;
}

export function MarkerTip({ t, spans, marker, flow, x, y }: MarkerTipProps) {
	const ref = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const tip = ref.current!;
		const { width, height } = tip.getBoundingClientRect();
		tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
		const below = y + 18 + height < innerHeight - 4;
		tip.style.top = `${Math.max(4, below ? y + 18 : y - height - 12)}px`;
	});
	const schema = t.schemas[t.schema[marker]];
	const [from, to] = extentOf(t, spans, marker);
	const thread = t.threads[t.thread[marker]];
	const where = [t.categories[t.category[marker]]?.name ?? '', thread.name, thread.host].filter((part) => part !== '');
	return (
		<div class="tip" ref={ref} role="presentation" data-testid="marker-tip">
			<div class="tip-name">{displayName(t.strings[t.name[marker]])}</div>
			<div class="tip-where">{where.map((part) => displayName(part, 80)).join(' · ')}</div>
			<table>
				<tbody>
					<tr>
						<th scope="row">{isInstant(t, marker) ? T.markers.at : T.markers.from}</th>
						<td>{formatMoment(from, 1e3)}</td>
					</tr>
					{!isInstant(t, marker) && (
						<tr>
							<th scope="row">{T.markers.duration}</th>
							<td>{formatNs(to - from)}</td>
						</tr>
					)}
					{valuesOf(t, marker).map(
						(value, i) =>
							value !== null && (
								<tr key={i}>
									<th scope="row">{displayName(schema.fields[i].label, 60)}</th>
									<td class="tip-value">{formatField(value, schema.fields[i].format)}</td>
								</tr>
							),
					)}
					{flow > 1 && (
						<tr>
							<th scope="row">{T.markers.flow}</th>
							<td>{T.markers.follow(flow)}</td>
						</tr>
					)}
				</tbody>
			</table>
		</div>
	);
}
