// SPDX-License-Identifier: Apache-2.0
// Makes a link to what is shown, as it is now.
import { useEffect, useRef, useState } from 'preact/hooks';
import { apiDelete, ApiError } from '../api/client';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import { ShareIcon } from '../ui/icons';
import { keyOf } from '../ui/keymap';
import { useKeys } from '../ui/keys';
import { copyText } from '../ui/menu';
import { Popover } from '../ui/popover';
import { linkOf } from './snapshot';

/** Keeps what is shown under that title, and returns the ids. */
export type Keep = (title: string, onProgress: (text: string) => void, signal: AbortSignal) => Promise<string[]>;

type Step = { at: 'storing'; text: string } | { at: 'failed'; why: string } | { at: 'made'; ids: string[] };

interface BodyProps {
	keep: Keep;
	title: string;
	isFile: boolean;
}

// For the field that has the focus as soon as it is there.
function useFocus() {
	const element = useRef<HTMLInputElement>(null);
	useEffect(() => element.current?.focus(), []);
	return element;
}

function Made({ ids, onGone }: { ids: string[]; onGone: () => void }) {
	const [fault, setFault] = useState('');
	const [copied, setCopied] = useState<boolean | null>(null); // a browser may ask for leave first
	const link = linkOf(ids);
	const first = useFocus();
	useEffect(() => void copyText(link).then(setCopied), [link]);
	const remove = async () => {
		try {
			for (const id of ids) await apiDelete(`snapshots/${id}`);
			onGone();
		} catch (error) {
			setFault(error instanceof ApiError && error.status !== 0 ? error.message : T.fault.noResponse);
		}
	};
	return (
		<>
			<input
				type="text"
				readOnly
				value={link}
				aria-label={T.share.link}
				data-testid="share-link"
				ref={first}
				onFocus={(event) => event.currentTarget.select()}
			/>
			<p role="status" data-testid="share-copied">
				{copied !== null && (copied ? T.share.copied : T.share.notCopied)}
			</p>
			{fault !== '' && <p class="field-fault">{displayName(fault)}</p>}
			<div class="buttons">
				<button type="button" class="button" data-testid="share-copy" onClick={async () => setCopied(await copyText(link))}>
					{T.share.copy}
				</button>
				<button type="button" class="button" title={T.share.removeHint} data-testid="share-remove" onClick={remove}>
					{T.share.remove}
				</button>
			</div>
		</>
	);
}

function Body({ keep, title, isFile }: BodyProps) {
	const first = useFocus();
	const [name, setName] = useState(title);
	const [step, setStep] = useState<Step | null>(null);
	const abort = useRef<AbortController | null>(null);
	useEffect(() => () => abort.current?.abort(), []);
	const make = async () => {
		const own = (abort.current = new AbortController());
		setStep({ at: 'storing', text: T.share.storing });
		try {
			const ids = await keep(name, (text) => setStep({ at: 'storing', text }), own.signal);
			if (own.signal.aborted) return;
			setStep({ at: 'made', ids });
		} catch (error) {
			if (!own.signal.aborted) setStep({ at: 'failed', why: error instanceof Error ? error.message : String(error) });
		}
	};
	if (step?.at === 'made') return <Made {...step} onGone={() => setStep(null)} />;
	return (
		<form
			class="share-form"
			onSubmit={(event) => {
				event.preventDefault();
				if (step?.at !== 'storing') void make();
			}}
		>
			<p>{isFile ? T.share.whatFile : T.share.what}</p>
			<label>
				{T.share.title}
				<input type="text" maxLength={200} value={name} data-testid="share-title" ref={first} onInput={(event) => setName(event.currentTarget.value)} />
			</label>
			{step?.at === 'failed' && (
				<p class="field-fault" role="alert" data-testid="share-fault">
					{displayName(step.why)}
				</p>
			)}
			{step?.at === 'storing' && <p role="status">{step.text}</p>}
			<div class="buttons">
				<button type="submit" class="button primary" aria-disabled={step?.at === 'storing'} data-testid="share-make">
					{T.share.make}
				</button>
			</div>
		</form>
	);
}

export function ShareButton(props: BodyProps) {
	const opener = useRef<(() => void) | null>(null);
	useKeys('share', { open: () => opener.current?.() });
	return (
		<Popover
			label={T.share.label}
			button={
				<>
					<ShareIcon /> {T.share.short}
				</>
			}
			buttonClass="button share-button"
			testId="share"
			shortcut={keyOf('share', 'open')}
			opener={opener}
		>
			{() => (
				<div class="share" data-testid="share-box">
					<h3>{T.share.label}</h3>
					<Body {...props} />
				</div>
			)}
		</Popover>
	);
}
