import { readFully } from '../files/file-layer.ts';
import { RECORD_HEADER_BYTES, readRecordHeader, STORED_KIND } from '../format/headers.ts';
import type { Problem } from '../read/segment-batches.ts';
import type { OpenSegment } from '../read/segment-files.ts';

/**
 * Checks that the containers which a sealed file's footer names are at its offsets: the footer's own checks prove only
 * that it is what was written. Returns nothing for an unsealed file, or for a damaged footer, which reading the records
 * reveals.
 */
export function checkFooter({ file, header, sealed }: OpenSegment): Problem[] {
  if (sealed === undefined) return [];
  const { index, offset } = sealed;
  const head = Buffer.alloc(RECORD_HEADER_BYTES);
  const wrong = index.containers.some((container) => {
    if (readFully(file, head, container.offset) < RECORD_HEADER_BYTES) return true;
    const found = readRecordHeader(head, 0, header, container.offset);
    return found === undefined || (found.kind === STORED_KIND.block) !== container.block;
  });
  return wrong ? [{ reason: 'footer', offset, end: file.size() }] : [];
}
