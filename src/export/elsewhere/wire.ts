import { z } from 'zod';
import type { OneOrMore } from '../../catalog/folders.ts';
import type { HistoryLine } from '../../catalog/messages.ts';
import type { UnknownName } from '../../catalog/resolve-query.ts';
import { ERROR_FAMILIES, type TransferredError } from '../../core/errors.ts';
import type { Selected, SelectedPlace } from '../../transfer/export-manifest.ts';
import type { NamedFolder } from '../../transfer/export-names.ts';

/**
 * What the node that writes an export asks the one that has the archive, in HTTP:
 * - `POST /selection`: a selection as it was typed and, where it names messages, their ids, a line each. The answer has an
 *   item a line: the head, all folders, all places.
 * - `GET /messages/ID?size=N&from=N`: the source of a message, of so many bytes, from one of them on. All of them were
 *   proven before the first one is sent.
 * - `POST /messages`: the sources of several messages, as `sourcesShape` says
 * - `GET /messages/ID/history`: what happened to a message
 *
 * An answer with another status than 200 has the error that was thrown.
 */
export const SELECTION_PATH = '/selection';

/** Bytes of a line: it has what mail says of itself, such as its subject. */
export const LONGEST_LINE_BYTES = 64 * 1024 * 1024;

/** Which places are exported, as somebody typed it. */
export interface TypedSelection {
  readonly query?: string;
  readonly mailbox?: OneOrMore;
  readonly folder?: OneOrMore;
  readonly deleted?: boolean;
  readonly withDeleted?: boolean;
  readonly asOf?: string;
}

/** @returns a shape that checks the fields that `fields` has, and passes a value on as it is */
function checked<T>(fields: z.ZodRawShape): z.ZodType<T> {
  const shape = z.object(fields);
  return z.custom<T>((value) => shape.safeParse(value).success);
}

const [count, text] = [z.int().min(0), z.string()];
const [maybe, many] = [text.nullable(), z.array(text)];
const hash = z.string().regex(/^[0-9a-f]{64}$/);
const moment = text.refine((time) => !Number.isNaN(Date.parse(time))).nullable();

/** Where several sources are asked for. */
export const SOURCES_PATH = '/messages';

/** What is asked of it: see `batchItem` for the answer. What cannot be read is absent, and has to be asked for alone. */
export const sourcesShape = z.array(z.object({ id: hash, size: count.max(1 << 20) })).max(1_000);

const choices = {
  query: text.optional(),
  ...{ mailbox: z.union([text, many]).optional(), folder: z.union([text, many]).optional() },
  ...{ deleted: z.boolean().optional(), withDeleted: z.boolean().optional() },
  asOf: text.optional(),
};

/** The first line of what is asked. */
export const askedShape = z.object({
  typed: checked<TypedSelection>(choices),
  /** Whether ids of messages follow. */
  named: z.boolean(),
});

const folder = {
  ...{ host: text, mailbox: text, address: text, path: text, delimiter: text },
  namesake: count.optional(),
};
const place = {
  line: z.object({
    ...{ id: hash.nullable(), mailbox: text, folder: text, uid: count, flags: many, size: count },
    ...{ date: moment, subject: maybe, messageId: maybe, firstSeen: moment, endedAt: moment },
    from: z.object({ name: text, address: text }).nullable(),
  }),
  folder: z.object({ ...folder, specialUse: maybe, namesake: count }),
  ...{ generation: count, docid: count },
};
const head = {
  commit: z.object({ number: count, hash: text }),
  asOf: z.object({ number: count, time: text }).nullable(),
  selection: z.object({
    ...{ query: maybe, ids: count.optional(), deleted: z.boolean() },
    ...{ mailbox: z.union([maybe, many]), folder: z.union([maybe, many]) },
    withDeleted: z.literal(true).optional(),
  }),
};
const unknownName = {
  kind: z.enum(['folder', 'mailbox', 'account', 'message']),
  ...{ found: text, suggestion: maybe, candidates: many, never: z.boolean() },
};

/** A line of the answer to a selection. */
export const selectionLineShape = z.union([
  z.object({ place: checked<SelectedPlace>(place) }),
  z.object({ folder: checked<NamedFolder>(folder) }),
  z.object({
    head: checked<Selected>(head),
    /** Names in the query that are not known. */
    unknown: z.array(checked<UnknownName>(unknownName)),
  }),
]);
export type SelectionLine = z.output<typeof selectionLineShape>;

export const historyShape = z.array(
  checked<HistoryLine>({
    ...{ time: moment, commit: count, event: text, id: hash, mailbox: text, folder: text },
    ...{ generation: count, uid: count, flags: many.optional() },
  }),
);

const fact = z.union([text, z.number(), z.boolean(), z.null(), many]);
export const thrownShape = z.object({
  thrown: checked<TransferredError>({
    ...{ message: text, code: text },
    ours: z.object({ family: z.enum(ERROR_FAMILIES), facts: z.record(text, fact) }).optional(),
  }),
});
