import type { Logger } from 'pino';
import type { Settings } from '../core/config-schema.ts';
import { describeError, MailkeepError } from '../core/errors.ts';
import { mailboxLabel } from '../core/names.ts';
import type { Wait } from '../core/pace.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import type { RequestReport } from '../service/transport.ts';
import { type SyncResult, totalsOf } from '../sync/result.ts';
import type { DaemonEvent } from './ports.ts';
import type { ReceiverEvent } from './receiver.ts';
import { lineOptions } from './runs.ts';

/** The daemon's log: counts, codes, durations and resource ids, but never addresses, subjects, folders or secrets. */
export type DaemonLog = Readonly<ReturnType<typeof daemonLog>>;

/** Opens the log on standard output, as JSON Lines or, with `pretty`, as readable lines. */
export async function openDaemonLog(
  level: Settings['log']['level'],
  pretty: boolean,
): Promise<DaemonLog> {
  const { pino } = await import('pino');
  // Synchronous, because the last line before an exit matters most.
  const stream = pretty
    ? (await import('pino-pretty')).default({
        sync: true,
        destination: 1,
        translateTime: 'SYS:HH:MM:ss',
        hideObject: true,
        messageFormat: prettyLine,
      })
    : pino.destination({ fd: 1, sync: true });
  return daemonLog(pino({ ...lineOptions(pino.stdTimeFunctions.isoTime), level }, stream));
}

const SHOWN_BEFORE: ReadonlySet<string> = new Set(['level', 'time', 'pid', 'name', 'msg']);

/**
 * Formats a log record as a readable line with its message and facts, omitting zeros. Removes terminal control
 * characters, because facts can originate from the service.
 */
export function prettyLine(line: Readonly<Record<string, unknown>>): string {
  const facts = Object.entries(line).flatMap(([name, value]) => {
    if (SHOWN_BEFORE.has(name) || value === 0 || value === null || value === '') return [];
    return [`${name} ${typeof value === 'object' ? JSON.stringify(value) : value}`];
  });
  return terminalLine(facts.length === 0 ? String(line.msg) : `${line.msg}: ${facts.join(', ')}`);
}

export function daemonLog(log: Logger) {
  return {
    observer: (event: DaemonEvent) => logEvent(log, event),
    request: ({ operation, host, status, ms, bytes, key }: RequestReport) =>
      log.debug({ operation, mailbox: mailboxLabel(key), host, status, ms, bytes }, 'request'),
    wait: ({ host, until, reason }: Wait) => {
      const line = { host, until: new Date(until).toISOString(), reason };
      if (reason === 'rate') log.debug(line, 'waiting');
      else log.warn(line, 'waiting');
    },
    say: (level: 'debug' | 'info' | 'warn' | 'error', text: string, facts: object = {}) =>
      log[level](facts, text),
    /** Logs the code of a failure that needs attention, without names. */
    fail: (level: 'error' | 'fatal', text: string, error: unknown) =>
      log[level](errorFacts(error), text),
    setLevel: (level: Settings['log']['level']) => {
      log.level = level;
    },
  };
}

/** Codes of accounts that wait although their server can be reached. */
const WAITS: ReadonlySet<string> = new Set(['imap.day-limit', 'imap.throttled']);

/** Numbers that make a run that a hint started worth a line at `info`. */
const NEWS = ['added', 'ended', 'quarantined', 'held'] as const;

function logEvent(log: Logger, event: DaemonEvent): void {
  switch (event.event) {
    case 'run-started':
      log.debug({ ...event.run, startedAt: undefined, mailboxes: event.mailboxes }, 'run started');
      return;
    case 'run-finished': {
      const { run, result } = event;
      const line = { run: run.id, kind: run.kind, account: run.account, ...numbersOf(result) };
      if (result.failures.length > 0) log.warn(line, 'run finished with failures');
      else if (run.kind === 'hint' && NEWS.every((name) => line[name] === 0))
        log.debug(line, 'run finished');
      else log.info(line, 'run finished');
      return;
    }
    case 'pass-finished': {
      const { account, resourceId } = event.mailbox;
      const mailbox = mailboxLabel(resourceId);
      const line = { kind: event.kind, account, mailbox, ...numbersOf(event.result) };
      // A backlog sync belongs to no run: it continues alongside them.
      if (event.kind === 'backlog') log.info(line, 'backlog finished');
      else log.debug(line, 'pass finished');
      for (const { code, family, uid } of event.result.failures) {
        log.warn({ account, mailbox, code, family, uid }, 'failure');
      }
      return;
    }
    case 'pass-progress': {
      const { account, resourceId } = event.mailbox;
      const { messages, of, bytes } = event;
      log.info(
        { account, mailbox: mailboxLabel(resourceId), messages, of, bytes },
        'storing messages',
      );
      return;
    }
    case 'surveyed':
      log.debug({ account: event.account }, 'mailboxes listed');
      return;
    case 'pass-preempted':
      log.debug(
        {
          kind: event.kind,
          account: event.mailbox.account,
          mailbox: mailboxLabel(event.mailbox.resourceId),
        },
        'pass made room for another',
      );
      return;
    case 'account-stopped': {
      const { account, problem } = event;
      const { state, code } = problem;
      const line = { account, state, code, retryAt: new Date(problem.retryAt).toISOString() };
      const isImap = code.startsWith('imap.');
      const refusal = isImap ? 'the server refuses the sign-in' : 'the service refuses the token';
      if (state === 'refused') log.error(line, `${refusal}; the account waits`);
      else if (WAITS.has(code)) log.warn(line, 'the account waits');
      else
        log.warn(line, `the ${isImap ? 'server' : 'service'} cannot be reached; the account waits`);
      return;
    }
    case 'clock-jumped':
      log.warn({ ms: Math.round(event.ms) }, 'the clock jumped, or the machine slept');
      return;
    case 'archive-failed':
      log.error(
        { code: event.error.code, retryAt: new Date(event.retryAt).toISOString() },
        'the archive cannot be written; passes wait',
      );
      return;
    default: {
      const { event: name, ...facts } = event;
      const [level, text] = PLAIN_LINES[name];
      log[level](
        'mailbox' in facts ? { ...facts, mailbox: mailboxLabel(facts.mailbox) } : facts,
        text,
      );
    }
  }
}

/** Events whose fields are logged unchanged. */
const PLAIN_LINES = {
  'account-recovered': ['info', 'the account is back'],
  hint: ['debug', 'hint'],
  'hint-unseen': ['warn', 'a message was announced and has not been seen within a minute'],
  'hint-unknown': ['warn', 'a hint about a mailbox that no account has'],
  skipped: ['debug', 'the last run is not over; this one is left out'],
} as const;

function numbersOf(result: SyncResult) {
  const { mailboxes, failures, requests, certificates, durationMs, timings } = result;
  return {
    mailboxes: mailboxes.length,
    folders: certificates.length,
    ...totalsOf(mailboxes, 'added', 'ended', 'flagsChanged', 'relinked', 'verified', 'corrected'),
    ...totalsOf(mailboxes, 'quarantined', 'held', 'bytes'),
    requests,
    failures: failures.length,
    incomplete: certificates.filter(({ complete }) => !complete).length,
    indexMs: timings.indexMs,
    durationMs,
  };
}

/** Configuration errors are logged in full, because they name fields in a file and contain no secrets. */
function errorFacts(error: unknown): object {
  if (error instanceof MailkeepError) {
    const { code, family } = error;
    if (family !== 'config' && family !== 'in-use') return { code, family };
    const { message, hint } = describeError(error);
    return { code, family, message, hint };
  }
  if (!(error instanceof Error)) return { code: 'bug', what: typeof error };
  // A stack contains code positions. Its first line can quote mail.
  const at = (error.stack ?? '')
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, 12);
  return { code: 'bug', name: error.name, at };
}

/** Logs a webhook receiver's events. `count` receives `delivery` or the reason for refusal, and the request count. */
export function logReceiverEvent(
  event: ReceiverEvent,
  log: Pick<DaemonLog, 'say' | 'fail'>,
  count: (outcome: string, times: number) => void,
): void {
  switch (event.event) {
    case 'delivery':
      count('delivery', 1);
      log.say('debug', 'webhook delivery', { webhook: event.webhook, bytes: event.bytes });
      return;
    case 'refused':
      count(event.reason, event.times);
      log.say('warn', 'webhook requests refused', { reason: event.reason, times: event.times });
      return;
    case 'secrets-unreadable':
      log.say('warn', 'the secrets of webhooks cannot be read', { code: event.code });
      return;
    case 'failed':
      log.fail('error', 'a webhook delivery could not be taken', event.error);
      return;
  }
}
