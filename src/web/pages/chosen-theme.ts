import { createContext } from 'preact';
import type { Theme } from './theme.ts';

/** The theme that was chosen in the browser that asks; undefined for that of its system. */
export const ChosenTheme = createContext<Theme | undefined>(undefined);
