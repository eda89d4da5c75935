// SPDX-License-Identifier: Apache-2.0
// How a file gets into the page: dropped anywhere, or chosen.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import * as T from '../base/texts';
import { OpenIcon } from '../ui/icons';

export type OnFiles = (files: File[]) => void;

interface OpenProps {
	onFiles: OnFiles;
	class?: string;
	testId?: string;
	children?: ComponentChildren; // of the button; absent: its icon and name
}

/** A button that lets a person choose a file. */
export function OpenFile({ onFiles, class: style = 'button', testId = 'open-file', children }: OpenProps) {
	const input = useRef<HTMLInputElement>(null);
	return (
		<>
			<button type="button" class={style} title={T.files.openHint} data-testid={testId} onClick={() => input.current?.click()}>
				{children ?? (
					<>
						<OpenIcon />
						{T.files.open}
					</>
				)}
			</button>
			<input
				ref={input}
				type="file"
				hidden
				aria-label={T.files.choose}
				onChange={(event) => {
					const { files } = event.currentTarget;
					if (files && files.length > 0) onFiles([...files]);
					event.currentTarget.value = ''; // the same file may be chosen again
				}}
			/>
		</>
	);
}

const holdsFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') ?? false;

/** Takes what is dropped anywhere in the window, and says that it would while something is over it. */
export function DropTarget({ onFiles }: { onFiles: OnFiles }) {
	const [over, setOver] = useState(false);
	const latest = useRef(onFiles);
	latest.current = onFiles;
	useEffect(() => {
		let depth = 0; // of elements that the pointer has come into and not left
		const enter = (event: DragEvent) => {
			if (!holdsFiles(event)) return;
			event.preventDefault();
			depth++;
			setOver(true);
		};
		const move = (event: DragEvent) => {
			if (!holdsFiles(event)) return;
			event.preventDefault();
			event.dataTransfer!.dropEffect = 'copy';
		};
		const leave = (event: DragEvent) => {
			if (!holdsFiles(event)) return;
			depth = Math.max(0, depth - 1);
			if (depth === 0) setOver(false);
		};
		const drop = (event: DragEvent) => {
			if (!holdsFiles(event)) return;
			event.preventDefault(); // a browser would go to the file otherwise
			depth = 0;
			setOver(false);
			const files = [...(event.dataTransfer?.files ?? [])];
			if (files.length > 0) latest.current(files);
		};
		addEventListener('dragenter', enter);
		addEventListener('dragover', move);
		addEventListener('dragleave', leave);
		addEventListener('drop', drop);
		return () => {
			removeEventListener('dragenter', enter);
			removeEventListener('dragover', move);
			removeEventListener('dragleave', leave);
			removeEventListener('drop', drop);
		};
	}, []);
	if (!over) return null;
	return (
		<div class="drop-over" data-testid="drop-over" role="status">
			<div class="drop-frame">
				<OpenIcon />
				<b>{T.files.drop}</b>
				<span>{T.files.dropHint}</span>
			</div>
		</div>
	);
}
