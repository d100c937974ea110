import type { MailkeepError } from '../errors/mailkeep-error.ts';
import type { RunReport } from '../health/run-report.ts';
import { choreReport } from './chore-report.ts';
import type { DaemonLog } from './daemon-log.ts';

/**
 * Listens to what sealing meets in the log that is not what was written: told once, though every round meets it again,
 * and taken back when a round meets nothing.
 */
export function watchSealing(options: {
  readonly now: () => number;
  readonly log: DaemonLog;
  readonly onRun: (report: RunReport) => void;
}): (startedAt: number, damaged: readonly MailkeepError[]) => void {
  const { now, log, onRun } = options;
  const told = new Set<string>();
  return (startedAt, damaged) => {
    const [first] = damaged;
    if (first === undefined && told.size === 0) return;
    if (first === undefined) told.clear();
    for (const error of damaged) {
      const what = JSON.stringify([error.code, error.facts]);
      if (told.has(what)) continue;
      told.add(what);
      log.fail(
        'error',
        'a segment is damaged and stays as it is: "mailkeep verify" names what is',
        error,
      );
    }
    onRun(choreReport('seal', startedAt, now(), first ?? null));
  };
}
