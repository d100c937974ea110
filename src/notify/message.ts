import { isWarning } from './observation.ts';
import type { Notice, Trouble } from './plan.ts';

/** What a notification says; as JSON on standard input of the command, and in the body of the POST. */
export interface NotificationMessage {
  /**
   * `failing` when anything does, `warning` when nothing fails yet, `recovered` when everything that is reported works
   * again, `alive` for a heartbeat, `test` where somebody tries the channel.
   */
  readonly event: 'failing' | 'warning' | 'recovered' | 'alive' | 'test';
  /** True while nothing is known not to work. */
  readonly ok: boolean;
  /** ISO 8601. */
  readonly at: string;
  /** Name of this machine. */
  readonly host: string;
  readonly version: string;
  /** One line for people. */
  readonly summary: string;
  readonly failing: readonly MessageItem[];
  readonly recovered: readonly MessageItem[];
}

export interface MessageItem {
  /** `account`, `mailbox`, `webhook`, `run`, `copy`, `quota` or `fleet`. */
  readonly kind: string;
  readonly name: string;
  readonly code: string;
  readonly message: string;
  /** ISO 8601. */
  readonly since: string;
  /** ISO 8601: null while it fails. */
  readonly until: string | null;
  /** It was reported before, and still fails. */
  readonly reminder: boolean;
}

export interface Surroundings {
  readonly host: string;
  readonly version: string;
  /** Makes the line for people. */
  readonly summarise: (notice: Notice | null) => string;
}

/** @param notice null for a heartbeat */
export function messageOf(
  notice: Notice | null,
  ok: boolean,
  now: number,
  { host, version, summarise }: Surroundings,
): NotificationMessage {
  const { failing = [], still = [], recovered = [] } = notice ?? {};
  const bad = [...failing, ...still];
  const worst = bad.every(({ subject }) => isWarning(subject)) ? 'warning' : 'failing';
  return {
    event: bad.length > 0 ? worst : notice === null ? 'alive' : 'recovered',
    ok,
    at: iso(now),
    host,
    version,
    summary: summarise(notice),
    failing: [...failing.map((one) => item(one, false)), ...still.map((one) => item(one, true))],
    recovered: recovered.map((one) => item(one, false)),
  };
}

/** Returns a notification that somebody sends to try a channel. */
export function testMessage(
  now: number,
  { host, version }: Pick<Surroundings, 'host' | 'version'>,
): NotificationMessage {
  return {
    event: 'test',
    ok: true,
    at: iso(now),
    host,
    version,
    summary: `mailkeep on ${host}: this is a test notification. Nothing is wrong.`,
    failing: [],
    recovered: [],
  };
}

function item({ subject, failure, since, wellSince }: Trouble, reminder: boolean): MessageItem {
  return {
    kind: subject.kind,
    name: subject.name,
    code: failure.code,
    message: failure.message,
    since: iso(since),
    until: wellSince === null ? null : iso(wellSince),
    reminder,
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
