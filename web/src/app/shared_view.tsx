// SPDX-License-Identifier: Apache-2.0
// What a link shows: responses that were kept, whatever has become of the data since.
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ApiError } from '../api/client';
import { displayName, formatDateTime, formatRange } from '../base/format';
import * as T from '../base/texts';
import { FixedCompare } from '../compare/view';
import { ShownFile } from '../files/view';
import { ProfilePart } from '../profile/view';
import { toProfile } from '../query/requests';
import { headOf, isView, parsePicture, splitQuery, type Kept, type KeptResponse } from '../share/snapshot';
import { NO_COMPARE } from '../state/compare';
import { DEFAULTS, formatState, isPane, type PageState, type ProfileView } from '../state/page';
import { useApi, type SetState } from '../ui/hooks';
import { Logo } from '../ui/icons';
import { ErrorPanel, Notice, Skeleton } from '../ui/notices';
import { rich } from '../ui/rich';

export interface SharedProps {
	state: PageState;
	set: SetState;
	dark: boolean;
	narrow: boolean;
	onRetry: () => void;
	nonce: number;
}

function Whence({ kept, base }: { kept: Kept; base: KeptResponse | null }) {
	const { title, made_ms: made } = headOf(kept);
	const of = isView(kept) ? null : kept.snapshot;
	const range = ({ from_ms: from, to_ms: to }: KeptResponse['snapshot']) => formatRange(from, to);
	return (
		<>
			<h2 class="bar-title" data-testid="shared-title">
				<bdi>{displayName(title, 200) || (isView(kept) ? displayName(kept.data.title, 120) : T.share.untitled)}</bdi>
			</h2>
			<p class="hint shared-whence" data-testid="shared-whence">
				<b class="shared-fixed">{T.share.fixed}</b> {T.share.made(formatDateTime(made))} {isView(kept) && T.share.ofFile(displayName(kept.data.title, 120))}
				{of && rich(T.share.of, { query: <code>{displayName(of.query, 300)}</code>, range: range(of) })}
				{base && rich(T.share.against, { query: <code>{displayName(base.snapshot.query, 300)}</code>, range: range(base.snapshot) })}
				{of?.partial && ` ${T.share.partial}`}
			</p>
		</>
	);
}

function Live({ of, base }: { of: KeptResponse['snapshot']; base: KeptResponse['snapshot'] | null }) {
	const { selector, within, root } = splitQuery(of.query);
	const there: PageState = { ...DEFAULTS, q: selector, from: String(of.from_ms), to: String(of.to_ms), within, root };
	if (base) {
		there.view = 'compare';
		there.compare = { ...NO_COMPARE, base: splitQuery(base.query).selector, bfrom: String(base.from_ms), bto: String(base.to_ms) };
	}
	return (
		<a class="button" href={formatState(there)} title={T.share.liveHint} data-testid="shared-live">
			{T.share.live}
		</a>
	);
}

function SharedResponse({ kept, base, state, set, dark, narrow }: SharedProps & { kept: KeptResponse; base: KeptResponse | null }) {
	const profile = useMemo(() => toProfile(kept.answer), [kept]);
	const baseProfile = useMemo(() => base && toProfile(base.answer), [base]);
	const pane: ProfileView = state.pane || (narrow ? 'graph' : 'both');
	const setIn: SetState = ({ view, ...patch }, how) => set(isPane(view) ? { ...patch, pane: view } : patch, how);
	return (
		<>
			<div class="file-head">
				<Whence kept={kept} base={base} />
				<span class="spring" />
				<Live of={kept.snapshot} base={base && base.snapshot} />
			</div>
			{baseProfile ? (
				<FixedCompare
					base={baseProfile}
					head={profile}
					type={splitQuery(kept.snapshot.query).selector.split('{')[0]}
					state={state}
					set={setIn}
					dark={dark}
					narrow={narrow}
				/>
			) : (
				<ProfilePart profile={profile} state={state} set={setIn} view={pane} dark={dark} alone calls />
			)}
		</>
	);
}

function Gone({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
	if (error.status !== 404) return <ErrorPanel error={error} onRetry={onRetry} />;
	return (
		<Notice title={T.share.gone} testId="shared-gone">
			<p>{T.share.goneHow}</p>
		</Notice>
	);
}

const one = (id: string) => (id === '' ? null : `snapshots/${id}`);
const hasProfile = (kept: Kept | null): kept is KeptResponse => kept !== null && !isView(kept) && kept.answer?.flame !== undefined;

export function Shared(props: SharedProps) {
	const { state, set, nonce, onRetry } = props;
	const ids = state.id.split('.');
	const [baseId, id] = ids.length > 1 ? ids : ['', ids[0]];
	const resource = useApi<Kept>(one(id), {}, nonce);
	const baseResource = useApi<Kept>(one(baseId), {}, nonce);
	const kept = resource.stale ? null : resource.data;
	const keptBase = baseResource.stale ? null : baseResource.data;
	// What its maker saw of it, unless the URL says something else.
	const [begun, setBegun] = useState('');
	useEffect(() => {
		if (!kept || begun === state.id) return;
		setBegun(state.id);
		if (formatState(state) !== formatState({ ...DEFAULTS, view: 'shared', id: state.id, names: state.names })) return;
		const { picture, fragment } = parsePicture(headOf(kept).state);
		if (fragment.length > 1 && location.hash === '') history.replaceState(null, '', location.pathname + location.search + fragment);
		set(picture, 'replace');
		// eslint-disable-next-line react-hooks/exhaustive-deps -- once for each link, whatever becomes of the state
	}, [kept, state.id]);
	const error = resource.error ?? baseResource.error;
	if (error && !(kept && (baseId === '' || keptBase))) return <Gone error={error} onRetry={onRetry} />;
	if (!kept || begun !== state.id || (baseId !== '' && !keptBase)) {
		return id === '' ? <Gone error={{ status: 404 } as ApiError} onRetry={onRetry} /> : <Skeleton />;
	}
	if (isView(kept))
		return <ShownFile id={id} view={kept} state={state} set={set} dark={props.dark} narrow={props.narrow} head={<Whence kept={kept} base={null} />} />;
	if (!hasProfile(kept) || (baseId !== '' && !hasProfile(keptBase)))
		return (
			<Notice title={T.share.other} testId="shared-other">
				<Logo />
				<p>{T.share.otherHow(kept.snapshot.call)}</p>
			</Notice>
		);
	return <SharedResponse {...props} kept={kept} base={hasProfile(keptBase) ? keptBase : null} />;
}
