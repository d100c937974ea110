import { z } from 'zod';
import { ERROR_FAMILIES, type ErrorFamily, type Facts } from '../errors/mailkeep-error.ts';
import type { SyncPlan } from '../sync/plan-sync.ts';
import type { SyncProgress } from '../sync/progress.ts';
import type { SyncResult } from '../sync/result.ts';

/** Shapes of the events of a pass, as read from the control socket: answers there are not trusted. */
const count = z.number();
const name = z.string();
/** Fields that are all counts. */
const counts = <Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(names.map((field) => [field, count])) as Record<Name, typeof count>;

export const errorFamily: z.ZodType<ErrorFamily> = z.enum(ERROR_FAMILIES);

export const errorFacts: z.ZodType<Facts> = z.record(
  z.string(),
  z.union([z.string(), z.number(), z.boolean(), z.null(), z.array(z.string())]),
);

const forecast = z.object({
  ...counts('mailboxes', 'folders', 'messages', 'bytes'),
  ...counts('requests', 'requestsPerMinute', 'hours'),
});

export const syncProgress: z.ZodType<SyncProgress> = z.discriminatedUnion('event', [
  z.object({ event: z.literal('forecast'), account: name, forecast }),
  z.object({
    event: z.literal('mailbox-started'),
    account: name,
    address: name,
    messages: count,
  }),
  z.object({
    event: z.literal('stored'),
    account: name,
    address: name,
    messages: count,
    bytes: count,
  }),
  z.object({ event: z.literal('mailbox-finished'), account: name, address: name }),
  z.object({
    event: z.literal('requests'),
    account: name,
    ...counts('requests', 'perMinute'),
  }),
  z.object({
    event: z.literal('waiting'),
    account: name,
    until: count,
    reason: z.enum(['rate', 'retry-after', 'paused']),
  }),
  z.object({ event: z.literal('indexing'), indexed: count, remaining: count }),
  z.object({ event: z.literal('sealing'), segment: count }),
]);

const mailboxResult = z.object({
  address: name,
  ...counts('folders', 'added', 'ended', 'flagsChanged', 'relinked', 'verified', 'corrected'),
  ...counts('quarantined', 'held'),
  heldUntil: name.nullable(),
  ...counts('bytes', 'compared'),
  comparison: z.enum(['all', 'some', 'none']),
});

const failure = z.object({
  account: name,
  mailbox: name.nullable(),
  folder: name.nullable(),
  uid: count.nullable(),
  family: errorFamily,
  code: z.string(),
  facts: errorFacts,
});

const certificate = z.object({
  mailbox: name,
  folder: name,
  ...counts('originTotal', 'stored', 'assumed', 'quarantined', 'held', 'forgotten'),
  complete: z.boolean(),
});

export const syncResult: z.ZodType<SyncResult> = z.object({
  mailboxes: z.array(mailboxResult),
  requests: count,
  requestsByOperation: z.record(z.string(), count),
  timings: z.object({ fetchMs: count, indexMs: count }),
  durationMs: count,
  failures: z.array(failure),
  certificates: z.array(certificate),
  excluded: z.array(z.object({ mailbox: name, folder: name })),
});

const folderPlan = z.object({
  folder: name,
  action: z.enum(['nothing', 'look', 'search', 'walk', 'sweep']),
  reason: z.enum([
    'empty',
    'new-folder',
    'interrupted',
    'fewer-at-origin',
    'more-at-origin',
    'unread-differs',
    'full',
    'newest-page',
  ]),
  messages: count,
  requests: count,
});

export const syncPlan: z.ZodType<SyncPlan> = z.object({
  mailboxes: z.array(
    z.object({
      account: name,
      address: name,
      folders: z.array(folderPlan),
      excluded: z.array(name),
    }),
  ),
  ...counts('messages', 'requests', 'requestsPerMinute', 'hours'),
});
