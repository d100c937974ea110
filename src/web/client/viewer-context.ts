import { createContext } from 'preact';
import { useContext, useEffect, useReducer } from 'preact/hooks';
import type { Shown, Viewer } from './viewer.ts';

/** The viewer of the window. */
export const CurrentViewer = createContext<Viewer | null>(null);

/** The way to other addresses, for parts of a page. */
export function useViewer(): Viewer {
  const viewer = useContext(CurrentViewer);
  if (viewer === null) throw new TypeError('outside the app');
  return viewer;
}

/** What the window shows; the part that asks is made again with each change. */
export function useShown(): Shown {
  const viewer = useViewer();
  const [, changed] = useReducer<number, undefined>((count) => count + 1, 0);
  useEffect(() => viewer.subscribe(() => changed(undefined)), [viewer]);
  return viewer.shown;
}
