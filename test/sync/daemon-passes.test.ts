import { describe, expect, it } from 'vitest';
import { mail, status } from './model-origin.ts';
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

describe('passes of a daemon', () => {
  const MINUTE = 60_000;
  const daemon = {
    policy: {
      ...policy,
      rhythm: { mailboxesMs: 55 * MINUTE, folderMs: 55 * MINUTE },
      verifyPerHour: 20,
    },
  };

  it('a quiet hour of five-minute passes costs at most 5 requests a pass, and asks every folder', async () => {
    const names = Array.from({ length: 18 }, (_, i) => `INBOX.f${i}`);
    folders({ INBOX: 300, Sent: 200, ...Object.fromEntries(names.map((name) => [name, 150])) });
    await archive.sync(origin, daemon);
    archive.clock.advance(5 * MINUTE);
    origin.requests.length = 0;
    for (let pass = 0; pass < 24; pass += 1) {
      await archive.sync(origin, daemon);
      archive.clock.advance(5 * MINUTE);
    }
    expect(origin.requests.length / 24).toBeLessThanOrEqual(5);
    const asked = origin.requests.filter((r) => r.operation === 'list' && r.folder === 'INBOX.f7');
    expect(asked.length).toBeGreaterThanOrEqual(2);
  });

  it('a folder whose counts moved is asked at once', async () => {
    folders({ INBOX: 10, Work: 10 });
    await archive.sync(origin, daemon);
    archive.clock.advance(5 * MINUTE);
    box('Work').deliver(mail('new'));
    expect((await archive.sync(origin, daemon)).mailboxes).toMatchObject([{ added: 1 }]);
  });

  it('moved messages are fetched and compared later, 20 an hour, and a wrong guess is corrected', async () => {
    folders({ INBOX: 60, Work: 0 });
    await archive.sync(origin, daemon);
    const moving = [...box('INBOX').messages.values()].slice(0, 30);
    for (const { uid, raw, date, flags } of moving) {
      box('INBOX').messages.delete(uid);
      // Listed alike, and another message all the same.
      const bytes =
        uid === moving.at(-1)?.uid ? Buffer.from(raw.toString().replace('This', 'That')) : raw;
      box('Work').deliver(bytes, { date, flags });
    }
    origin.requests.length = 0;
    const relinked = await archive.sync(origin, daemon);
    expect(relinked.mailboxes).toMatchObject([{ relinked: 30, verified: 0 }]);
    expect(origin.count('source')).toBe(0);
    archive.clock.advance(5 * MINUTE);
    const first = await archive.sync(origin, daemon);
    expect(first.mailboxes).toMatchObject([{ verified: 19, corrected: 1 }]);
    archive.clock.advance(5 * MINUTE);
    expect((await archive.sync(origin, daemon)).mailboxes).toMatchObject([{ verified: 0 }]);
    archive.clock.advance(60 * MINUTE);
    const second = await archive.sync(origin, daemon);
    expect(second.mailboxes).toMatchObject([{ verified: 10, corrected: 0 }]);
    expect(second.certificates.find(({ folder }) => folder === 'Work')).toMatchObject({
      stored: 20,
      assumed: 10,
    });
    await expectTrue();
  });

  it('an interrupted sweep continues where it stopped', async () => {
    folders({ INBOX: 1_000 });
    await archive.sync(origin);
    const sweep = { policy: { ...daemon.policy, full: true, sweptSince: archive.clock.time } };
    let pages = 0;
    origin.before = (request) => {
      if (request.operation !== 'search') return;
      pages += 1;
      if (pages === 5) throw status(500);
    };
    expect((await archive.sync(origin, sweep)).failures).toHaveLength(1);
    archive.clock.advance(MINUTE);
    origin.before = () => {};
    origin.requests.length = 0;
    await archive.sync(origin, sweep);
    // Nine pages below the newest one: four were read before.
    expect(origin.count('search')).toBe(5);
  });

  it('what is in quarantine is tried again after ever longer waits', async () => {
    folders({ INBOX: 3 });
    origin.source$ = (message) => (message.uid === 2 ? Buffer.from('<html>') : message.raw);
    await archive.sync(origin, daemon);
    const tries: number[] = [];
    for (let minute = 5; minute <= 90; minute += 5) {
      archive.clock.advance(5 * MINUTE);
      origin.requests.length = 0;
      await archive.sync(origin, daemon);
      if (origin.count('source') > 0) tries.push(minute);
    }
    expect(tries).toEqual([5, 15, 35, 75]);
    origin.requests.length = 0;
    await archive.sync(origin);
    expect(origin.count('source')).toBeGreaterThan(0);
  });
});
