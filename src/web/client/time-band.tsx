import type { VNode } from 'preact';
import type { Frame } from '../pages/page.ts';
import { laterPart } from './later-part.tsx';
import { useShown } from './viewer.ts';

const OpenBand = laterPart((extras) => extras.OpenBand);

/** The band of time travel: the moment, steps, and the track that one drags on. */
export function LiveTimeBand({ frame }: { readonly frame: Frame }): VNode | null {
  const { isTimeOpen } = useShown();
  return frame.past !== null || isTimeOpen ? <OpenBand frame={frame} /> : null;
}
