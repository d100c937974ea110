import type { Writable } from 'node:stream';
import type { RequestReport } from '../api/exchange.ts';
import type { Settings } from '../config/settings.ts';
import type { ProgressListener } from '../sync/progress.ts';
import { type SyncResult, totalsOf } from '../sync/result.ts';

/** What is worth a line in a log. Lines carry counts, codes and durations: no addresses, subjects or secrets. */
export interface EventLog {
  readonly request: (report: RequestReport) => void;
  readonly progress: ProgressListener;
  readonly result: (result: SyncResult) => void;
}

const SILENT: EventLog = { request: () => {}, progress: () => {}, result: () => {} };

/** Should a secret get into a line by mistake, it is cut out of it. */
const REDACTED = ['token', 'password', 'secret', 'authorization', 'cookie'].flatMap((name) => [
  name,
  `*.${name}`,
  `*.*.${name}`,
]);

/** Returns what every log has in common: which fields a line has, and what is cut out of it. */
export function lineOptions(timestamp: () => string) {
  return {
    base: null,
    redact: { paths: REDACTED, censor: '***' },
    timestamp,
    formatters: { level: (label: string) => ({ level: label }) },
  };
}

/** Opens a log of JSON Lines; `silent` costs nothing. */
export async function openLog(
  stream: Writable,
  level: Settings['log']['level'],
): Promise<EventLog> {
  if (level === 'silent') return SILENT;
  const { pino } = await import('pino');
  const log = pino({ ...lineOptions(pino.stdTimeFunctions.isoTime), level }, stream);
  return {
    request: ({ operation, surface, host, status, ms, bytes }) =>
      log.debug({ operation, surface, host, status, ms, bytes }, 'request'),
    progress(event) {
      switch (event.event) {
        case 'forecast':
          log.info({ account: event.account, ...event.forecast }, 'forecast');
          return;
        case 'waiting':
          log.info({ until: new Date(event.until).toISOString(), reason: event.reason }, 'waiting');
          return;
        case 'stored':
          log.debug(
            { account: event.account, messages: event.messages, bytes: event.bytes },
            'stored',
          );
          return;
        case 'indexing':
          log.debug({ indexed: event.indexed, remaining: event.remaining }, 'indexing');
          return;
        case 'sealing':
          log.info({ segment: event.segment }, 'sealing');
          return;
        case 'mailbox-started':
        case 'mailbox-finished':
        case 'requests':
          return;
      }
    },
    result(result) {
      for (const { account, code, family, uid } of result.failures) {
        log.warn({ account, code, family, uid }, 'failure');
      }
      const { requests, durationMs, timings, mailboxes, failures, certificates } = result;
      log.info(
        {
          mailboxes: mailboxes.length,
          ...totalsOf(mailboxes, 'added', 'ended', 'flagsChanged', 'relinked'),
          ...totalsOf(mailboxes, 'quarantined', 'held', 'bytes'),
          requests,
          failures: failures.length,
          complete: certificates.every(({ complete }) => complete),
          ...timings,
          durationMs,
        },
        'pass',
      );
    },
  };
}
