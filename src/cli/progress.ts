import type { SingleBar } from 'cli-progress';
import type { Settings } from '../core/config-schema.ts';
import { displayWidth, fitColumns } from '../core/terminal-safe.ts';
import { bytes, count, counted, localTime, span } from '../core/text.ts';
import type { EventLog } from '../daemon/runs.ts';
import { type Forecast, hoursOf } from '../sync/plan/plan-folder.ts';
import type { ProgressListener, SyncProgress } from '../sync/result.ts';
import type { CommandContext } from './context.ts';
import { displayName, fitNarrow, joinReport } from './output.ts';
import type { Notices } from './warnings.ts';

type EventOf<Name extends SyncProgress['event']> = Extract<SyncProgress, { event: Name }>;
type Stored = Omit<EventOf<'stored'>, 'event'>;
type Waiting = Pick<EventOf<'waiting'>, 'account' | 'until' | 'reason'>;

interface MailboxTally extends Stored {
  /** Number of messages to fetch, as of the folder listing when its sync started. */
  readonly ahead: number;
  readonly finished: boolean;
}

interface Sample {
  readonly at: number;
  readonly messages: number;
  readonly bytes: number;
}

export interface ProgressTally {
  readonly startedAt: number;
  /** Keyed by account and address, in the order they started. */
  readonly mailboxes: ReadonlyMap<string, MailboxTally>;
  readonly requests: ReadonlyMap<string, number>;
  /** Current request limit per minute, by account. */
  readonly perMinute: ReadonlyMap<string, number>;
  /** Forecast by account, including mailboxes that have not started. */
  readonly forecast: ReadonlyMap<string, number>;
  readonly waiting: Waiting | null;
  readonly indexing: Pick<EventOf<'indexing'>, 'indexed' | 'remaining'> | null;
  /** Messages stored over the last minute: at most one sample per second, oldest first. */
  readonly samples: readonly Sample[];
}

export function emptyTally(startedAt: number): ProgressTally {
  const counts = { mailboxes: new Map(), requests: new Map(), perMinute: new Map() };
  return { startedAt, ...counts, forecast: new Map(), waiting: null, indexing: null, samples: [] };
}

export function updateTally(tally: ProgressTally, event: SyncProgress, now: number): ProgressTally {
  switch (event.event) {
    case 'mailbox-started': {
      const { account, address, messages: ahead } = event;
      const mailbox = { account, address, ahead, messages: 0, bytes: 0, finished: false };
      return withMailbox(tally, mailbox);
    }
    case 'stored': {
      const before = tally.mailboxes.get(mailboxKey(event));
      const { account, address, messages, bytes } = event;
      const ahead = Math.max(before?.ahead ?? 0, messages);
      const mailbox = { account, address, ahead, messages, bytes, finished: false };
      return addSample(withMailbox({ ...tally, waiting: null }, mailbox), now);
    }
    case 'mailbox-finished': {
      const before = tally.mailboxes.get(mailboxKey(event));
      return before === undefined ? tally : withMailbox(tally, { ...before, finished: true });
    }
    case 'requests': {
      const { account } = event;
      const requests = new Map(tally.requests).set(account, event.requests);
      const perMinute = new Map(tally.perMinute).set(account, event.perMinute);
      return { ...tally, requests, perMinute };
    }
    case 'waiting': {
      const { account, until, reason } = event;
      return { ...tally, waiting: { account, until, reason } };
    }
    case 'indexing':
      return { ...tally, indexing: { indexed: event.indexed, remaining: event.remaining } };
    case 'forecast': {
      const forecast = new Map(tally.forecast).set(event.account, event.forecast.messages);
      return { ...tally, forecast };
    }
    case 'sealing':
      return tally;
  }
}

export function sumOf(tally: ProgressTally) {
  const mailboxes = [...tally.mailboxes.values()];
  return {
    ahead: Math.max(total(mailboxes.map(({ ahead }) => ahead)), total(tally.forecast.values())),
    messages: total(mailboxes.map(({ messages }) => messages)),
    bytes: total(mailboxes.map(({ bytes }) => bytes)),
    requests: total(tally.requests.values()),
  };
}

function total(numbers: Iterable<number>): number {
  return [...numbers].reduce((sum, number) => sum + number, 0);
}

/** Minimum period for a meaningful speed. */
const MIN_MS = 5_000;
const WINDOW_MS = 60_000;
const SAMPLE_EVERY_MS = 1_000;

function addSample(tally: ProgressTally, now: number): ProgressTally {
  const last = tally.samples.at(-1);
  if (last !== undefined && now - last.at < SAMPLE_EVERY_MS) return tally;
  const recent = tally.samples.filter(({ at }) => now - at <= WINDOW_MS);
  const { messages, bytes } = sumOf(tally);
  return { ...tally, samples: [...recent, { at: now, messages, bytes }] };
}

/** Returns what was stored per second over the last minute, or null during the first few seconds. */
export function storedPerSecond(
  tally: ProgressTally,
  now: number,
): { readonly messages: number; readonly bytes: number } | null {
  const [first] = tally.samples.filter(({ at }) => now - at <= WINDOW_MS);
  if (first === undefined || now - first.at < MIN_MS) return null;
  const { messages, bytes } = sumOf(tally);
  if (messages <= first.messages) return null;
  const perSecond = (stored: number) => (stored / (now - first.at)) * 1000;
  return {
    messages: perSecond(messages - first.messages),
    bytes: perSecond(bytes - first.bytes),
  };
}

/** Returns the estimated milliseconds left, based on the last minute's speed and the rate limits; null if unknown. */
export function timeLeft(tally: ProgressTally, now: number): number | null {
  const speed = storedPerSecond(tally, now)?.messages ?? null;
  if (speed === null) return null;
  const { ahead, messages } = sumOf(tally);
  const limits = [...tally.perMinute].map(([account, perMinute]) =>
    perMinute > 0 ? (aheadOf(tally, account) / perMinute) * 60_000 : 0,
  );
  return Math.max((Math.max(0, ahead - messages) / speed) * 1000, ...limits);
}

/** Returns the number of an account's messages that are not yet stored. */
function aheadOf(tally: ProgressTally, account: string): number {
  const own = [...tally.mailboxes.values()].filter((mailbox) => mailbox.account === account);
  const expected = Math.max(total(own.map(({ ahead }) => ahead)), tally.forecast.get(account) ?? 0);
  return Math.max(0, expected - total(own.map(({ messages }) => messages)));
}

function withMailbox(tally: ProgressTally, mailbox: MailboxTally): ProgressTally {
  return { ...tally, mailboxes: new Map(tally.mailboxes).set(mailboxKey(mailbox), mailbox) };
}

function mailboxKey(at: { readonly account: string; readonly address: string }): string {
  return `${at.account}/${at.address}`;
}

/** Duration above which to suggest a faster rate. */
const LONG_MS = 600_000;

/** Describes a first sync before it starts. */
export function forecastText(ahead: Forecast): string {
  const lines = [
    `To fetch: ${placesText(ahead.messages)}${ahead.bytes === 0 ? '' : `, about ${bytes(ahead.bytes)},`} in ${counted(ahead.folders, 'folder')} of ${counted(ahead.mailboxes, 'mailbox', 'mailboxes')}.`,
    joinReport([
      timeText(ahead),
      'Newest messages come first; interrupt whenever you like, the next sync continues.',
    ]).join(' '),
  ];
  if (isLong(ahead) && ahead.traffic === undefined) {
    lines.push(
      'To be faster, raise rateLimit.requestsPerMinute. Your provider knows what the service allows; where it refuses requests, mailkeep slows down, and "mailkeep status" shows the rate that it learned.',
    );
  }
  return lines.join('\n');
}

/** Returns a number of messages, and states how copies in several folders are counted. */
export function placesText(messages: number): string {
  return `${counted(messages, 'message')}${messages > 1 ? ' (counted once per folder)' : ''}`;
}

/** Above this rate, the speed depends on the service and this machine, and is not known in advance. */
const PACED_PER_MINUTE = 1_200;

/** Shorter durations say nothing. */
const WORTH_MS = 1_000;

/** Describes the requests or bytes of a first sync, and its duration if a limit or an earlier sync determines that. */
export function timeText({
  requests,
  requestsPerMinute,
  hours,
  messages = 0,
  bytes: size,
  traffic,
}: Pick<Forecast, 'requests' | 'requestsPerMinute' | 'hours'> &
  Partial<Pick<Forecast, 'messages' | 'traffic'>> & {
    /** Undefined or 0 if unknown. */
    readonly bytes?: number | undefined;
  }): string {
  const sum = `That is ${counted(requests, 'request')}`;
  if (traffic === undefined) {
    if (requestsPerMinute > PACED_PER_MINUTE) return `${sum}.`;
    return `${sum}: about ${span(hours * 3_600_000)} at ${count(Math.floor(requestsPerMinute))} a minute.`;
  }
  const { limit, speed } = traffic;
  const known = { messages: requests > 0 ? 0 : messages, bytes: size ?? 0 };
  const ms = hoursOf(known, traffic) * 3_600_000;
  const isLimited = limit !== null && messages > 0 && (!size || size > limit);
  return joinReport([
    requests > 0 && `${sum} to accounts with an API.`,
    requests > 0 && known.bytes > 0 && `Over IMAP, it is about ${bytes(known.bytes)}.`,
    ms >= WORTH_MS &&
      `That takes about ${span(ms)}${speed === null ? '' : `; an earlier sync fetched ${speedText(speed)}`}.`,
    ms < WORTH_MS && messages > 0 && speed === null && 'The duration depends on the server.',
    isLimited && `At most ${bytes(limit)} are exchanged a day (imap.maxBytesPerDay).`,
  ]).join(' ');
}

/** Returns text such as `210 messages and 1.3 MB a second`. */
function speedText(speed: { readonly messages: number; readonly bytes: number }): string {
  return `${rateText(speed.messages)} messages and ${bytes(speed.bytes)} a second`;
}

export function isLong({ hours }: Forecast): boolean {
  return hours * 3_600_000 > LONG_MS;
}

/** Returns text such as `1,200 of 3,400 messages`. */
function storedText({ messages, ahead }: Pick<MailboxTally, 'messages' | 'ahead'>): string {
  return `${count(messages)} of ${counted(ahead, 'message')}`;
}

/**
 * Returns text such as `1,300 requests, 58 a minute (budget 60)`. The budget is an account's current rate. False if no
 * account limits requests.
 */
function requestsText(tally: ProgressTally, now: number): string | false {
  const elapsed = now - tally.startedAt;
  const limited = [...tally.requests].filter(([name]) => tally.perMinute.get(name) !== 0);
  if (limited.length === 0 && tally.requests.size > 0) return false;
  const requests = total(limited.map(([, sent]) => sent));
  const rate = elapsed < 1_000 ? requests : (requests / elapsed) * 60_000;
  const budget = Math.max(0, ...tally.perMinute.values());
  const suffix = budget === 0 ? '' : ` (budget ${count(Math.floor(budget))})`;
  return `${counted(requests, 'request')}, ${count(rate)} a minute${suffix}`;
}

export function waitingText({ until, reason }: Waiting, now: number): string {
  const wait = span(Math.max(0, until - now));
  return {
    rate: `waiting ${wait} for the request budget`,
    'retry-after': `the server asked to wait ${wait}`,
    paused: `paused until ${localTime(until)}: the server keeps refusing`,
  }[reason];
}

export function summaryLine(tally: ProgressTally, now: number): string {
  const open = openMailboxes(tally);
  const names = open.slice(0, 2).map(({ address }) => displayName(address));
  const { waiting } = tally;
  return joinReport([
    workText(tally) ?? fetchedText(tally, now),
    requestsText(tally, now),
    names.length > 0 && names.join(' and '),
    waiting !== null && waiting.until > now && waitingText(waiting, now),
  ]).join('; ');
}

/** Returns descriptions of the overall state, from the most detailed to the shortest. */
export function sumTexts(tally: ProgressTally, now: number): readonly string[] {
  const { waiting } = tally;
  const isWaiting = waiting !== null && waiting.until > now;
  const done = storedText(sumOf(tally));
  const work = isWaiting ? `${waitingText(waiting, now)}; ${done}` : workText(tally);
  if (work !== null) return [work];
  const left = timeLeft(tally, now);
  const stored = fetchedText(tally, now);
  return [
    `all  ${joinReport([stored, requestsText(tally, now)]).join('; ')}`,
    `all  ${stored}`,
    `all  ${joinReport([done, left !== null && `${span(left)} left`]).join(', ')}`,
  ];
}

/** Returns descriptions of a mailbox's state, from the most detailed to the shortest. */
function mailboxTexts(mailbox: MailboxTally, columns: number): readonly string[] {
  const stored = storedText(mailbox);
  const address = displayName(mailbox.address);
  return [
    `${address}  ${stored}, ${bytes(mailbox.bytes)}`,
    // Cuts the address only, because the numbers change.
    `${fitColumns(address, Math.max(1, columns - displayWidth(stored) - 2))}  ${stored}`,
  ];
}

/** Reports whether an account limits requests. */
function isPaced({ perMinute }: ProgressTally): boolean {
  return perMinute.size === 0 || [...perMinute.values()].some((rate) => rate > 0);
}

function rateText(perSecond: number): string {
  return perSecond < 10 ? perSecond.toFixed(1) : count(perSecond);
}

/** Returns text such as `1,200 of 3,400 messages, 12.3 MB, 210/s, 10 s left`. */
function fetchedText(tally: ProgressTally, now: number): string {
  const sum = sumOf(tally);
  const speed = storedPerSecond(tally, now);
  const left = sum.messages < sum.ahead ? timeLeft(tally, now) : null;
  return joinReport([
    storedText(sum),
    bytes(sum.bytes),
    speed !== null && (isPaced(tally) ? `${rateText(speed.messages)}/s` : speedText(speed)),
    left !== null && `${span(left)} left`,
  ]).join(', ');
}

/** Describes the work that remains once everything is fetched; null until then. */
function workText(tally: ProgressTally): string | null {
  const { indexing } = tally;
  const isFetching = tally.mailboxes.size === 0 || openMailboxes(tally).length > 0;
  if (isFetching || indexing === null) return null;
  const { indexed, remaining } = indexing;
  if (remaining === 0) return `${storedText(sumOf(tally))}; reading attachments and tidying up`;
  return `indexing ${count(indexed)} of ${counted(indexed + remaining, 'message')}`;
}

function openMailboxes(tally: ProgressTally): readonly MailboxTally[] {
  return [...tally.mailboxes.values()].filter(({ finished }) => !finished);
}

const SHOWN: readonly SyncProgress['event'][] = ['stored', 'waiting', 'indexing'];
const LINE_EVERY_MS = 10_000;

/** Shows progress as lines, for files, pipes and logs: the forecast, then a line every ten seconds. */
export function plainProgress(notices: Notices, now: () => number): Progress {
  let tally = emptyTally(now());
  let lastLine = now();
  return {
    listen(event) {
      const at = now();
      tally = updateTally(tally, event, at);
      if (event.event === 'forecast') notices.say(forecastText(event.forecast));
      if (!SHOWN.includes(event.event) || at - lastLine < LINE_EVERY_MS) return;
      lastLine = at;
      notices.say(summaryLine(tally, at));
    },
    stop() {},
  };
}

interface Progress {
  readonly listen: ProgressListener;
  stop(): void;
}

/** More bars would scroll off the screen. The total includes all mailboxes. */
const MAX_BARS = 8;
/** Maximum width of a bar; a third of this on an 80-column terminal. */
const BAR_WIDTH = 24;
const MIN_BAR = 8;
/** Typical width of the text when not cut. */
const WORDS = 96;

/** Shows progress bars on a terminal: one per active mailbox, and an overall bar with the request budget. */
export async function liveProgress(notices: Notices, now: () => number): Promise<Progress> {
  // The package is CommonJS: once bundled, a dynamic import has only a default export.
  const loaded: unknown = await import('cli-progress');
  const { MultiBar } = (loaded as { default: typeof import('cli-progress') }).default;
  const screen = new MultiBar({
    stream: notices.stream,
    format: ({ barCompleteString = '', barIncompleteString = '' }, { progress }, { texts }) => {
      // A window can be resized, so the width is read each time. A terminal with no size set reports 0.
      const columns = notices.stream.columns || 80;
      const width = Math.min(BAR_WIDTH, Math.max(MIN_BAR, columns - WORDS));
      const full = Math.round(progress * width);
      const bar = `${barCompleteString.slice(0, full)}${barIncompleteString.slice(0, width - full)}`;
      return `${bar} ${longestFitting(texts, columns - width - 2)}`;
    },
    barsize: BAR_WIDTH,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    hideCursor: true,
    linewrap: true,
    clearOnComplete: true,
    // The command handles signals itself.
    gracefulExit: false,
    fps: 5,
  });
  let stopped = false;
  let tally = emptyTally(now());
  const bars = new Map<string, SingleBar>();
  const all = screen.create(1, 0, { texts: () => ['asking what is there …'] });

  const draw = (): void => {
    for (const [key, mailbox] of tally.mailboxes) {
      const bar = bars.get(key);
      if (mailbox.finished) {
        if (bar !== undefined) screen.remove(bar);
        bars.delete(key);
      } else if (mailbox.ahead > 0 && (bar !== undefined || bars.size < MAX_BARS)) {
        const row = bar ?? screen.create(mailbox.ahead, 0, { texts: () => [] });
        bars.set(key, row);
        row.setTotal(mailbox.ahead);
        row.update(mailbox.messages, {
          texts: (columns: number) => mailboxTexts(mailbox, columns),
        });
      }
    }
    all.setTotal(Math.max(1, sumOf(tally).ahead));
    // The text is created on display, because waits and remaining times change between events.
    all.update(sumOf(tally).messages, { texts: () => sumTexts(tally, now()) });
  };

  return {
    listen(event) {
      tally = updateTally(tally, event, now());
      if (event.event === 'forecast') {
        const text = forecastText(event.forecast);
        screen.log(`${fitNarrow(text, notices.stream.columns)}\n`);
      }
      draw();
    },
    stop() {
      // Stopping twice would clear later output.
      if (!stopped) screen.stop();
      stopped = true;
    },
  };
}

/** Returns the most detailed text that fits. Cuts the shortest one if none does. */
function longestFitting(texts: unknown, columns: number): string {
  const made: unknown = typeof texts === 'function' ? texts(columns) : [];
  const candidates = Array.isArray(made) ? made.map(String) : [];
  const fits = candidates.find((text) => displayWidth(text) <= columns);
  return fits ?? fitColumns(candidates.at(-1) ?? '', columns);
}

export interface SyncRunProgress extends EventLog {
  /** Clears the progress. Call it before printing a result; later calls do nothing. */
  readonly stop: () => void;
}

/**
 * Shows the progress of a sync run on standard error: bars on a terminal, otherwise lines, or nothing if silent.
 * @param logged use a log of JSON Lines instead
 */
export async function followSyncRun(
  { notices, now }: Pick<CommandContext, 'notices' | 'now'>,
  { log }: Settings,
  logged: boolean,
): Promise<SyncRunProgress> {
  if (logged) {
    const { openLog } = await import('../daemon/runs.ts');
    return { ...(await openLog(notices.stream, log.level)), stop: () => {} };
  }
  const show = notices.live ? liveProgress : plainProgress;
  const { listen, stop } = await show(notices, now);
  return { progress: listen, request: () => {}, result: () => {}, stop };
}

/** Shorter work is not shown. */
const QUIET_MS = 1_000;
const REDRAW_MS = 200;
/** Interval between lines that cannot be redrawn. */
const ACTIVITY_LINE_EVERY_MS = 5_000;
const CLEAR_LINE = '\r\u001b[2K';

/**
 * Shows after one second that work is in progress. Redraws a line on a terminal; elsewhere, prints at most one every
 * five seconds. Silent with `--quiet` and `--json`.
 * @param first initial text
 */
export function openActivity(
  { notices, now }: Pick<CommandContext, 'notices' | 'now'>,
  first: string,
) {
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
    /** Sets the current work. `next` is called only when the text is displayed. */
    show(next: () => string): void {
      text = next;
      if (notices.live) {
        // A timer alone would be late if the work blocks the event loop.
        if (now() - (drawnAt ?? 0) >= REDRAW_MS) draw();
        return;
      }
      if (now() - printedAt < ACTIVITY_LINE_EVERY_MS) return;
      printedAt = now();
      notices.say(text());
    },
    /** Clears the line. Call it before printing anything else; later calls do nothing. */
    stop(): void {
      clearInterval(timer);
      if (drawnAt !== null) stream.write(CLEAR_LINE);
      drawnAt = null;
    },
  };
}

/** Returns listeners that show progress while a log is read and indexed. */
export function rebuildProgress(
  { show }: Pick<ReturnType<typeof openActivity>, 'show'>,
  log = 'the log',
) {
  return {
    onFold: ({ messages }: { readonly messages: number }) =>
      show(() => `read ${counted(messages, 'message')} of ${log}`),
    onIndex: ({ indexed, remaining }: { readonly indexed: number; readonly remaining: number }) =>
      show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
  };
}
