import { MultiBar, type SingleBar } from 'cli-progress';
import type { Settings } from '../../config/settings.ts';
import { type EventLog, openLog } from '../../daemon/pass-log.ts';
import { displayWidth, fitColumns } from '../../mail/terminal-safe.ts';
import type { ProgressListener, SyncProgress } from '../../sync/progress.ts';
import type { CommandContext } from '../context.ts';
import type { Notices } from '../notices.ts';
import { fitNarrow } from '../output.ts';
import { forecastText, mailboxTexts, summaryLine, sumTexts } from './progress-text.ts';
import { emptyTally, sumOf, tallied } from './tally.ts';

/** Events with news for people. */
const SHOWN: ReadonlySet<SyncProgress['event']> = new Set(['stored', 'waiting', 'indexing']);
/** How often a line is written at most. */
const LINE_EVERY_MS = 10_000;

/** Progress as lines, for files, pipes and logs: what is ahead, then a line every ten seconds. */
export function plainProgress(
  notices: Notices,
  now: () => number,
): { readonly listen: ProgressListener; stop(): void } {
  let tally = emptyTally(now());
  let lastLine = now();
  return {
    listen(event) {
      const at = now();
      tally = tallied(tally, event, at);
      if (event.event === 'forecast') notices.say(forecastText(event.forecast));
      if (!SHOWN.has(event.event) || at - lastLine < LINE_EVERY_MS) return;
      lastLine = at;
      notices.say(summaryLine(tally, at));
    },
    stop() {},
  };
}

/** More bars than this push each other off the screen; the rest are in the sum. */
const MOST_BARS = 8;
/** The bar gives way to the words: on 80 columns it is a third of this. */
const BAR_WIDTH = 24;
const LEAST_BAR = 8;
/** What the words take without being cut, mostly. */
const WORDS = 96;

/** Progress bars on a terminal: one for each mailbox at work, and one for all with the request budget. */
export function liveProgress(
  notices: Notices,
  now: () => number,
): { readonly listen: ProgressListener; stop(): void } {
  const screen = new MultiBar({
    stream: notices.stream,
    format: ({ barCompleteString = '', barIncompleteString = '' }, { progress }, { texts }) => {
      // Read each time: windows change their size. A terminal that was never given one reports 0.
      const columns = notices.stream.columns || 80;
      const width = Math.min(BAR_WIDTH, Math.max(LEAST_BAR, columns - WORDS));
      const full = Math.round(progress * width);
      const bar = `${barCompleteString.slice(0, full)}${barIncompleteString.slice(0, width - full)}`;
      return `${bar} ${fitting(texts, columns - width - 2)}`;
    },
    barsize: BAR_WIDTH,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    hideCursor: true,
    linewrap: true,
    clearOnComplete: true,
    // The command itself answers signals.
    gracefulExit: false,
    fps: 5,
  });
  let stopped = false;
  let tally = emptyTally(now());
  const bars = new Map<string, SingleBar>();
  const all = screen.create(1, 0, { texts: () => ['asking the service what is there …'] });

  const draw = (): void => {
    for (const [key, mailbox] of tally.mailboxes) {
      const bar = bars.get(key);
      if (mailbox.finished) {
        if (bar !== undefined) screen.remove(bar);
        bars.delete(key);
      } else if (mailbox.ahead > 0 && (bar !== undefined || bars.size < MOST_BARS)) {
        const shown = bar ?? screen.create(mailbox.ahead, 0, { texts: () => [] });
        bars.set(key, shown);
        shown.setTotal(mailbox.ahead);
        shown.update(mailbox.messages, {
          texts: (columns: number) => mailboxTexts(mailbox, columns),
        });
      }
    }
    all.setTotal(Math.max(1, sumOf(tally).ahead));
    // Made when it is shown: waits and times left run on without an event.
    all.update(sumOf(tally).messages, { texts: () => sumTexts(tally, now()) });
  };

  return {
    listen(event) {
      tally = tallied(tally, event, now());
      if (event.event === 'forecast') {
        const text = forecastText(event.forecast);
        screen.log(`${fitNarrow(text, notices.stream.columns)}\n`);
      }
      draw();
    },
    stop() {
      // A second time it would clear what was printed since.
      if (!stopped) screen.stop();
      stopped = true;
    },
  };
}

/** The most detailed of the texts that fits; the shortest is cut if it must be. */
function fitting(texts: unknown, columns: number): string {
  const made: unknown = typeof texts === 'function' ? texts(columns) : [];
  const given = Array.isArray(made) ? made.map(String) : [];
  const fits = given.find((text) => displayWidth(text) <= columns);
  return fits ?? fitColumns(given.at(-1) ?? '', columns);
}

/** What follows a pass by hand. */
export interface FollowedPass extends EventLog {
  /** Clears the progress: to be called before a result is printed. May be called again. */
  readonly stop: () => void;
}

/**
 * Returns what follows a pass on standard error: bars on a terminal, lines elsewhere, nothing where nobody reads.
 *
 * @param logged a log of JSON Lines instead
 */
export async function followPass(
  { notices, now }: Pick<CommandContext, 'notices' | 'now'>,
  { log }: Settings,
  logged: boolean,
): Promise<FollowedPass> {
  if (logged) return { ...(await openLog(notices.stream, log.level)), stop: () => {} };
  const show = notices.live ? liveProgress : plainProgress;
  const { listen, stop } = show(notices, now);
  return { progress: listen, request: () => {}, result: () => {}, stop };
}
