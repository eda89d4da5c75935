// SPDX-License-Identifier: Apache-2.0
// Dark or light: the system's choice until the person makes another, which is kept in this browser.
import { useEffect, useState } from 'preact/hooks';
import { useMedia } from './hooks';

export type ThemeChoice = 'system' | 'light' | 'dark';
const CHOICES: ThemeChoice[] = ['system', 'light', 'dark'];
const KEY = 'wick-theme';

function stored(): ThemeChoice {
	try {
		const value = localStorage.getItem(KEY) as ThemeChoice;
		return CHOICES.includes(value) ? value : 'system';
	} catch {
		return 'system'; // storage may be forbidden
	}
}

function apply(choice: ThemeChoice): void {
	if (choice === 'system') delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = choice;
}

// Before the first paint, or the page would flash.
export function startTheme(): void {
	apply(stored());
}

export function useTheme(): { choice: ThemeChoice; dark: boolean; next: () => void } {
	const [choice, setChoice] = useState(stored);
	const systemDark = useMedia('(prefers-color-scheme: dark)');
	useEffect(() => {
		apply(choice);
		try {
			localStorage.setItem(KEY, choice);
		} catch {
			// forbidden: the choice lasts as long as the page
		}
	}, [choice]);
	const dark = choice === 'dark' || (choice === 'system' && systemDark);
	// From "system" the first press always changes what is seen.
	const order: ThemeChoice[] = systemDark ? ['system', 'light', 'dark'] : ['system', 'dark', 'light'];
	return { choice, dark, next: () => setChoice(order[(order.indexOf(choice) + 1) % 3]) };
}
