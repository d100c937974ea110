import type { FileLayer } from '../archive/files/file-layer.ts';
import { filesOverBadSectors } from '../archive/mend/bad-sectors.ts';
import { openLogReader } from '../archive/read/log-reader.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import type { MessageId } from '../mail/words.ts';
import type { MessagesJob } from './segment-report.ts';

/**
 * Rebuilds and hashes messages, one after the other, streamed, and returns those that are not what they should be.
 * The caller reads these again to find the reason.
 *
 * @throws system errors of reading
 */
export async function rebuildMessages(
  files: FileLayer,
  { dir, messages, blobs }: MessagesJob,
): Promise<readonly MessageId[]> {
  const failed: MessageId[] = [];
  const reader = openLogReader({
    dir,
    files: filesOverBadSectors(files),
    locator: { message: (id) => messages.get(id), blob: (hash) => blobs.get(hash) },
  });
  try {
    for (const id of messages.keys()) {
      try {
        for await (const _piece of reader.streamMessage(id));
      } catch (error) {
        if (!(error instanceof MailkeepError)) throw error;
        failed.push(id);
      }
    }
  } finally {
    reader.close();
  }
  return failed;
}
