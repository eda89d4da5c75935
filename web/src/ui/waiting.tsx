// SPDX-License-Identifier: Apache-2.0
// The server takes long: after a second a line that moves, after ten a text and a way to stop waiting.
import { useEffect, useState } from 'preact/hooks';
import { cancelOlder, onPending, waitingMs } from '../api/pending';
import * as T from '../base/texts';

const QUIET_MS = 1000;
const LONG_MS = 10_000;

type Stage = 'none' | 'quiet' | 'long';

const stageOf = (ms: number | null): Stage => (ms === null || ms < QUIET_MS ? 'none' : ms < LONG_MS ? 'quiet' : 'long');

function useStage(): Stage {
	const [stage, setStage] = useState<Stage>('none');
	useEffect(() => {
		let timer: ReturnType<typeof setTimeout> | undefined;
		// Looks now, and again when the next stage is due.
		const look = () => {
			clearTimeout(timer);
			const ms = waitingMs();
			setStage(stageOf(ms));
			if (ms !== null && ms < LONG_MS) timer = setTimeout(look, (ms < QUIET_MS ? QUIET_MS : LONG_MS) - ms + 1);
		};
		look();
		const stop = onPending(look);
		return () => {
			stop();
			clearTimeout(timer);
		};
	}, []);
	return stage;
}

/** busy: what is in the middle of the page is being loaded, which is shown at once. */
export function Waiting({ busy }: { busy: boolean }) {
	const stage = useStage();
	return (
		<>
			<div class={busy || stage !== 'none' ? 'progress' : 'progress idle'} aria-hidden="true" />
			{stage === 'long' && (
				<div class="banner banner-quiet" role="status" data-testid="slow">
					<span>{T.fault.slow}</span>
					<button type="button" class="button" data-testid="stop-waiting" onClick={() => cancelOlder(QUIET_MS)}>
						{T.fault.stopWaiting}
					</button>
				</div>
			)}
		</>
	);
}
