import { tmpdir } from 'node:os';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import type { Folder } from '../../src/sandbox/store.ts';
import { MailboxClient } from '../../src/service/client.ts';
import { apiOrigin } from '../../src/sync/api-origin.ts';
import type { Origin } from '../../src/sync/ports.ts';
import type { SyncResult } from '../../src/sync/result.ts';
import { Archive } from '../sync/harness.ts';
import { mail } from '../sync/model-origin.ts';
import { HOUR, policy } from '../sync/one-mailbox.ts';

const MINUTE = 60_000;
const daemon = {
  ...policy,
  rhythm: { mailboxesMs: 55 * MINUTE, folderMs: 55 * MINUTE },
  verifyPerHour: 20,
};

/**
 * Fills the local service with a mailbox of `folders` folders, runs passes over it and counts what each asks for.
 * `messages` lie in equal parts in the folders; `large` of them more in one.
 */
export async function countRequests(size: {
  readonly folders: number;
  readonly messages: number;
  readonly moved: number;
}) {
  const sandbox = await startSandbox({ addresses: ['ada@example.org'], mail: { messages: 0 } });
  const archive = new Archive();
  const client = new MailboxClient({
    baseUrl: sandbox.mailboxUrl,
    token: sandbox.tokens.mailbox,
    requestsPerMinute: 100_000_000,
    concurrency: 8,
  });
  const origin: Origin = { ...apiOrigin(client, tmpdir()), requestsPerMinute: () => 100_000_000 };
  const [mailbox] = sandbox.service.store.mailboxes.values();
  if (mailbox === undefined) throw new Error('the service has no mailbox');
  const folder = (path: string): Folder => sandbox.service.store.folderFor(mailbox, path);
  const paths = ['INBOX', ...Array.from({ length: size.folders }, (_, i) => `INBOX.f${i}`)]
    .concat([...mailbox.folders.keys()])
    .filter((path, i, all) => all.indexOf(path) === i)
    .slice(0, size.folders);
  const total = (): number =>
    Object.values(sandbox.requests().byOperation).reduce((a, b) => a + b, 0);
  const sources = (): number => sandbox.requests().byOperation.getMessageSource ?? 0;
  const costOf = async (act: () => Promise<SyncResult>) => {
    const before = { requests: total(), sources: sources() };
    const result = await act();
    if (result.failures.length > 0) throw new Error(JSON.stringify(result.failures[0]));
    return { requests: total() - before.requests, sources: sources() - before.sources, result };
  };
  try {
    for (const path of [...mailbox.folders.keys()]) {
      if (!paths.includes(path)) sandbox.service.store.deleteFolder(mailbox, path);
    }
    for (let n = 0; n < size.messages; n += 1) {
      const path = paths[n % paths.length] ?? 'INBOX';
      const received = Date.UTC(2026, 0, 1) + n * 1000;
      sandbox.service.store.add(folder(path), Buffer.from(mail(`m${n}`)), received, ['\\Seen']);
    }
    const pass = (how: Parameters<Archive['sync']>[1] = { policy }) => archive.sync(origin, how);
    const first = await costOf(() => pass());
    const quiet = await costOf(() => pass());
    archive.clock.advance(5 * MINUTE);
    let withDaemon = 0;
    for (let i = 0; i < 24; i += 1) {
      withDaemon += (await costOf(() => pass({ policy: daemon }))).requests;
      archive.clock.advance(5 * MINUTE);
    }
    const inbox = folder('INBOX');
    const uids = [...inbox.entries()].map(({ uid }) => uid);
    sandbox.service.store.remove(inbox, uids[Math.floor(uids.length / 3)] ?? 1);
    archive.clock.advance(HOUR);
    const deletion = await costOf(() => pass());
    if (deletion.result.mailboxes[0]?.ended !== 1) throw new Error('the deletion was not found');
    const from = folder(paths[1] ?? 'INBOX');
    const moving = [...from.entries()].slice(0, size.moved).map(({ uid }) => uid);
    for (const uid of moving) sandbox.service.store.move(from, uid, folder(paths[2] ?? 'INBOX'));
    const moved = await costOf(() => pass());
    if (moved.result.mailboxes[0]?.relinked !== moving.length) {
      throw new Error(`${moving.length} were moved: ${JSON.stringify(moved.result.mailboxes)}`);
    }
    const lastFolder = folder(paths[3] ?? 'INBOX');
    const count = [...lastFolder.entries()].length;
    sandbox.service.store.renumber(lastFolder, 1_000_000);
    const renumbered = await costOf(() => pass());
    return {
      folders: paths.length,
      messages: size.messages,
      first: first.requests,
      quiet: quiet.requests,
      /** The mean of a daemon's passes every five minutes, over two hours. */
      quietWithDaemon: withDaemon / 24,
      deletion: deletion.requests,
      moved: { messages: moving.length, sources: moved.sources, requests: moved.requests },
      renumbered: { messages: count, sources: renumbered.sources, requests: renumbered.requests },
    };
  } finally {
    await client.close();
    await sandbox.close();
    archive.remove();
  }
}
