import { describe, expect, it } from 'vitest';
import { MailkeepError } from '../../src/core/errors.ts';
import { originError } from '../../src/service/errors.ts';
import { ModelFolder, mail, status } from './model-origin.ts';
import { archive, box, eachWithItsOwn, expectTrue, folders, HOUR, origin } from './one-mailbox.ts';

const full = { full: true, acceptEndings: false };

eachWithItsOwn();

describe('a search that lags behind', () => {
  it('ends nothing that the listing still shows, and is not asked again', async () => {
    folders({ INBOX: 400 });
    await archive.sync(origin);
    const hidden = [10, 11, 12, 20].flatMap((uid) => box('INBOX').messages.get(uid) ?? []);
    const show = (): void => {
      for (const message of hidden) box('INBOX').messages.set(message.uid, message);
    };
    origin.before = ({ operation }) => {
      if (operation !== 'search') return;
      for (const { uid } of hidden) box('INBOX').messages.delete(uid);
    };
    origin.after = show;
    const result = await archive.sync(origin, { policy: full });
    expect(result.mailboxes).toMatchObject([{ ended: 0, held: 0 }]);
    expect(result.certificates).toMatchObject([{ complete: true, stored: 400, originTotal: 400 }]);
    await expectTrue();
    origin.requests.length = 0;
    await archive.sync(origin, { policy: full });
    expect(origin.count('search')).toBe(0);
    await expectTrue();
  });
});

describe('a listing of folders that counts more than it shows', () => {
  it('ends nothing, however often it comes', async () => {
    folders({ INBOX: 5, 'INBOX.Work': 5 });
    await archive.sync(origin);
    const work = box('INBOX.Work');
    origin.boxes.get('AC1')?.folders.delete('INBOX.Work');
    origin.listsAll = false;
    for (let pass = 1; pass <= 3; pass += 1) {
      const result = await archive.sync(origin);
      expect(result.mailboxes).toMatchObject([{ ended: 0, held: 0 }]);
      expect(result.failures).toMatchObject([{ code: 'sync.folders-incomplete' }]);
      archive.clock.advance(7 * HOUR);
    }
    origin.listsAll = true;
    origin.boxes.get('AC1')?.folders.set('INBOX.Work', work);
    await archive.sync(origin);
    await expectTrue();
  });
});

describe('what the origin cannot answer for', () => {
  const broken = (): Error =>
    new MailkeepError('origin', 'origin.unreachable', { reason: 'UND_ERR_SOCKET', sent: true });

  it('is one message whose connection always breaks: it is named, and the rest is fetched', async () => {
    folders({ INBOX: 60 });
    origin.before = (request) => {
      if (request.operation === 'source' && request.uid === 50) throw broken();
    };
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ added: 59, quarantined: 1 }]);
    expect(result.failures).toMatchObject([{ uid: 50, code: 'origin.unreachable' }]);
    expect(result.certificates).toMatchObject([{ complete: true, stored: 59, quarantined: 1 }]);
  });

  it('is one message, and the newest page is looked at again: it is asked for once', async () => {
    folders({ INBOX: 10 });
    origin.before = (request) => {
      if (request.operation !== 'source') return;
      // Counts that moved during a first pass are worth another look before it ends.
      box('INBOX').messages.delete(1);
      if (request.uid === 5) throw status(500);
    };
    const result = await archive.sync(origin);
    const asked = origin.requests.filter((request) => 'uid' in request && request.uid === 5);
    expect(asked).toHaveLength(1);
    expect(result.mailboxes).toMatchObject([{ added: 8, quarantined: 1 }]);
    expect(origin.count('list')).toBe(2);
  });

  it('is a page that shows a message twice: it is asked for and counted once', async () => {
    folders({ INBOX: 5 });
    const list = origin.list.bind(origin);
    origin.list = async (...question) => {
      const { items, total } = await list(...question);
      return { items: items.flatMap((item) => (item.uid === 3 ? [item, item] : [item])), total };
    };
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBe(5);
    expect(result.mailboxes).toMatchObject([{ added: 5 }]);
    await expectTrue();
  });

  it('is everything: the pass ends', async () => {
    folders({ INBOX: 100 });
    origin.before = (request) => {
      if (request.operation === 'source') throw broken();
    };
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBeLessThan(40);
    expect(result.failures.at(-1)).toMatchObject({ mailbox: null, code: 'origin.unreachable' });
  });

  it('is a folder whose name no request can carry: it is named, and the others are mirrored', async () => {
    folders({ INBOX: 5, '..': 1, 'INBOX.Work': 5 });
    origin.before = (request) => {
      if ('folder' in request && request.folder === '..') {
        throw originError('request-invalid', { operation: 'x', field: 'folder', expected: 'y' });
      }
    };
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ added: 10 }]);
    expect(result.failures).toMatchObject([
      { folder: '..', family: 'origin', code: 'request-invalid' },
    ]);
  });

  it('is a new folder while another is missing: the mailbox does not wait for it', async () => {
    folders({ INBOX: 5, 'INBOX.Old': 5 });
    await archive.sync(origin);
    origin.boxes.get('AC1')?.folders.delete('INBOX.Old');
    const bad = new ModelFolder('INBOX.Bad');
    bad.deliver(mail('bad'));
    origin.boxes.get('AC1')?.folders.set('INBOX.Bad', bad);
    box('INBOX').deliver(mail('new'));
    origin.before = (request) => {
      if ('folder' in request && request.folder === 'INBOX.Bad') throw status(500);
    };
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ added: 1 }]);
    expect(result.failures).toMatchObject([{ folder: 'INBOX.Bad' }]);
  });
});
