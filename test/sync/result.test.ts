import { describe, expect, it } from 'vitest';
import { syncReport } from '../../src/cli/commands/sync.ts';
import { listProblems } from '../../src/cli/warnings.ts';
import { MailkeepError } from '../../src/core/errors.ts';
import { originError } from '../../src/service/errors.ts';
import { listMailboxFolders } from '../../src/sync/sync-memory.ts';
import { archive, box, eachWithItsOwn, folders, HOUR, origin, range } from './one-mailbox.ts';

eachWithItsOwn();

describe('a service that dies during a pass', () => {
  it('leaves a mailbox that is said not to be compared', async () => {
    folders({ INBOX: 20, 'INBOX.Archive': 5 });
    await archive.sync(origin);
    origin.before = ({ operation }) => {
      if (operation === 'list') throw new MailkeepError('origin', 'origin.unreachable', {});
    };
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ folders: 2, compared: 0, comparison: 'none' }]);
    expect(syncReport(result)).toContain('ada@example.org: not compared\n');
  });

  it('names how many folders were compared where one fails by itself', async () => {
    folders({ INBOX: 20, 'INBOX.Archive': 5 });
    await archive.sync(origin);
    origin.before = (request) => {
      if (request.operation === 'list' && request.folder === 'INBOX.Archive')
        throw originError('origin.shape', {
          operation: 'listMessages',
          path: 'data',
          found: 'string',
          expected: 'array',
        });
    };
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ compared: 1, comparison: 'some' }]);
    expect(syncReport(result)).toContain(
      'ada@example.org: no change in 1 of 2 folders; the others were not compared\n',
    );
  });
});

describe('what the brake holds', () => {
  it('is named with the command that shows it, the one that accepts it, and the time it takes', async () => {
    folders({ INBOX: 200 });
    await archive.sync(origin);
    for (const uid of range(1, 100)) box('INBOX').messages.delete(uid);
    const before = archive.clock.now();
    await archive.sync(origin);
    archive.clock.advance(HOUR);
    const result = await archive.sync(origin);
    const [mailbox] = result.mailboxes;
    // Counted from the first look, not from this one.
    const since = Date.parse(mailbox?.heldUntil ?? '') - 6 * HOUR;
    expect(since).toBeGreaterThanOrEqual(before);
    expect(since).toBeLessThan(before + HOUR);
    expect(syncReport(result)).toContain(
      '100 messages at the service = 100 stored; 100 pending deletions (until accepted, or still gone at a later sync)',
    );
    const [failures] = listProblems(result);
    expect(failures?.message).toMatch(
      /^100 messages of ada@example.org are no longer at the service\..* pending deletions\.$/,
    );
    expect(failures?.hint).toMatch(
      /"mailkeep list --held".*"mailkeep sync --accept-endings".*the first sync after \d{4}-/s,
    );
    const held = await archive.reading((catalog) => [...catalog.list({ held: true })]);
    expect(held.map(({ uid }) => uid).sort((a, b) => a - b)).toEqual(range(1, 100));
  });
});

describe('a listing of folders', () => {
  it('names what the configuration leaves out, and not what an option does', async () => {
    folders({ INBOX: 1, 'INBOX.Archive': 1, 'INBOX.Lists': 1 });
    const deps = { origin, signal: new AbortController().signal };
    const mailbox = { resourceId: 'AC1', address: 'ada@example.org' };
    const mailboxes = { include: ['*'], exclude: [] };
    const only = { include: ['INBOX.L*'], exclude: [] };
    const wanted = (folders: boolean) => ({
      mailboxes,
      folders: only,
      whole: { mailboxes: true, folders },
    });
    expect((await listMailboxFolders(deps, mailbox, wanted(true))).excluded).toEqual([
      'INBOX',
      'INBOX.Archive',
    ]);
    expect((await listMailboxFolders(deps, mailbox, wanted(false))).excluded).toEqual([]);
  });

  it('with a folder that has no path fails for that folder, and syncs the others', async () => {
    folders({ INBOX: 3, 'INBOX.Archive': 2 });
    const listed = origin.folders.bind(origin);
    origin.folders = async (mailbox) => ({
      ...(await listed(mailbox)),
      complete: false,
      withoutPath: 1,
    });
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ added: 5, comparison: 'all' }]);
    expect(result.failures).toMatchObject([
      { code: 'sync.folder-without-path', facts: { withoutPath: 1, shown: 2 } },
    ]);
  });
});
