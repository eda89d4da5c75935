// SPDX-License-Identifier: Apache-2.0
// A file that was opened on the page: its transfer to the server, and then the view of a file.
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Stage } from '../api/send';
import type { View } from '../api/view_data';
import { displayName, formatBytes } from '../base/format';
import * as T from '../base/texts';
import { useViewed, ValueSelect, ViewedParts } from '../profile/viewed';
import { ShareButton } from '../share/button';
import { formatPicture, keepFile } from '../share/snapshot';
import { isPane, type PageState, type ProfileView } from '../state/page';
import type { SetState } from '../ui/hooks';
import { useKeys } from '../ui/keys';
import { Notice } from '../ui/notices';
import { DownloadFile } from './download';
import { useTimeFragment } from './fragment';
import { OpenFile, type OnFiles } from './open';
import { cancelSending, startSending, useLocalFile, type LocalFile } from './local_files';

const shown = (name: string): string => displayName(name, 80);

function stageText(stage: Stage): string {
	if (stage.at === 'packing') return T.files.packing(formatBytes(stage.done), formatBytes(stage.of));
	if (stage.at === 'sending') return T.files.sending(formatBytes(stage.done), formatBytes(stage.of));
	if (stage.at === 'receiving') return T.files.receiving(formatBytes(stage.done));
	if (stage.at === 'waiting') return T.files.waiting(displayName(stage.why, 200), stage.seconds);
	return stage.at === 'reading' ? T.files.reading : T.files.showing;
}

const shareOf = (stage: Stage): number | undefined => ('of' in stage && stage.of > 0 ? Math.min(1, stage.done / stage.of) : undefined);

function Progress({ name, stage }: { name: string; stage: Stage }) {
	useKeys('opening', { stop: cancelSending });
	return (
		<Notice title={T.files.opening(shown(name))} testId="file-progress">
			<progress class="file-progress" aria-label={T.files.opening(shown(name))} value={shareOf(stage)} />
			<p data-testid="file-stage" data-at={stage.at}>
				{stageText(stage)}
			</p>
			<button type="button" class="button" data-testid="file-cancel" onClick={cancelSending}>
				{T.files.cancel}
			</button>
		</Notice>
	);
}

function Failed({ file, onFiles }: { file: LocalFile; onFiles: OnFiles }) {
	const { id, name, fault } = file;
	return (
		<Notice title={(fault === null ? T.files.cancelled : T.files.failed)(shown(name))} testId="file-fault">
			<p>{fault === null ? T.files.cancelledHow : fault === T.fault.noResponse ? T.files.offlineHow(location.host) : <code>{displayName(fault)}</code>}</p>
			<div class="buttons">
				<button type="button" class="button primary" data-testid="file-retry" onClick={() => startSending(id)}>
					{T.files.retry}
				</button>
				<OpenFile onFiles={onFiles} testId="file-another">
					{T.files.another}
				</OpenFile>
			</div>
		</Notice>
	);
}

/** What of a file was not read, folded away. */
export function LeftOut({ texts }: { texts: string[] }) {
	if (texts.length === 0) return null;
	return (
		<details class="file-left-out" data-testid="left-out">
			<summary>{T.files.leftOut(texts.length)}</summary>
			<ul>
				{texts.map((text, i) => (
					<li key={i}>{displayName(text, 400)}</li>
				))}
			</ul>
		</details>
	);
}

export interface FileProps {
	state: PageState;
	set: SetState;
	dark: boolean;
	narrow: boolean;
}

interface ShownProps extends FileProps {
	id: string;
	view: View;
	head: ComponentChildren; // what is said of the file
	tools?: (type: string) => ComponentChildren; // at the end of the head; type: of the value that is shown
}

/** A view of a file, wherever it came from. */
export function ShownFile({ id, view, state, set, dark, narrow, head, tools }: ShownProps) {
	const [wish, setTime] = useTimeFragment(id);
	const viewed = useViewed(view, wish);
	const pane: ProfileView = state.pane || (narrow ? 'graph' : 'both');
	// The graph's own tools choose what is shown by `view`, which here says that it is a file.
	const setIn: SetState = ({ view: wanted, ...patch }, how) =>
		set(isPane(wanted) ? { ...patch, pane: wanted } : { ...patch, ...(wanted && { view: wanted }) }, how);
	return (
		<>
			<div class="file-head" data-testid="file-head">
				{head}
				<ValueSelect viewed={viewed} set={setIn} setTime={setTime} />
				<LeftOut texts={view.leftOut} />
				<span class="spring" />
				{tools?.(viewed.data.types[viewed.index].flame.type)}
			</div>
			<ViewedParts viewed={viewed} state={state} set={setIn} setTime={setTime} view={pane} dark={dark} calls />
		</>
	);
}

/** onFiles: of the file that is to be shown in place of this one. dropped: how many files came with it. */
export function FileView({ state, set, dark, narrow, onFiles, dropped }: FileProps & { onFiles: OnFiles; dropped: number }) {
	const local = useLocalFile(state.id);
	const idle = local !== null && !local.view && !local.stage && !local.cancelled && local.fault === null;
	useEffect(() => {
		if (idle) startSending(state.id); // what was made of it is not kept any more
	}, [idle, state.id]);
	if (!local)
		return (
			<Notice title={state.name ? T.files.gone(shown(state.name)) : T.files.title} testId="file-none">
				<p>{state.name ? T.files.goneHow : T.files.none}</p>
				<OpenFile onFiles={onFiles} class="button primary" testId="file-again">
					{state.name ? T.files.again : T.files.open}
				</OpenFile>
			</Notice>
		);
	if (local.view)
		return (
			<ShownFile
				key={local.id}
				id={local.id}
				view={local.view}
				state={state}
				set={set}
				dark={dark}
				narrow={narrow}
				tools={(type) => (
					<>
						<DownloadFile file={local.file} name={local.name} type={type} textOf={stageText} />
						<ShareButton
							keep={async (title, onProgress, signal) => [
								await keepFile(local.file, title, formatPicture(state, location.hash), (stage) => onProgress(stageText(stage)), signal),
							]}
							title={displayName(local.name, 120)}
							isFile
						/>
					</>
				)}
				head={
					<>
						<h2 class="bar-title" data-testid="file-title">
							<bdi>{displayName(local.name, 120)}</bdi>
						</h2>
						<span class="hint">{T.files.format(local.view.format, formatBytes(local.file.size))}</span>
						{dropped > 1 && (
							<span class="hint" role="status" data-testid="only-first">
								{T.files.onlyFirst(dropped)}
							</span>
						)}
					</>
				}
			/>
		);
	return local.stage || idle ? (
		<Progress name={local.name} stage={local.stage ?? { at: 'sending', done: 0, of: 0 }} />
	) : (
		<Failed file={local} onFiles={onFiles} />
	);
}
