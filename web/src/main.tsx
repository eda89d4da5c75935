// SPDX-License-Identifier: Apache-2.0
import { render } from 'preact';
import { App } from './app';
import './style.css';
import { startTheme } from './theme';

startTheme();
render(<App />, document.getElementById('app')!);
