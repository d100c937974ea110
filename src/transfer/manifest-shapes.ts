import { z } from 'zod';
import { isObject } from '../archive/format.ts';
import { EXPORT_FORMATS, MANIFEST_VERSION } from './export-manifest.ts';

/*
 * Anyone can compute a manifest's hash, so its lines may be forged. Fields that are displayed, stored or used for
 * reading are therefore type-checked.
 */

const text = z.string();
const count = z.int().nonnegative();
const sha256 = text.regex(/^[0-9a-f]{64}$/);
const moment = text.refine((time) => !Number.isNaN(Date.parse(time)));
/** Rejects paths outside the export, which a forged manifest could contain. */
const insidePath = text.refine((path) =>
  path
    .split('/')
    .every((level) => !/^(?:\.{0,2}|.*[\\\0:].*)$/s.test(level.replace(/:2,[A-Za-z]*$/, ''))),
);

interface ManifestSelection {
  readonly query: string | null;
  /** Number of ids, if messages were selected by id. */
  readonly ids?: number;
  /** A string for one name, an array for several; null for all. */
  readonly mailbox: string | readonly string[] | null;
  readonly folder: string | readonly string[] | null;
  readonly deleted: boolean;
  /** Present if the export includes messages deleted from all folders. */
  readonly withDeleted?: true;
}

export const headShape = z.object({
  mailkeep: z.literal(MANIFEST_VERSION),
  format: z.enum(EXPORT_FORMATS),
  /** Last commit in the archive. The hash is empty before the first commit. */
  commit: z.object({ number: count, hash: sha256.or(z.literal('')) }).readonly(),
  /** The exported state; null for the present. */
  asOf: z.object({ number: count, time: moment }).readonly().nullable(),
  selection: z.custom<ManifestSelection>(isObject),
});

/** Describes an export. Contains no times or machine data, so the same state always produces the same bytes. */
export type ManifestHead = Readonly<z.infer<typeof headShape>>;

export const fileShape = z.object({ path: insidePath, sha256, size: count });

export type ManifestFile = Readonly<z.infer<typeof fileShape>>;

const placeShape = z.object({
  mailbox: text,
  folder: text,
  /** Number of earlier folders with the same path. */
  namesake: count.exactOptional(),
  generation: count,
  uid: count,
});

const inMboxShape = z.object({
  offset: count,
  /** Excludes the blank line after the message. */
  length: count,
  /** Length of the header lines added before the source, such as Status. */
  added: count,
  /** True if a line ending was added because the source lacks a final one. */
  lineEndAdded: z.boolean(),
});

export type InMbox = Readonly<z.infer<typeof inMboxShape>>;

export const entryShape = fileShape.extend(placeShape.shape).extend({
  host: text,
  resourceId: text,
  /** Hierarchy delimiter; absent in manifests from earlier versions. */
  delimiter: text.exactOptional(),
  specialUse: text.exactOptional(),
  flags: z.array(text).readonly(),
  date: moment.nullable(),
  firstSeen: moment.nullable(),
  endedAt: moment.nullable(),
  inMbox: inMboxShape.readonly().exactOptional(),
});

export type ManifestEntry = Readonly<z.infer<typeof entryShape>>;

export const missingShape = placeShape.extend({
  id: sha256.nullable(),
  reason: z.enum(['quarantined', 'damaged', 'purged']),
});

/** A selected message missing from the export. */
export type MissingPlace = Readonly<z.infer<typeof missingShape>>;
