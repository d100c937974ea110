import { describe, expect, it } from 'vitest';
import { describeError } from '../../src/core/errors.ts';
import { syncError } from '../../src/sync/errors.ts';
import { mail } from './model-origin.ts';
import {
  archive,
  box,
  eachWithItsOwn,
  expectTrue,
  folders,
  HOUR,
  origin,
  policy,
} from './one-mailbox.ts';

eachWithItsOwn();

const RUNS = [
  policy,
  { ...policy, full: true },
  { ...policy, rhythm: { mailboxesMs: 0, folderMs: HOUR } },
];

describe('a message that is listed but not shown', () => {
  it.each([1, 99, 250])('is reported and fetched later: uid %i of 250', async (uid) => {
    folders({ INBOX: 250 });
    origin.speakImap({ condstore: true });
    origin.omits = (message) => message.uid === uid;
    for (const one of RUNS) {
      const { failures, certificates } = await archive.sync(origin, { policy: one });
      expect(certificates).toMatchObject([
        { folder: 'INBOX', originTotal: 250, stored: 249, complete: false },
      ]);
      expect(failures).toMatchObject([
        { code: 'sync.messages-not-shown', folder: 'INBOX', facts: { count: 1, uids: [uid] } },
      ]);
    }
    origin.omits = () => false;
    const { failures, certificates } = await archive.sync(origin);
    expect(failures).toEqual([]);
    expect(certificates).toMatchObject([{ stored: 250, complete: true }]);
    await expectTrue();
  });

  it('is not gone if it was stored, but others are', async () => {
    folders({ INBOX: 250 });
    origin.speakImap({ condstore: false });
    await archive.sync(origin);
    const lost = new Set([7, 9, 240]);
    origin.omits = ({ uid }) => lost.has(uid);
    box('INBOX').messages.delete(8);
    for (const one of RUNS) {
      box('INBOX').deliver(mail(`new ${box('INBOX').nextUid}`));
      const { failures, certificates } = await archive.sync(origin, { policy: one });
      expect(certificates).toMatchObject([{ complete: false, held: 0 }]);
      const [failure] = failures;
      expect(failure?.code).toBe('sync.messages-not-shown');
      await expectTrue();
    }
    origin.omits = () => false;
    expect(await archive.sync(origin)).toMatchObject({
      failures: [],
      certificates: [{ stored: 252, complete: true }],
    });
    await expectTrue();
  });

  it('leaves a folder unread if that is all there is, and later mail is read', async () => {
    folders({ INBOX: 130 });
    origin.speakImap({ condstore: true });
    origin.omits = () => true;
    const { failures, certificates } = await archive.sync(origin);
    expect(certificates).toMatchObject([{ originTotal: 130, stored: 0, complete: false }]);
    expect(failures).toMatchObject([{ facts: { count: 130 } }]);
    origin.omits = ({ uid }) => uid > 10;
    await archive.sync(origin);
    expect((await archive.places()).size).toBe(10);
    origin.omits = () => false;
    await archive.sync(origin);
    await expectTrue();
  });

  it('has a sentence', () => {
    const facts = { total: 30, uids: [7, 9], count: 2 };
    expect(describeError(syncError('sync.messages-not-shown', facts)).message).toBe(
      'The service lists 30 messages in this folder, but does not show 2: uid 7, 9.',
    );
  });
});
