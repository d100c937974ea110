import { describe, expect, it } from 'vitest';
import { memoryOf } from './harness.ts';
import { mail } from './model-origin.ts';
import { archive, box, eachWithItsOwn, expectTrue, folders, origin } from './one-mailbox.ts';

eachWithItsOwn();

/** Operations of a sync run, without those that every run sends. */
async function requestsOfSync(): Promise<string[]> {
  const from = origin.requests.length;
  const { failures, certificates } = await archive.sync(origin);
  expect(failures).toEqual([]);
  expect(certificates.filter(({ complete }) => !complete)).toEqual([]);
  const sent = origin.requests.slice(from).map(({ operation }) => operation);
  return sent.filter((operation) => !['mailboxes', 'folders', 'quota'].includes(operation));
}

function star(uid: number): void {
  box('INBOX').messages.get(uid)?.flags.push('\\Flagged');
}

describe('with modification sequences, a changed flag', () => {
  it.each([1, 150, 3_000])(
    'is read with one request and the newest page: uid %i of 3,000',
    async (uid) => {
      folders({ INBOX: 3_000, Archive: 200 });
      origin.speakImap({ condstore: true });
      await archive.sync(origin);
      star(uid);
      expect(await requestsOfSync()).toEqual(['list', 'changes']);
      await expectTrue();
      expect(await requestsOfSync()).toEqual([]);
    },
  );

  it('is found in older mail together with new mail', async () => {
    folders({ INBOX: 300 });
    origin.speakImap({ condstore: true });
    await archive.sync(origin);
    star(5);
    box('INBOX').deliver(mail('new'), { flags: ['\\Seen'] });
    expect(await requestsOfSync()).toEqual(['list', 'source', 'search', 'changes']);
    await expectTrue();
  });

  it('is found if it changed during the first sync', async () => {
    folders({ INBOX: 300 });
    origin.speakImap({ condstore: true });
    origin.after = ({ operation }) => {
      if (operation === 'source' && origin.count('source') === 250) star(299);
    };
    await archive.sync(origin);
    await archive.sync(origin);
    await expectTrue();
  });

  it('is not asked for across UID epochs, or without an archive that has all flags', async () => {
    folders({ INBOX: 300 });
    origin.speakImap({ condstore: true });
    await archive.sync(origin);
    // As after the loss of the state.
    archive.memory = memoryOf();
    star(299);
    expect(await requestsOfSync()).not.toContain('changes');
    await archive.sync(origin, { policy: { full: true, acceptEndings: false } });
    star(2);
    expect(await requestsOfSync()).toEqual(['list', 'changes']);
    await expectTrue();
    box('INBOX').uidValidity = 2;
    expect(await requestsOfSync()).not.toContain('changes');
    await expectTrue();
  });

  it('is found by reading pages if too much has changed to tell', async () => {
    folders({ INBOX: 300 });
    origin.speakImap({ condstore: true });
    await archive.sync(origin);
    origin.changedSince = async () => null;
    star(299);
    expect(await requestsOfSync()).toContain('list');
    await expectTrue();
  });
});
