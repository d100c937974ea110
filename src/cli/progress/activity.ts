import { fitColumns } from '../../mail/terminal-safe.ts';
import type { CommandContext } from '../context.ts';

/** Progress of one long step, as one line. */
export interface Activity {
  /** What is being done now; the text is made only when it is shown. */
  show(text: () => string): void;
  /** Clears the line: to be called before anything else is printed. May be called again. */
  stop(): void;
}

/** Work that is done by then needs no line. */
const QUIET_MS = 1_000;
const REDRAW_MS = 200;
/** How often a line is written where it cannot be drawn over. */
const LINE_EVERY_MS = 5_000;
const CLEAR_LINE = '\r\u001b[2K';

/**
 * Shows that something is under way: after a second, on a terminal as a line that is drawn over, elsewhere as a line
 * every five seconds once there is news. Silent under `--quiet` and `--json`.
 *
 * @param first the text until there is news
 */
export function openActivity(
  { notices, now }: Pick<CommandContext, 'notices' | 'now'>,
  first: string,
): Activity {
  const { stream } = notices;
  const startedAt = now();
  let text = (): string => first;
  let printedAt = startedAt;
  let drawnAt: number | null = null;
  const draw = (): void => {
    if (now() - startedAt < QUIET_MS) return;
    drawnAt = now();
    stream.write(`${CLEAR_LINE}${fitColumns(text(), (stream.columns || 80) - 1)}`);
  };
  const timer = notices.live ? setInterval(draw, REDRAW_MS).unref() : undefined;
  return {
    show(next) {
      text = next;
      if (notices.live) {
        // The timer alone is late where the work leaves it no turn.
        if (now() - (drawnAt ?? 0) >= REDRAW_MS) draw();
        return;
      }
      if (now() - printedAt < LINE_EVERY_MS) return;
      printedAt = now();
      notices.say(text());
    },
    stop() {
      clearInterval(timer);
      if (drawnAt !== null) stream.write(CLEAR_LINE);
      drawnAt = null;
    },
  };
}
