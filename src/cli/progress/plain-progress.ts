import type { ProgressListener } from '../../sync/progress.ts';
import type { Notices } from '../notices.ts';
import { forecastText } from './forecast-text.ts';
import { summaryLine } from './progress-text.ts';
import { emptyTally, tallied } from './tally.ts';

/** How often a line is written at most. */
const LINE_EVERY_MS = 10_000;

/** Progress as lines, for files, pipes and logs: what is ahead, then a line every ten seconds. */
export function plainProgress(
  notices: Notices,
  now: () => number,
  requestsPerMinute: number,
): { readonly listen: ProgressListener; stop(): void } {
  let tally = emptyTally(now());
  let lastLine = now();
  return {
    listen(event) {
      tally = tallied(tally, event);
      if (event.event === 'forecast') notices.say(forecastText(event.forecast));
      const at = now();
      if (event.event !== 'stored' && event.event !== 'waiting') return;
      if (at - lastLine < LINE_EVERY_MS) return;
      lastLine = at;
      notices.say(summaryLine(tally, at, requestsPerMinute));
    },
    stop() {},
  };
}
