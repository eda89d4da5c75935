// SPDX-License-Identifier: Apache-2.0
// Files that are opened, and the page's way to them.
import { useRef } from 'preact/hooks';
import { shortenName } from '../api/send';
import { UNTOUCHED, type PageState } from '../state/page';
import type { SetState } from '../ui/hooks';
import type { OnFiles } from './open';
import { addFile, hasLocalFile } from './local_files';

/**
 * onFiles opens the first of the files. Where the page asks for the very file again, it becomes that one, with all that the URL says of
 * what is shown of it. dropped: how many there were.
 */
export function useFiles(state: PageState, set: SetState): { onFiles: OnFiles; dropped: number } {
	const count = useRef({ id: '', files: 0 });
	const onFiles: OnFiles = (files) => {
		const name = shortenName(files[0].name);
		const again = state.view === 'file' && state.name === name && !hasLocalFile(state.id);
		const id = addFile(files[0]);
		count.current = { id, files: files.length };
		if (again) set({ id }, 'replace');
		else set({ ...UNTOUCHED, view: 'file', id, name, pane: '', find: '', filter: '' });
	};
	return { onFiles, dropped: count.current.id === state.id ? count.current.files : 1 };
}
