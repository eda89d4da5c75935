// SPDX-License-Identifier: Apache-2.0
// The steps in the page's state, carried out: at once on small trees; on large ones after the screen has been painted.
import { useMemo, useRef } from 'preact/hooks';
import { makeSteps, type Made } from '../tree/steps';
import { parseTransforms } from '../tree/transform';
import { isSmall, type Tree } from '../tree/tree';
import { useLater } from '../ui/hooks';

/** busy: what is there is still that of other steps, or of another tree. */
export function useSteps(base: Tree, text: string): { made: Made; busy: boolean } {
	const of = useMemo(() => ({ base, text }), [base, text]);
	const last = useRef<Made | null>(null);
	const later = useLater(of, text === '' || isSmall(base), (wanted) => {
		last.current = makeSteps(wanted.base, parseTransforms(wanted.text) ?? [], last.current);
		return last.current;
	});
	const none = useMemo(() => makeSteps(base, []), [base]);
	return { made: later?.value ?? none, busy: later?.of !== of };
}
