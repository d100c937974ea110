import { z } from 'zod';
import { statusRefusal } from '../../mailbox-surface/refusal.ts';
import { type Random, randomFrom } from '../seed/random.ts';

/** Which requests a fault meets, and how often. */
const target = {
  /** Operation id; `*` for every one. */
  operation: z.string().default('*'),
  /** Share of the requests, decided by a seeded draw. */
  probability: z.number().min(0).max(1).optional(),
  /** The requests that are met, counted from 1 since the rule was made. */
  schedule: z.array(z.int().min(1)).optional(),
  /** Every n-th request. */
  every: z.int().min(1).optional(),
  /** The rule ends after so many hits. */
  times: z.int().min(1).optional(),
};

const mailboxChange = {
  /** Resource id or address; the mailbox of the request where it is left out. */
  mailbox: z.string().optional(),
  /** Folder path; the folder of the request where it is left out. */
  folder: z.string().optional(),
  ...target,
};

/**
 * A fault on request. Without probability, schedule or every it meets all requests of its operation.
 * The kinds `arrive`, `move`, `vanish` and `renumber` change the mailbox right after the answer was made, so
 * that the next page of a walk meets another folder.
 */
export const faultRule = z.discriminatedUnion('kind', [
  /** An error in the envelope of the surface; `retryAfter` in seconds. */
  z.object({
    kind: z.literal('status'),
    status: z.literal([400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504]),
    code: z.string().optional(),
    retryAfter: z.number().min(0).optional(),
    ...target,
  }),
  /** The operation is carried out, and its answer has status 202: it completes asynchronously. */
  z.object({ kind: z.literal('accepted'), ...target }),
  /** The connection is closed without an answer. */
  z.object({ kind: z.literal('close'), ...target }),
  /**
   * The body ends early: `declared` with the full Content-Length, then the connection breaks; `chunked`
   * without a length, then the connection breaks; `silent` a clean end that nothing but the size gives away.
   */
  z.object({
    kind: z.literal('cut'),
    mode: z.enum(['declared', 'chunked', 'silent']).default('declared'),
    /** Share of the body that is sent. */
    keep: z.number().min(0).max(1).default(0.5),
    ...target,
  }),
  /** The body comes in pieces over this time. */
  z.object({ kind: z.literal('slow'), overMs: z.int().min(1).default(1000), ...target }),
  /** A body that is no JSON, under a JSON type. */
  z.object({ kind: z.literal('broken-json'), ...target }),
  /** A maintenance page with status 200 instead of the answer. */
  z.object({ kind: z.literal('html-page'), ...target }),
  /** `pagination.total` is off by this. */
  z.object({ kind: z.literal('wrong-total'), by: z.int().default(1), ...target }),
  /** Every `size` in a listing is off by this. */
  z.object({ kind: z.literal('wrong-size'), by: z.int().default(1), ...target }),
  /** New mail arrives. */
  z.object({ kind: z.literal('arrive'), count: z.int().min(1).default(1), ...mailboxChange }),
  /** Messages move away: the newest, or those of `uids`. */
  z.object({
    kind: z.literal('move'),
    uids: z.array(z.int().min(1)).optional(),
    to: z.string(),
    ...mailboxChange,
  }),
  /** Messages are deleted: the newest, or those of `uids`. */
  z.object({
    kind: z.literal('vanish'),
    uids: z.array(z.int().min(1)).optional(),
    ...mailboxChange,
  }),
  /** The folder is made again: the same messages under new uids from `firstUid` on. */
  z.object({ kind: z.literal('renumber'), firstUid: z.int().min(1).default(1), ...mailboxChange }),
]);
export type FaultRule = z.output<typeof faultRule>;
export type FaultInput = z.input<typeof faultRule>;
export type MailboxFault = Extract<FaultRule, { kind: 'arrive' | 'move' | 'vanish' | 'renumber' }>;
/** Faults of the answer itself. */
export type ReplyFault = Exclude<FaultRule, MailboxFault>;

/** The faults of one request, by what they concern. */
export interface StruckFaults {
  readonly ofReply: readonly ReplyFault[];
  readonly ofMailbox: readonly MailboxFault[];
}

/** A rule and how often it was looked at and struck. */
export interface ActiveFault {
  readonly id: number;
  readonly rule: FaultRule;
  readonly seen: number;
  readonly hits: number;
}

/** The faults that were asked for. Draws come from a seed, so that a run can be had again. */
export class Faults {
  readonly #active: { id: number; rule: FaultRule; seen: number; hits: number }[] = [];
  readonly #random: Random;
  #nextId = 1;

  constructor(seed: number) {
    this.#random = randomFrom(seed, 'faults');
  }

  /** @returns the rule's id. @throws ZodError for what is no rule */
  add(input: unknown): number {
    const rule = faultRule.parse(input);
    const id = this.#nextId;
    this.#nextId += 1;
    this.#active.push({ id, rule, seen: 0, hits: 0 });
    return id;
  }

  list(): ActiveFault[] {
    return this.#active.map((fault) => ({ ...fault }));
  }

  clear(): void {
    this.#active.length = 0;
  }

  /**
   * The rules that strike this request, oldest first.
   *
   * @throws Refusal where a rule is a status
   */
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
