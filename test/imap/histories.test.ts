import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Seeded, seeded } from '../bench/seeded.ts';
import { startCyrus, withoutCyrus } from './cyrus.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import type { Fault } from './faults.ts';
import { OutsideClient } from './outside-client.ts';
import { ImapProxy } from './proxy.ts';
import { Relay } from './relay.ts';
import type { MailServer } from './server.ts';
import { World } from './world.ts';

/** `MAILKEEP_IMAP_HISTORIES=170` runs as many on each server, from seed `MAILKEEP_IMAP_HISTORY` on. */
const { MAILKEEP_IMAP_HISTORIES: wanted = '20', MAILKEEP_IMAP_HISTORY: first = '1' } = process.env;
const SEEDS = Array.from({ length: Number(wanted) }, (_, i) => Number(first) + i);
const DAY = 86_400_000;

const SERVERS = [
  { name: 'Dovecot, maildir', without: withoutDovecot, start: startDovecot, sep: '/', prefix: '' },
  {
    name: 'Dovecot, sdbox',
    without: withoutDovecot,
    start: (options: { users: string[] }) =>
      startDovecot({ ...options, mailLocation: 'sdbox:~/mail' }),
    ...{ sep: '/', prefix: '' },
  },
  { name: 'Cyrus', without: withoutCyrus, start: startCyrus, sep: '.', prefix: 'INBOX.' },
] as const;

/** What another client does between and during the runs of a history. */
class Owner {
  readonly #sent: string[] = [];
  readonly #folders: readonly string[];
  #number = 0;

  constructor(
    private readonly client: OutsideClient,
    private readonly random: Seeded,
    prefix: string,
    private readonly sep: string,
  ) {
    const names = ['Sent', 'Drafts', 'A', 'B', `A${sep}x`, '&ZeVnLIqe-'];
    this.#folders = ['INBOX', ...names.map((name) => prefix + name)];
  }

  async change(): Promise<void> {
    const { client, random } = this;
    const [folder, other] = [this.#folder(), this.#folder()];
    const uids = `${1 + random.below(9)}:${1 + random.below(9)}`;
    switch (random.below(12)) {
      case 0:
      case 1:
      case 2:
        return this.#append(folder);
      case 3:
      case 4:
        await client.call('select', folder);
        await client.call('uid', 'MOVE', uids, other);
        return;
      case 5:
        await client.call('select', folder);
        await client.call('uid', 'COPY', uids, other);
        return;
      case 6:
      case 7: {
        const flags = ['(\\Seen)', '(\\Flagged kw)', '(\\Answered \\Seen)'][random.below(3)] ?? '';
        await client.call('select', folder);
        await client.call('uid', 'STORE', uids, random.below(2) === 0 ? '+FLAGS' : '-FLAGS', flags);
        return;
      }
      case 8:
        await client.call('select', folder);
        await client.call('uid', 'STORE', uids, '+FLAGS', '(\\Deleted)');
        await client.call('expunge');
        return;
      case 9: {
        if (random.below(2) === 0) return this.#delete(folder);
        const parent = this.#folders.find((name) => name.endsWith('A')) ?? '';
        for (const name of [`${parent}${this.sep}x`, parent])
          await client.call('create', `"${name}"`);
        if (random.below(2) === 0) await this.#append(`"${parent}"`);
        await client.call('delete', `"${parent}"`);
        return;
      }
      case 10: {
        this.#number += 1;
        const name = random.below(2) === 0 ? other : folder.replace(/"$/, `${this.#number}"`);
        if (!folder.includes('INBOX"')) await client.call('rename', folder, name);
        await client.call('create', folder);
        return;
      }
      default:
        // The new folder's uids start again, with other messages.
        if (random.below(2) === 0) await this.#delete(folder);
        await client.call('create', folder);
        for (let n = random.below(3); n > 0; n -= 1) await this.#append(folder);
    }
  }

  /** Dovecot still lists a folder that was deleted without the folder below it, but no longer opens it. */
  async #delete(folder: string): Promise<void> {
    if (this.random.below(2) === 0)
      await this.client.call('delete', folder.replace(/"$/, `${this.sep}x"`));
    await this.client.call('delete', folder);
  }

  /** Some messages have no Message-ID, some come twice, and a few are longer than what is fetched at once. */
  async #append(folder: string): Promise<void> {
    const { random } = this;
    this.#number += 1;
    const id = random.below(4) === 0 ? '' : `Message-ID: <${this.#number}@example.org>\r\n`;
    const body = random.below(40) === 0 ? 'x'.repeat(998).concat('\r\n').repeat(1_100) : 'x\r\n';
    const again = random.below(6) === 0 ? this.#sent[random.below(this.#sent.length)] : undefined;
    const text = again ?? `From: ada@example.org\r\nSubject: ${this.#number}\r\n${id}\r\n${body}`;
    this.#sent.push(text);
    const flags = random.below(2) === 0 ? '(\\Seen)' : '';
    // Copies in one second cannot be told apart by their listing.
    const date = `"01-Jan-2026 00:00:0${random.below(3)} +0000"`;
    await this.client.call('append', folder, flags, date, { bytes: text });
  }

  #folder(): string {
    return `"${this.#folders[this.random.below(this.#folders.length)] ?? 'INBOX'}"`;
  }
}

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const VERBS = ['LIST', 'EXAMINE', 'UID SEARCH', 'UID FETCH'];
const FAULTS = ['cut-before', 'cut-before-answer', 'hold-command', 'hold-answer'] as const;

function draw(random: Seeded, proxy: ImapProxy): Fault & { command: string } {
  const command = VERBS[random.below(VERBS.length)] ?? 'LIST';
  const sent = proxy.commands.filter(({ verb }) => verb === command).length;
  const nth = sent + 1 + (command === 'LIST' ? 0 : random.below(6));
  return { do: FAULTS[random.below(FAULTS.length)] ?? 'cut-before', command, nth };
}

describe.each(SERVERS)('$name', ({ without, start, sep, prefix }) => {
  const skipped = without();
  let server: MailServer;
  let client: OutsideClient;
  beforeAll(async () => {
    if (skipped) return;
    server = await start({ users: SEEDS.map((seed) => `user${seed}`) });
    client = new OutsideClient();
  }, 120_000);
  afterAll(async () => {
    client?.stop();
    await server?.stop();
  });

  /** A proxy, and in front of it a relay that divides what passes. */
  async function connect(random: Seeded) {
    const proxy = await ImapProxy.start({ to: server, readOnly: true });
    closing.push(() => proxy.stop());
    const relay = await Relay.start(proxy, random);
    closing.push(() => relay.stop());
    return { proxy, port: relay.port };
  }

  test.skipIf(skipped).each(SEEDS)(
    'history %i: the mirror equals the server at rest',
    async (seed) => {
      const random = seeded('imap histories', prefix, seed);
      const user = `user${seed}`;
      await client.signIn(server, user);
      const owner = new Owner(client, random, prefix, sep);
      const world = new World(server, user);
      closing.push(() => world.remove());
      const { proxy, port } = await connect(random);
      for (let step = 0; step < 3; step += 1) {
        for (let n = 2 + random.below(8); n > 0; n -= 1) await owner.change();
        const running: Promise<unknown>[] = [];
        let kill: () => void = () => {};
        for (let faults = random.below(4); faults > 0; faults -= 1) {
          const fault = draw(random, proxy);
          const changes = random.below(3);
          const act = async () => {
            // The owner's changes fall exactly between a command and its answer.
            for (let n = changes; n > 0; n -= 1) await owner.change();
            if (fault.do === 'hold-answer') kill();
            proxy.release();
          };
          // From the moment it happens: a cut does not keep the run from ending first.
          void proxy.plan(fault).then(() => running.push(act()));
        }
        if (seed % 10 === 0 && step > 0) {
          const { child, ended } = world.start(port);
          kill = () => child.kill('SIGKILL');
          await ended;
        } else await world.sync(port);
        await Promise.all(running);
        world.clock.advance(60_000);
      }

      // Nothing happens any more.
      const rest = await connect(random);
      await proxy.stop();
      for (let day = 0; day < 3; day += 1) {
        world.clock.advance(2 * DAY);
        await world.sync(rest.port, { full: day === 1, acceptEndings: true });
      }
      expect(await world.mirrored()).toEqual(await world.atServer());
      const sent = rest.proxy.commands.length;
      const last = await world.sync(rest.port);
      expect(last.failures).toEqual([]);
      for (const sums of last.certificates) expect(sums).toMatchObject({ complete: true, held: 0 });
      const verbs = rest.proxy.commands.slice(sent).map(({ verb }) => verb);
      expect(verbs.filter((verb) => verb === 'LIST')).toHaveLength(1);
      // Only what Dovecot lists, but does not open.
      const names = await world.nonexistent();
      expect(verbs.filter((verb) => verb !== 'LIST' && VERBS.includes(verb))).toEqual(
        names.map(() => 'EXAMINE'),
      );
      expect(rest.proxy.happened).toEqual([]);
    },
    60_000,
  );
});
