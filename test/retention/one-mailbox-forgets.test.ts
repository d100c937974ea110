import { hash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { forgottenId } from '../../src/archive/format.ts';
import { DEFAULT_CODEC } from '../../src/archive/payload.ts';
import { openWriter, type Writer } from '../../src/catalog/open-writer.ts';
import type { MailboxKey, MessageId } from '../../src/core/types.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import type { PurgedFact } from '../../src/verify/prune.ts';
import { finishPurge, journalForget, planForget } from '../../src/verify/purge.ts';
import { seeded } from '../bench/seeded.ts';
import { appeared, HOST, INBOX, mailbox, openRoom, place, sha256 } from '../catalog/history.ts';
import { jsonLines, mailkeep, workplace } from '../cli/child.ts';
import { verified } from '../verify/grown-archive.ts';
import { Tenants } from './tenants.ts';

const CONTEXT = {
  globals: { config: undefined, data: undefined },
  environment: { env: {}, cwd: '/' },
  ...{ signal: new AbortController().signal, now: () => Date.UTC(2026, 1, 3) },
  report: () => undefined,
};

async function withWriter<T>(dir: string, act: (writer: Writer) => Promise<T>): Promise<T> {
  const writer = await openWriter(CONTEXT, dir, DEFAULT_CODEC);
  try {
    return await act(writer);
  } finally {
    await writer.close();
  }
}

/** @param isKilled after it is decided; the next writer finishes it */
async function forget(
  dir: string,
  messages: readonly MessageId[],
  from: readonly MailboxKey[],
  isKilled: boolean,
): Promise<void> {
  await withWriter(dir, async (writer) => {
    const asked = messages.map((message) => ({ message }));
    const plan = await planForget(writer, asked, CONTEXT.signal, from);
    if (plan.facts.length === 0) return;
    await journalForget(writer, plan);
    if (!isKilled) await finishPurge(CONTEXT, writer);
  });
  if (isKilled) await withWriter(dir, (writer) => finishPurge(CONTEXT, writer));
}

const SEEDS = Number(process.env.MAILKEEP_TENANT_SEEDS ?? 3);
const FIRST = Number(process.env.MAILKEEP_SEED ?? 1);

describe('a message that one mailbox forgets and another has', () => {
  const seeds = Array.from({ length: SEEDS }, (_, at) => FIRST + at);
  test.each(seeds)('random histories: seed %i', { timeout: 120_000 }, async (seed) => {
    const dir = mkdtempSync(path.join(tmpdir(), 'mailkeep-tenants-'));
    try {
      const random = seeded('tenants', seed);
      const tenants = new Tenants(random);
      await withWriter(dir, (writer) => tenants.begin(writer));
      for (let round = 0; round < 5; round += 1) {
        await withWriter(dir, (writer) => tenants.play(writer, 30));
        const { messages, from } = tenants.chooseForget();
        await forget(dir, messages, from, random.below(2) === 0);
        tenants.check(dir);
        // Once more: there is nothing left to do.
        const again = await withWriter(dir, (writer) =>
          planForget(
            writer,
            messages.map((message) => ({ message })),
            CONTEXT.signal,
            from,
          ),
        );
        expect(again.facts).toEqual([]);
        expect((await verified(dir)).findings).toEqual([]);
      }
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  const other = { ...INBOX, mailbox: 'AC2' };
  const message = sha256('news');
  const from = { host: HOST, mailbox: 'AC1', message };
  const fact: PurgedFact = {
    fact: 'purged',
    message: forgottenId(message, from),
    reason: 'forgotten',
    places: [place(INBOX, 1)],
  };
  const cases: readonly [name: string, fact: PurgedFact, left: readonly string[]][] = [
    ['stays where it is for a program that does not know of this', fact, ['AC1', 'AC2']],
    ['stays in the other one', { ...fact, from }, ['AC2']],
    ['is gone if that was the last one', { ...fact, from: { ...from, last: true } }, []],
  ];
  test.each(cases)('%s', async (_name, purged, left) => {
    const room = await openRoom(
      mailbox(other, 'AC2'),
      mailbox(INBOX, 'AC1'),
      appeared(place(INBOX, 1), 'news'),
      appeared(place(other, 1), 'news'),
    );
    room.fold(purged);
    const { catalog } = room;
    expect([...catalog.list({})].map((line) => line.mailbox).toSorted()).toEqual(left);
    expect(catalog.messages.docidOf(message) !== undefined).toBe(left.length > 0);
    expect(catalog.messages.forgottenAs(message, INBOX)).toBe(fact.message);
    expect(catalog.messages.forgottenAs(message, other)).toBeUndefined();
    room.close();
  });

  test('is forgotten by the command, and a sync keeps to it', { timeout: 60_000 }, async () => {
    const addresses = ['anna@example.org', 'ben@example.org'];
    const sandbox = await startSandbox({ addresses, mail: { messages: 10 } });
    const raw = Buffer.from('Subject: to everybody\r\n\r\nthe same to all\r\n');
    const id = hash('sha256', raw);
    const { store } = sandbox.service;
    const deliver = (folder: string) => {
      for (const box of store.mailboxes.values()) {
        store.add(store.folderFor(box, folder), raw, Date.now(), []);
      }
    };
    deliver('INBOX');
    const { config, folder } = workplace(sandbox);
    const run = (...args: string[]) => mailkeep([...args, '--config', config]);
    const mailboxes = async () => {
      const listed = jsonLines((await run('list', '--json')).stdout).map((one) => Object(one));
      return listed.filter((one) => one.id === id).map((one) => one.mailbox);
    };
    try {
      expect((await run('sync', '--quiet')).code).toBe(0);
      expect((await mailboxes()).toSorted()).toEqual(addresses);
      const gone = await run('forget', id.slice(0, 9), '--mailbox', 'anna@example.org', '--yes');
      expect([gone.code, gone.stdout]).toEqual([
        0,
        expect.stringContaining('Forgotten: 1 message'),
      ]);
      expect(await mailboxes()).toEqual(['ben@example.org']);
      // The same bytes come to both once more.
      deliver('INBOX');
      expect((await run('sync', '--quiet')).code).toBe(0);
      expect(await mailboxes()).toEqual(['ben@example.org', 'ben@example.org']);
      const last = await run('forget', id, '--mailbox', 'ben@example.org', '--yes');
      expect(last.code).toBe(0);
      expect(await mailboxes()).toEqual([]);
      // Once more, as after an interruption.
      expect((await run('forget', id, '--mailbox', 'ben@example.org', '--yes')).code).toBe(0);
      expect((await run('verify', '--json')).code).toBe(0);
    } finally {
      await sandbox.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
