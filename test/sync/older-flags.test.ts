import { describe, expect, it } from 'vitest';
import {
  archive,
  box,
  eachWithItsOwn,
  expectTrue,
  folders,
  origin,
  policy,
} from './one-mailbox.ts';

eachWithItsOwn();

describe('flags below the newest page', () => {
  const setFlags = (folder: string, flags: Record<number, readonly string[]>): void => {
    for (const [uid, set] of Object.entries(flags)) {
      const message = box(folder).messages.get(Number(uid));
      if (message !== undefined) message.flags = [...set];
    }
  };

  it('are found by a plain pass where the unread count moved, for a few requests', async () => {
    folders({ INBOX: 5_000 });
    await archive.sync(origin);
    setFlags('INBOX', { 1: ['\\Flagged'], 99: [], 2330: ['\\Answered'] });
    origin.requests.length = 0;
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ flagsChanged: 3 }]);
    // The quiet pass has 3 requests; without hints 49 pages would have to be read.
    expect(origin.requests.length).toBeLessThanOrEqual(3 + 24);
    await expectTrue();
  });

  it('are found where only stars moved, once a flag on the newest page has moved as well', async () => {
    folders({ INBOX: 1_000 });
    await archive.sync(origin);
    setFlags('INBOX', { 7: ['\\Flagged', '\\Seen'], 1000: ['\\Flagged', '\\Seen'] });
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ flagsChanged: 2 }]);
    await expectTrue();
  });

  it('that cancel out in the counts wait for a full pass, which finds every one', async () => {
    folders({ INBOX: 450 });
    await archive.sync(origin);
    setFlags('INBOX', { 1: ['\\Seen', '$label'], 99: ['\\Seen', 'Strange-Flag'] });
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ flagsChanged: 0 }]);
    const result = await archive.sync(origin, { policy: { ...policy, full: true } });
    expect(result.mailboxes).toMatchObject([{ flagsChanged: 2 }]);
    await expectTrue();
  });

  it('are not looked for again where the unread count is wrong for good', async () => {
    folders({ INBOX: 450 });
    await archive.sync(origin);
    const { folders: list } = origin;
    origin.folders = async (mailbox) => {
      const listing = await list.call(origin, mailbox);
      return { ...listing, folders: listing.folders.map((f) => ({ ...f, unreadCount: 77 })) };
    };
    await archive.sync(origin);
    origin.requests.length = 0;
    await archive.sync(origin);
    expect(origin.requests.length).toBe(3);
  });

  it('are left to full passes by a host whose search does not heed flags', async () => {
    origin.heedsFlags = false;
    folders({ INBOX: 450 });
    await archive.sync(origin);
    setFlags('INBOX', { 1: [] });
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ flagsChanged: 0 }]);
    await archive.sync(origin, { policy: { ...policy, full: true } });
    await expectTrue();
  });
});
