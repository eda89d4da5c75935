// SPDX-License-Identifier: Apache-2.0
// The graph over time with its legend: what each series comes to, which are drawn, and which stands out.
import { useMemo, useState } from 'preact/hooks';
import { displayName, formatShare, formatValue, type Scale } from '../base/format';
import * as T from '../base/texts';
import { legendRows, onlyShown, pickSeries, seriesId, type LegendRow } from '../model/series';
import { seriesColor } from '../ui/colors';
import { Metrics, type MetricsProps } from './view';

interface LegendProps {
	rows: LegendRow[];
	shown: readonly string[]; // [] = all
	scale: Scale;
	unit: string;
	gauge: boolean; // a sum over time says nothing: the mean does
	dark: boolean;
	onPick: (id: string, alone: boolean) => void;
	onHighlight: (id: string | null) => void;
}

function Legend({ rows, shown, scale, unit, gauge, dark, onPick, onHighlight }: LegendProps) {
	const figure = (value: number) => `${scale.format(value)} ${scale.suffix}`.trim();
	const sum = (row: LegendRow) => (gauge ? figure(row.mean) : formatValue(row.total, unit));
	return (
		<ul class="chart-legend" aria-label={T.chart.legend} data-testid="chart-legend" onPointerLeave={() => onHighlight(null)}>
			{rows.map((row) => {
				const drawn = shown.length === 0 || shown.includes(row.id);
				const color = seriesColor(row.color, dark);
				const share = formatShare(row.share, 1);
				return (
					<li key={row.id}>
						<button
							type="button"
							aria-pressed={drawn}
							data-series={row.id}
							title={T.chart.legendHint(displayName(row.title), sum(row), share, figure(row.mean), figure(row.peak))}
							onClick={(event) => onPick(row.id, !(event.ctrlKey || event.metaKey || event.shiftKey))}
							onPointerEnter={() => onHighlight(drawn ? row.id : null)}
							onFocus={() => onHighlight(drawn ? row.id : null)}
							onBlur={() => onHighlight(null)}
						>
							<i class="swatch" style={drawn ? { background: color } : { boxShadow: `inset 0 0 0 1.5px ${color}` }} />
							<bdi>{displayName(row.title, 120)}</bdi>
							<b>{sum(row)}</b>
							<span>{share}</span>
						</button>
					</li>
				);
			})}
		</ul>
	);
}

type PanelProps = Omit<MetricsProps, 'highlight'> & {
	unit: string;
	gauge: boolean;
	shown: readonly string[]; // of seriesId(); [] = all
	onShown: (ids: string[]) => void;
};

export function MetricsPanel({ unit, gauge, shown, onShown, ...props }: PanelProps) {
	const { chart, scale, selection, dark } = props;
	const [highlight, setHighlight] = useState<string | null>(null);
	const drawn = useMemo(() => onlyShown(chart, shown), [chart, shown]);
	// eslint-disable-next-line react-hooks/exhaustive-deps -- the same selection may be another object
	const rows = useMemo(() => legendRows(chart, scale, selection), [chart, scale, selection?.from, selection?.to]);
	const ids = drawn === chart ? [] : drawn.series.map(seriesId);
	// What went away while it was highlighted must not leave the others faded.
	const standsOut = drawn.series.some((s) => seriesId(s) === highlight) ? highlight : null;
	return (
		<>
			<Metrics {...props} chart={drawn} highlight={standsOut} />
			{rows.length > 1 && (
				<Legend
					rows={rows}
					shown={ids}
					scale={scale}
					unit={unit}
					gauge={gauge}
					dark={dark}
					onPick={(id, alone) =>
						onShown(
							pickSeries(
								rows.map((row) => row.id),
								ids,
								id,
								alone,
							),
						)
					}
					onHighlight={setHighlight}
				/>
			)}
		</>
	);
}
