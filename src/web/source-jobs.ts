import type { LogReader } from '../archive/log-reader.ts';
import { hasCode, serializeError, type TransferredError } from '../core/errors.ts';
import type { ListedAttachment, MessageId } from '../core/types.ts';
import {
  decodedBody,
  isAttachment,
  type Part,
  partsOf,
  renderText,
} from '../service/message-view.ts';
import { type Criteria, needsBody, sourceTest } from '../service/surface.ts';

const HEADER_BYTES = 262_144;

export const SOURCE_JOBS = {
  /** Finds messages by the criteria that require their sources. */
  match(
    sources: LogReader,
    {
      criteria,
      ids,
      withinMs,
    }: { criteria: Criteria; ids: readonly MessageId[]; withinMs: number },
  ) {
    const test = sourceTest(criteria) ?? (() => true);
    const deadline = performance.now() + withinMs;
    const damaged: number[] = [];
    let why: TransferredError | null = null;
    const read = (position: number): Buffer | null => {
      const id = ids[position] ?? '';
      try {
        return needsBody(criteria)
          ? sources.readMessage(id)
          : sources.readSource(id, HEADER_BYTES).bytes;
      } catch (error) {
        if (!hasCode(error, 'message-damaged') && !hasCode(error, 'blob-damaged')) throw error;
        // Reports all damaged messages, so that the client can exclude them: any of them might match.
        damaged.push(position);
        why ??= serializeError(error);
        return null;
      }
    };
    const isOver = () => performance.now() > deadline;
    /** Null if time ran out. */
    const positions = matchingSources(ids.length, read, test, isOver);
    return { positions, damaged, why };
  },
  text: (sources: LogReader, { id }: { id: MessageId }) => renderText(sources.readMessage(id)),
  attachment: (
    sources: LogReader,
    job: { id: MessageId; listed: readonly ListedAttachment[]; attachmentId: string },
  ): Uint8Array | null =>
    listedAttachment(sources.readMessage(job.id), job.listed, job.attachmentId),
};

type Jobs = typeof SOURCE_JOBS;
type JobOf<K extends keyof Jobs> = { readonly kind: K } & Readonly<Parameters<Jobs[K]>[1]>;
export type SourceJob = { [K in keyof Jobs]: JobOf<K> }[keyof Jobs];
export type ResultOf<Job extends SourceJob> = Awaited<ReturnType<Jobs[Job['kind']]>>;

/**
 * Finds an attachment by its id in the origin's listing; null if no part definitely matches. Parts are matched by
 * position if all agree with the listing. Otherwise type, size and name must be unique, or occur equally often in both.
 */
export function listedAttachment(
  source: Buffer,
  listed: readonly ListedAttachment[],
  id: string,
): Buffer | null {
  const index = listed.findIndex((attachment) => attachment.id === id);
  const attachment = listed[index];
  if (attachment === undefined || listed.filter((other) => other.id === id).length > 1) return null;
  const parts = partsOf(source).filter(isAttachment);
  const sizes = new Map<Part, number>();
  const fits = (part: Part, { contentType, sizeBytes, filename }: ListedAttachment): boolean => {
    if (part.contentType !== contentType.toLowerCase() || part.filename !== filename) return false;
    const size = sizes.get(part) ?? decodedBody(source, part).length;
    sizes.set(part, size);
    return size === sizeBytes;
  };
  const isAligned =
    parts.length === listed.length && parts.every((part, i) => fits(part, listed[i] ?? attachment));
  const candidates = isAligned ? parts : parts.filter((part) => fits(part, attachment));
  const twins = isAligned
    ? listed
    : listed.filter(
        (other) =>
          other.contentType.toLowerCase() === attachment.contentType.toLowerCase() &&
          other.sizeBytes === attachment.sizeBytes &&
          other.filename === attachment.filename,
      );
  const match =
    candidates.length === twins.length ? candidates[twins.indexOf(attachment)] : undefined;
  return match === undefined ? null : decodedBody(source, match);
}

/**
 * Returns null if time ran out, since a partial answer would be wrong. @param read null for a source that never matches
 */
export function matchingSources(
  count: number,
  read: (position: number) => Buffer | null,
  test: (source: Buffer) => boolean,
  isOver: () => boolean,
): number[] | null {
  const positions: number[] = [];
  for (let position = 0; position < count; position += 1) {
    if (isOver()) return null;
    const source = read(position);
    if (source !== null && test(source)) positions.push(position);
  }
  return isOver() ? null : positions;
}
