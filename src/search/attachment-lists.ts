import { catalogError } from '../errors/catalog.ts';
import type { AttachmentLine } from '../mail/lines.ts';

/** Returns the list as the catalog keeps it: JSON, an array each; null for none. */
export function packList(attachments: readonly AttachmentLine[]): Buffer | null {
  if (attachments.length === 0) return null;
  return Buffer.from(
    JSON.stringify(
      attachments.map(({ number, filename, contentType, size, inline }) => [
        number,
        filename,
        contentType,
        size,
        inline ? 1 : 0,
      ]),
    ),
  );
}

/**
 * Returns what `packList` kept.
 *
 * @param file of the catalog, for the error
 * @throws catalog-damaged for what is no such list; a rebuild lists them again
 */
export function unpackList(packed: Buffer | null, file: string): AttachmentLine[] {
  if (packed === null) return [];
  try {
    const list: unknown = JSON.parse(packed.toString('utf8'));
    if (Array.isArray(list)) return list.map(listed);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw catalogError('catalog-damaged', { file, reason: 'list of attachments' });
}

function listed(entry: unknown): AttachmentLine {
  const [number, filename, contentType, size, inline]: unknown[] = Array.isArray(entry)
    ? entry
    : [];
  const named = typeof filename === 'string' ? filename : null;
  if (typeof number !== 'number' || typeof contentType !== 'string' || typeof size !== 'number')
    throw new SyntaxError('not an attachment');
  return { number, filename: named, contentType, size, inline: inline === 1 };
}
