import type { AccountSettings, Settings } from '../../../config/settings.ts';
import type { Writer } from '../../../engine/archive/writer.ts';
import { type OpenAccounts, withAccounts } from '../../../engine/pass/open-pass.ts';
import { type EventLog, openLog } from '../../../engine/pass/pass-log.ts';
import type { Narrowing } from '../../../engine/pass/selection.ts';
import type { ProgressListener } from '../../../sync/progress.ts';
import type { CommandContext } from '../../context.ts';
import { showProgress } from '../../progress/sync-progress.ts';

/** A pass of a command with its services open, and what shows how it goes. */
export interface ShownPass extends OpenAccounts {
  readonly progress: ProgressListener;
  /** Clears the progress: to be called before a result is printed. */
  readonly stopProgress: () => void;
  readonly events: EventLog;
}

/**
 * Opens the services of the chosen accounts for as long as `act` takes. Progress goes to standard error, or a log of
 * JSON Lines instead.
 */
export async function withOrigins<T>(
  context: CommandContext,
  settings: Settings,
  chosen: readonly AccountSettings[],
  narrowing: Narrowing,
  writer: Writer,
  logged: boolean,
  act: (open: ShownPass) => Promise<T>,
): Promise<T> {
  const events = await openLog(context.notices.stream, logged ? settings.log.level : 'silent');
  const shown = logged
    ? { listen: events.progress, stop: () => {} }
    : await showProgress(context.notices, context.now, settings.rateLimit.requestsPerMinute);
  const listeners = { progress: shown.listen, request: events.request };
  try {
    return await withAccounts(context, settings, chosen, narrowing, writer, listeners, (open) =>
      act({ ...open, progress: shown.listen, stopProgress: () => shown.stop(), events }),
    );
  } finally {
    shown.stop();
  }
}
