import type { FilesRequest } from '../../catalog/files/found-files.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { isTooMuch, MOST_FILES, type SavedFile } from './attached-files.ts';
import { within } from './mail-list.ts';

/** For the list of all, in milliseconds: whoever saves them waits once. */
const LISTING_MS = 1_000;

/**
 * Returns the attachments of a list, each content once, with the newest message that has it; undefined where they are more
 * than one file takes, or were not listed in time.
 */
export function listedFiles(
  { catalog }: Pick<Reader, 'catalog'>,
  request: FilesRequest,
): SavedFile[] | undefined {
  const wanted = { ...request, limit: MOST_FILES + 1 };
  const { files, next } = catalog.files.page(wanted, within(LISTING_MS));
  const listed = files.map(({ message: { id, date }, number, filename, size }) => ({
    ...{ id, number, filename, size },
    date: date === null ? null : new Date(date).toISOString(),
  }));
  return next !== null || isTooMuch(listed) ? undefined : listed;
}
