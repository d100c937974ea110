import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { RestoreOptions } from '../../src/transfer/plan-restore.ts';
import { type Letter, StoredArchive } from '../export/stored-archive.ts';
import { type Dovecot, startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import type { Fault } from '../imap/faults.ts';
import { ImapProxy } from '../imap/proxy.ts';
import { mailBelow } from '../imap/read-back.ts';
import { asClient, Restoring } from './restoring.ts';

const without = withoutDovecot();
let server: Dovecot;
let prefixes = 0;

beforeAll(async () => {
  if (!without) server = await startDovecot({ specialFolders: false });
});
afterAll(() => server?.stop());

function letters(count: number, folder: string, from = 0): Letter[] {
  return Array.from({ length: count }, (_, i) => {
    const messageId = `<${folder}-${from + i}@example.org>`;
    return {
      ...{ folder, messageId },
      source: Buffer.from(`Message-ID: ${messageId}\r\nSubject: ${i}\r\n\r\n${'x'.repeat(i)}\r\n`),
    };
  });
}

/** An archive, and restores of it to a folder of their own through a proxy. */
async function restoring(stored: readonly Letter[], faults: readonly Fault[] = []) {
  prefixes += 1;
  const prefix = `Run ${prefixes}`;
  const archive = await StoredArchive.create();
  await archive.store(stored, { delimiter: '/' });
  const proxy = await ImapProxy.start({ to: server, faults });
  const user = new Restoring(archive, server);
  onTestFinished(async () => {
    await proxy.stop();
    user.remove();
    archive.remove();
  });
  const run = (options: Partial<RestoreOptions> = {}) =>
    user.run(proxy.port, {
      destination: { kind: 'into', levels: [prefix] },
      jobs: 1,
      ...options,
    });
  /** Runs until so many messages are settled. */
  const interrupted = async (done: number) => {
    const stop = new AbortController();
    const result = await run({
      signal: stop.signal,
      onProgress: (progress) => {
        if (progress.step === 'sending' && progress.done === done) stop.abort();
      },
    });
    expect(result.interrupted).toBe(true);
    return result;
  };
  const there = async () => (await mailBelow(server, `${prefix}/`)).length;
  return { run, interrupted, there, archive, proxy, user, prefix };
}

describe.skipIf(without)('a restore that is continued', () => {
  test('fetches no more to compare it than one that is not', async () => {
    const { run, interrupted, there } = await restoring([
      ...letters(96, 'Work'),
      { folder: 'Work', source: Buffer.from('Subject: LF alone\n\nx\n') },
    ]);
    await interrupted(64);
    const again = await run();
    expect(again).toMatchObject({ continued: true, appended: 33, present: 64, lost: [] });
    expect(again.looked.compared).toBe(97);
    expect(again.looked.fetched).toBeLessThan(20);
    expect(again.altered).toEqual({ messages: 1, reasons: { 'line-endings': 1 } });
    expect(await there()).toBe(97);
  });

  test('keeps its folders where a mailbox has come to the archive since', async () => {
    const { run, interrupted, there, archive, prefix } = await restoring(letters(80, 'Work'));
    await interrupted(32);
    await archive.store(letters(1, 'Work', 500), { mailbox: 'bo@example.org', delimiter: '/' });
    const again = await run();
    expect(again.folders.map(({ to }) => to)).toEqual([`${prefix}/Work`, `${prefix}/Work (2)`]);
    expect(again).toMatchObject({ present: 32, appended: 49 });
    expect(await there()).toBe(81);
  });

  test('waits ten seconds at most, also where the clock was set back', async () => {
    const fault: Fault = { command: 'APPEND', nth: 1, do: 'cut-before-answer' };
    const { run, there, user } = await restoring(letters(2, 'Work'), [fault]);
    const stop = new AbortController();
    user.whileWaiting = async () => stop.abort();
    expect(await run({ signal: stop.signal })).toMatchObject({ appended: 0, interrupted: true });
    user.whileWaiting = async () => {};
    user.time -= 365 * 86_400_000;
    const before = user.time;
    expect(await run()).toMatchObject({ appended: 0, present: 2 });
    expect(user.time - before).toBeLessThanOrEqual(10_000);
    expect(await there()).toBe(2);
  });
});

describe.skipIf(without)('a restore that meets trouble', () => {
  test('fills the other folders where one goes away meanwhile', async () => {
    const fault: Fault = { command: 'APPEND', nth: 1, do: 'cut-before' };
    const { run, there, user, prefix } = await restoring(
      [...letters(40, 'First'), ...letters(2, 'Second')],
      [fault],
    );
    let isRemoved = false;
    user.whileWaiting = async () => {
      if (!isRemoved) {
        await asClient(server, (client) => client.mailboxDelete(`${prefix}/First`));
      }
      isRemoved = true;
    };
    const result = await run();
    expect(result).toMatchObject({ appended: 2, refusals: { folder: 40 }, ended: null });
    expect(await run()).toMatchObject({ appended: 40, present: 2 });
    expect(await there()).toBe(42);
  });

  test.each([
    'NO [LIMIT] Too many requests, try again later',
    'NO [OVERQUOTA] Account exceeded command or bandwidth limits. (Failure)',
    'NO Request is throttled.',
  ])('waits and sends again after %s', async (text) => {
    const fault: Fault = { command: 'APPEND', nth: 1, do: 'answer', text };
    const { run, there, user } = await restoring(letters(3, 'Work'), [fault]);
    const before = user.time;
    expect(await run()).toMatchObject({ appended: 3, refused: 0 });
    expect(user.time - before).toBeGreaterThanOrEqual(1000);
    expect(await there()).toBe(3);
  });

  test('takes no limit of another kind for one of the size', async () => {
    const answer = (nth: number): Fault => ({
      ...{ command: 'APPEND', nth, do: 'answer' },
      text: 'NO [LIMIT] Too many messages in this folder',
    });
    const { run } = await restoring(letters(1, 'Work'), [answer(1)]);
    expect(await run()).toMatchObject({ refusals: { server: 1 } });
    expect(await run()).toMatchObject({ continued: true, appended: 1 });
  });
});
