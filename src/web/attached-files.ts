import type { SearchHit } from '../catalog/search.ts';
import type { AttachmentLine } from '../mail/identity.ts';

/** An attachment that is saved with others. */
export interface SavedFile extends Pick<AttachmentLine, 'number' | 'filename' | 'size'> {
  /** The message that has it. */
  readonly id: string;
  readonly date: string | null;
}

/** An attachment of a conversation. */
interface AttachedFile extends AttachmentLine, SavedFile {}

/** Attachments that are saved as one file, and their bytes, at most. */
export const MOST_FILES = 500;
export const MOST_TOGETHER = 500_000_000;

/** Returns the attachments of messages that do not stand in their texts, in the order of the messages. */
export function attachedFiles(hits: readonly Pick<SearchHit, 'line'>[]): AttachedFile[] {
  return hits.flatMap(({ line: { attachments, id, date } }) =>
    (attachments ?? []).flatMap((file) => (file.inline ? [] : { ...file, id, date })),
  );
}

/** Whether attachments are more than one file takes. */
export function isTooMuch(files: readonly SavedFile[]): boolean {
  return files.length > MOST_FILES || bytesOf(files) > MOST_TOGETHER;
}

export function bytesOf(files: readonly Pick<SavedFile, 'size'>[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}
