import { createHash } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { type Random, randomFrom } from '../../src/sandbox/generated-mail.ts';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { mail } from '../sandbox/client.ts';
import { NOW } from '../web/served.ts';
import { deliver, type Mirrored, mirrored } from './mirrored.ts';

/**
 * A mirror of a mirror. Ten mailboxes have a random history each, all of them in one archive, so that ten cost as many
 * passes as one; that archive is served, and mirrored by another. MAILKEEP_SEED=N takes others.
 */

const SEED = Number(process.env.MAILKEEP_SEED ?? 41);
const MAILBOXES = 10;
const ROUNDS = 4;
const STEPS = 6;

const folders = z.object({ data: z.array(z.object({ path: z.string() })) });
const messages = z.object({ data: z.array(z.object({ uid: z.int() })) });
const line = z.object({
  ...{ id: z.string().nullable(), mailbox: z.string(), folder: z.string() },
  ...{ uid: z.int(), flags: z.array(z.string()), size: z.int(), subject: z.string().nullable() },
});

/** One mailbox of the origin, and what happens in it. */
class Changing {
  readonly #random: Random;
  #delivered = 0;

  constructor(
    private readonly both: Mirrored,
    private readonly mailbox: string,
    readonly seed: number,
  ) {
    this.#random = randomFrom(seed, 'mirror of a mirror');
  }

  async change(): Promise<void> {
    const m = `/api/v1/mailboxes/${this.mailbox}`;
    const { origin } = this.both;
    const paths = await this.#folders(m);
    const folder = this.#pick(paths);
    const at = `${m}/folders/${encodeURIComponent(folder)}`;
    const { body } = await origin('GET', `${at}/messages?perPage=100`);
    const uids = messages.parse(body).data.map(({ uid }) => uid);
    const own = paths.filter((one) => one.startsWith('INBOX.Own'));
    const name = `INBOX.Own${this.#random.below(3)}`;
    const kind = this.#random.below(10);
    if (kind <= 3 || uids.length === 0) this.#deliver(folder);
    else if (kind === 4) await origin('DELETE', `${at}/messages/${this.#pick(uids)}`);
    else if (kind === 5) await this.#flag(`${at}/messages/${this.#pick(uids)}`);
    else if (kind === 6)
      await origin('POST', `${at}/messages/${this.#pick(uids)}/move`, {
        targetFolder: this.#pick(paths),
      });
    else if (kind === 7) await origin('POST', `${m}/folders`, { name });
    else if (own.length === 0) await origin('DELETE', `${at}/messages`);
    else if (kind === 8)
      await origin('PUT', `${m}/folders/${encodeURIComponent(this.#pick(own))}`, { name });
    else await this.#again(m, this.#pick(own));
  }

  /** The folder is deleted and made again: other messages have the uids of the old ones. */
  async #again(m: string, folder: string): Promise<void> {
    await this.both.origin('DELETE', `${m}/folders/${encodeURIComponent(folder)}`);
    for (let count = this.#random.below(3); count >= 0; count -= 1) this.#deliver(folder);
  }

  async #flag(message: string): Promise<void> {
    const flag = this.#random.pick(['\\Seen', '\\Flagged', '\\Answered', 'work']);
    const field = this.#random.chance(0.7) ? 'addFlags' : 'removeFlags';
    await this.both.origin('PATCH', message, { [field]: [flag] });
  }

  #deliver(folder: string): void {
    this.#delivered += 1;
    // Copies too: what is equal to the byte is one message in several places.
    const number = this.#random.chance(0.2) ? 0 : this.#delivered;
    // A folder made again is recognized by what its listing says of the uids it had: dates and sizes are alike here.
    const id = `Message-ID: <${this.seed}.${number}@example.net>`;
    deliver(this.both.sandbox, mail(`${this.seed} ${number}`, id), this.mailbox, folder);
  }

  async #folders(m: string): Promise<string[]> {
    const { body } = await this.both.origin('GET', `${m}/folders?perPage=100`);
    return folders.parse(body).data.map((folder) => folder.path);
  }

  #pick<T>(list: readonly T[]): T {
    const picked = list[this.#random.below(list.length)];
    if (picked === undefined) throw new Error('nothing to pick from');
    return picked;
  }
}

/** What an archive holds now, as a hash for each mailbox, and how many messages that are. */
async function held(data: string) {
  const { stdout, code } = await mailkeep(['list', '--json', '--data', data]);
  expect(code).toBe(0);
  const all = jsonLines(stdout).map((one) => line.parse(one));
  const byMailbox = Map.groupBy(all, ({ mailbox }) => mailbox);
  const hashes = [...byMailbox].map(([mailbox, lines]): [string, string] => {
    const texts = lines.map((one) => JSON.stringify({ ...one, flags: one.flags.toSorted() }));
    return [mailbox, createHash('sha256').update(texts.sort().join('\n')).digest('hex')];
  });
  return { messages: all.length, hashes: new Map(hashes) };
}

test('archives of ten random mailboxes and of their mirror end equal, by hashes', async () => {
  const addresses = Array.from({ length: MAILBOXES }, (_, i) => `box${i}@example.org`);
  const both = await mirrored({ seed: SEED, mail: { messages: 0 }, addresses });
  try {
    const { secret } = both.tokens.create({ name: 'b', mailboxes: null, expiresAt: null }, NOW);
    const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-second-'));
    const config = path.join(folder, 'config.json');
    const token = path.join(folder, 'token');
    writeFileSync(token, secret, { mode: 0o600 });
    const account = { name: 'mirror', baseUrl: both.served.web.apiUrl, token: { file: token } };
    const rateLimit = { requestsPerMinute: 1_000_000, concurrency: 4 };
    writeFileSync(config, JSON.stringify({ accounts: [account], rateLimit, minFreeBytes: 0 }), {
      mode: 0o600,
    });
    const sync = async (of: string) => {
      const args = ['sync', '--full', '--accept-endings', '--quiet', '--config', of];
      const { code, stderr } = await mailkeep(args);
      expect([code, stderr]).toEqual([0, '']);
    };
    const changing = both.sandbox.mailboxes.map(
      ({ resourceId }, i) => new Changing(both, resourceId, SEED * 100 + i),
    );
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const one of changing) for (let step = 0; step < STEPS; step += 1) await one.change();
      await sync(both.place.config);
      // The second archive sees two rounds of changes at once.
      if (round % 2 === 0) continue;
      // At rest: that a folder is gone takes a second pass to be sure of, in each archive.
      for (const of of [both.place.config, config, config]) await sync(of);
      const [first, second] = await Promise.all([
        held(both.place.data),
        held(path.join(folder, 'data')),
      ]);
      expect(first.messages).toBeGreaterThan(MAILBOXES * 2);
      expect({ round, seed: SEED, ...second }).toEqual({ round, seed: SEED, ...first });
    }
    const verified = await mailkeep(['verify', '--json', '--data', path.join(folder, 'data')]);
    expect(verified.code).toBe(0);
    expect(both.served.errors).toEqual([]);
  } catch (error) {
    console.log(`mirror of a mirror: MAILKEEP_SEED=${SEED}`);
    throw error;
  } finally {
    await both.close();
  }
});
