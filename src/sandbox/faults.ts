import { z } from 'zod';
import { statusRefusal } from '../service/surface.ts';
import { type Random, randomFrom } from './generated-mail.ts';
import type { RateBlock, ServiceState } from './sandbox.ts';
import type { Folder, Mailbox } from './store.ts';

const target = {
  operation: z.string().default('*'),
  /** Fraction of requests to affect, from 0 to 1. Drawn with the sandbox's seed. */
  probability: z.number().min(0).max(1).optional(),
  /** Numbers of the requests to affect, counted from 1 since the rule was added. */
  schedule: z.array(z.int().min(1)).optional(),
  every: z.int().min(1).optional(),
  times: z.int().min(1).optional(),
};

const mailboxChange = {
  /** Resource id or address. Default: the request's mailbox. */
  mailbox: z.string().optional(),
  /** Path. Default: the request's folder. */
  folder: z.string().optional(),
  ...target,
};

/**
 * A fault rule. Without `probability`, `schedule` or `every`, it affects all requests for its operation. `arrive`,
 * `move`, `vanish` and `renumber` change the mailbox just after a response was created, so that the folder has changed
 * by the next page.
 */
const faultRule = z.discriminatedUnion('kind', [
  /** An error in the API's envelope. `retryAfter` is in seconds. */
  z.object({
    kind: z.literal('status'),
    status: z.literal([400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504]),
    code: z.string().optional(),
    retryAfter: z.number().min(0).optional(),
    ...target,
  }),
  /** Runs the operation, but responds with 202 as if it were still in progress. */
  z.object({ kind: z.literal('accepted'), ...target }),
  z.object({ kind: z.literal('close'), ...target }),
  /**
   * Truncates the body. `declared` sends the full Content-Length and then breaks the connection. `chunked` sends no
   * length and breaks the connection. `silent` ends cleanly, so that only the size reveals the truncation.
   */
  z.object({
    kind: z.literal('cut'),
    mode: z.enum(['declared', 'chunked', 'silent']).default('declared'),
    keep: z.number().min(0).max(1).default(0.5),
    ...target,
  }),
  z.object({ kind: z.literal('slow'), overMs: z.int().min(1).default(1000), ...target }),
  z.object({ kind: z.literal('broken-json'), ...target }),
  z.object({ kind: z.literal('html-page'), ...target }),
  z.object({ kind: z.literal('wrong-total'), by: z.int().default(1), ...target }),
  z.object({ kind: z.literal('wrong-size'), by: z.int().default(1), ...target }),
  z.object({ kind: z.literal('arrive'), count: z.int().min(1).default(1), ...mailboxChange }),
  /** Moves the messages in `uids`, or the newest message by default. */
  z.object({
    kind: z.literal('move'),
    uids: z.array(z.int().min(1)).optional(),
    to: z.string(),
    ...mailboxChange,
  }),
  /** Deletes the messages in `uids`, or the newest message by default. */
  z.object({
    kind: z.literal('vanish'),
    uids: z.array(z.int().min(1)).optional(),
    ...mailboxChange,
  }),
  /** Renumbers the messages from `firstUid`, as if the folder had been recreated. */
  z.object({ kind: z.literal('renumber'), firstUid: z.int().min(1).default(1), ...mailboxChange }),
]);
type FaultRule = z.output<typeof faultRule>;
export type FaultInput = z.input<typeof faultRule>;
type MailboxFault = Extract<FaultRule, { kind: 'arrive' | 'move' | 'vanish' | 'renumber' }>;
export type ReplyFault = Exclude<FaultRule, MailboxFault>;

interface StruckFaults {
  readonly ofReply: readonly ReplyFault[];
  readonly ofMailbox: readonly MailboxFault[];
}

/** Holds the active fault rules. Random draws use the sandbox's seed, so that runs are repeatable. */
export class Faults {
  readonly #active: { id: number; rule: FaultRule; seen: number; hits: number }[] = [];
  readonly #random: Random;
  #nextId = 1;

  constructor(seed: number) {
    this.#random = randomFrom(seed, 'faults');
  }

  /** @returns the rule's id. @throws ZodError for an invalid rule */
  add(input: unknown): number {
    const rule = faultRule.parse(input);
    const id = this.#nextId;
    this.#nextId += 1;
    this.#active.push({ id, rule, seen: 0, hits: 0 });
    return id;
  }

  list() {
    return this.#active.map((fault) => ({ ...fault }));
  }

  clear(): void {
    this.#active.length = 0;
  }

  /** Returns the faults for a request, oldest rule first. @throws Refusal for a rule of kind `status` */
  strike(operation: string): StruckFaults {
    if (this.#active.length === 0) return NONE;
    const struck: FaultRule[] = [];
    for (const fault of this.#active) {
      const { rule } = fault;
      if (rule.operation !== '*' && rule.operation !== operation) continue;
      if (rule.times !== undefined && fault.hits >= rule.times) continue;
      fault.seen += 1;
      if (rule.schedule !== undefined && !rule.schedule.includes(fault.seen)) continue;
      if (rule.every !== undefined && fault.seen % rule.every !== 0) continue;
      if (rule.probability !== undefined && this.#random.unit() >= rule.probability) continue;
      fault.hits += 1;
      struck.push(rule);
    }
    const status = struck.find((rule) => rule.kind === 'status');
    if (status !== undefined) throw statusRefusal(status.status, status.code, status.retryAfter);
    const ofMailbox = struck.filter(isMailboxFault);
    return { ofReply: struck.filter((rule) => !isMailboxFault(rule)), ofMailbox };
  }
}

const NONE: StruckFaults = { ofReply: [], ofMailbox: [] };

function isMailboxFault(rule: FaultRule): rule is MailboxFault {
  return ['arrive', 'move', 'vanish', 'renumber'].includes(rule.kind);
}

/** Adds new mail to a folder and notifies webhooks. @returns its uid */
export function deliver(
  service: ServiceState,
  mailbox: Mailbox,
  folder: Folder,
  source: Buffer,
  flags: readonly string[] = [],
  received: number = service.now(),
): number {
  const uid = service.store.add(folder, source, received, flags);
  service.store.announce(mailbox, folder, uid);
  return uid;
}

/**
 * Changes a mailbox without the client's knowledge. Does nothing if the mailbox or folder is missing.
 *
 * @param place mailbox and folder of the request, for faults that specify neither
 */
export function applyMailboxFault(
  service: ServiceState,
  fault: MailboxFault,
  place: { readonly mailbox: string | undefined; readonly folder?: string | undefined },
): void {
  const mailbox = findMailbox(service, fault.mailbox ?? place.mailbox ?? '');
  const folder = mailbox?.folders.get(fault.folder ?? place.folder ?? 'INBOX');
  if (mailbox === null || folder === undefined) return;
  const { store } = service;
  switch (fault.kind) {
    case 'arrive':
      for (let count = 0; count < fault.count; count += 1) {
        deliver(service, mailbox, folder, placeholderMail(mailbox, folder.nextUid, service.now()));
      }
      return;
    case 'move': {
      const target = store.folderFor(mailbox, fault.to);
      for (const uid of fault.uids ?? [folder.lastUid]) store.move(folder, uid, target);
      return;
    }
    case 'vanish':
      for (const uid of fault.uids ?? [folder.lastUid]) store.remove(folder, uid);
      return;
    case 'renumber':
      store.renumber(folder, fault.firstUid);
      return;
  }
}

export function findMailbox(service: ServiceState, name: string): Mailbox | null {
  return service.store.mailboxes.get(name) ?? service.store.mailboxByAddress(name);
}

function placeholderMail(mailbox: Mailbox, uid: number, nowMs: number): Buffer {
  return Buffer.from(
    [
      'From: Somebody <somebody@example.net>',
      `To: ${mailbox.address}`,
      `Subject: New mail ${uid}`,
      `Date: ${new Date(nowMs).toUTCString().replace('GMT', '+0000')}`,
      `Message-ID: <arrived.${uid}.${nowMs}@example.net>`,
      '',
      'This came while somebody was looking.',
      '',
    ].join('\r\n'),
  );
}

/** A logged request, without addresses, subjects or tokens. */
interface LoggedRequest {
  readonly at: string;
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly durationMs: number;
}

const KEPT = 1000;

export class RequestLog {
  readonly #outcomes = new Map<string, number>();
  readonly #last: LoggedRequest[] = [];

  /** Starts timing a request. Call the returned function once to log the request with its status. */
  begin(
    request: Pick<LoggedRequest, 'operation' | 'method' | 'path'>,
    now: () => number,
  ): (status: number) => void {
    const started = performance.now();
    return (status) => {
      const durationMs = Math.round((performance.now() - started) * 1000) / 1000;
      this.#record({ at: new Date(now()).toISOString(), ...request, status, durationMs });
    };
  }

  /**
   * Counts answered requests, except those to the control endpoint. Keys combine operation and status, such as
   * `getMessageSource 429`. A status of 0 means that a fault broke the connection.
   */
  counts() {
    let total = 0;
    const byOperation: Record<string, number> = {};
    const byStatus: Record<string, number> = {};
    for (const [outcome, count] of this.#outcomes) {
      const [operation = '', status = ''] = outcome.split(' ');
      total += count;
      byOperation[operation] = (byOperation[operation] ?? 0) + count;
      byStatus[status] = (byStatus[status] ?? 0) + count;
    }
    return { total, byOperation, byStatus, byOutcome: Object.fromEntries(this.#outcomes) };
  }

  /** Oldest first. */
  last(): LoggedRequest[] {
    return [...this.#last];
  }

  reset(): void {
    this.#outcomes.clear();
    this.#last.length = 0;
  }

  #record(line: LoggedRequest): void {
    const outcome = `${line.operation} ${line.status}`;
    this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + 1);
    this.#last.push(line);
    if (this.#last.length > KEPT) this.#last.shift();
  }
}

const WINDOW_MS = 60_000;

/** Allows `limit` requests per key, such as a token or address, in any 60-second window. */
export class RateWindow {
  readonly #times = new Map<string, number[]>();

  constructor(readonly limit: number) {}

  /** Counts a request. Returns false without counting it if the limit has been reached. */
  take(key: string, now: number): boolean {
    const times = this.#recent(key, now);
    if (times.length >= this.limit) return false;
    times.push(now);
    return true;
  }

  state(key: string, now: number) {
    const times = this.#recent(key, now);
    const remaining = this.limit - times.length;
    const waitMs = remaining > 0 ? 0 : (times[0] ?? now) + WINDOW_MS - now;
    return { remaining, retryAfter: Math.ceil(waitMs / 1000) };
  }

  #recent(key: string, now: number): number[] {
    const times = (this.#times.get(key) ?? []).filter((time) => time + WINDOW_MS > now);
    this.#times.set(key, times);
    return times;
  }
}

export type RateAnswer = ReturnType<RequestRate['take']>;

/** @param perMinute null for no limit */
export function openRate(perMinute: number | null, block: RateBlock | null): RequestRate | null {
  return perMinute === null ? null : new RequestRate(perMinute, block);
}

/** Limits requests per minute, and blocks addresses that ignore refusals. */
export class RequestRate {
  readonly #window: RateWindow;
  readonly #offenders = new Map<string, { refusals: number; blockedUntil: number }>();

  constructor(
    perMinute: number,
    private readonly block: RateBlock | null,
  ) {
    this.#window = new RateWindow(perMinute);
  }

  /** Returns how many more seconds an address is blocked, or 0. */
  blockedFor(address: string, now: number): number {
    const until = this.#offenders.get(address)?.blockedUntil ?? 0;
    return Math.max(0, Math.ceil((until - now) / 1000));
  }

  /**
   * Counts a request. A request from a blocked address does not extend the block.
   *
   * @param key subject of the limit, such as a token; default: the address
   * @returns `retryAfter` in seconds, until the limit or block ends
   */
  take(address: string, now: number, key = address) {
    const { limit } = this.#window;
    const before = this.blockedFor(address, now);
    const allowed = before === 0 && this.#window.take(key, now);
    if (allowed) this.#offenders.delete(address);
    const block = allowed || before > 0 ? before : this.#refused(address, now);
    if (block > 0) return { allowed, blocked: true, limit, remaining: 0, retryAfter: block };
    return { allowed, blocked: false, limit, ...this.#window.state(key, now) };
  }

  /** Returns how many seconds this refusal blocks the address, or 0. */
  #refused(address: string, now: number): number {
    if (this.block === null) return 0;
    const offender = this.#offenders.get(address) ?? { refusals: 0, blockedUntil: 0 };
    offender.refusals += 1;
    this.#offenders.set(address, offender);
    if (offender.refusals < this.block.refusals) return 0;
    offender.refusals = 0;
    offender.blockedUntil = now + this.block.forMs;
    return Math.ceil(this.block.forMs / 1000);
  }
}
