import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { nameInShard, sealSecrets } from '../../../src/fleet/account-settings.ts';
import { addAccounts } from '../../../src/fleet/accounts.ts';
import { readFleetKeys } from '../../../src/fleet/keys.ts';
import { requireFleet } from '../../../src/fleet/schema.ts';
import { randomFrom } from '../../../src/sandbox/generated-mail.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { seeded } from '../../bench/seeded.ts';
import { Actor } from '../../bench/soak/origin-actor.ts';
import { ran } from '../../cli/surface.ts';
import { FleetNode } from '../servers/fleet-nodes.ts';
import type { Servers } from '../servers/nodes.ts';
import { done } from '../servers/scene.ts';
import { Faults } from './faults.ts';
import { History, NODES } from './history.ts';

const TURNS = 6;
const CHANGES = 12;
/** A watchdog, not a measure, in milliseconds. */
const HANGS_MS = 300_000;
const ADDRESSES = ['anna', 'ben'].map((name) => `${name}@example.org`);

/** What a history did, and what is wrong at its end. */
interface Played {
  readonly seed: number;
  readonly changes: number;
  readonly faults: number;
  readonly did: readonly string[];
  readonly problems: readonly string[];
}

/** Plays one history against two workers, brings it to rest, and compares what is there with the origin. */
export async function playHistory(
  servers: Servers,
  program: string,
  seed: number,
): Promise<Played> {
  const random = randomFrom(seed, 'workers');
  const sandbox = await startSandbox({ seed, addresses: ADDRESSES, mail: { messages: 40 } });
  const faults = await Faults.start(servers, seeded('worker faults', seed));
  const nodes = new Map<string, FleetNode>();
  const history = new History(program, nodes, random, faults);
  try {
    for (const name of [...NODES, 'three']) {
      const first = nodes.get('one');
      const through = name === 'three' ? {} : { through: faults };
      nodes.set(name, await FleetNode.make(servers, name, { ...(first && { first }), ...through }));
    }
    const [one] = nodes.values();
    if (one === undefined) throw new Error('there is no node');
    const accounts = await addInOwnShards(one, sandbox);
    const actor = new Actor(sandbox, random);
    const acts = async (): Promise<void> => {
      faults.begin();
      for (const name of NODES) history.start(name);
      for (let turn = 0; turn < TURNS; turn += 1) {
        for (let change = 0; change < CHANGES; change += 1) actor.change();
        await history.turn();
      }
      await history.rest(accounts.map(({ account }) => nameInShard(account)));
      await history.takeOver('three', accounts.length);
    };
    await inTime(acts(), () => `seed ${seed} hangs: ${history.story}`);
    const problems: string[] = [];
    for (const account of accounts) {
      for (const name of ['one', 'three']) {
        problems.push(...(await history.missing(name, account.shard)));
      }
      problems.push(...(await compare(one, sandbox, account)));
    }
    const { did } = history;
    return { seed, changes: actor.changes, faults: faults.made, did, problems };
  } finally {
    history.kill();
    for (const node of nodes.values()) await node.remove();
    await faults.stop();
    await sandbox.close();
  }
}

interface Added {
  readonly account: number;
  readonly shard: number;
  readonly settings: object;
}

/** Adds one account for each mailbox, in a shard of its own. */
async function addInOwnShards(
  { registry, keyFile }: FleetNode,
  sandbox: Sandbox,
): Promise<readonly Added[]> {
  const fleet = await requireFleet(registry);
  const keys = readFleetKeys(keyFile);
  const secrets = new Map([['token', sandbox.tokens.mailbox]]);
  const added: Added[] = [];
  for (const address of ADDRESSES) {
    const settings = { baseUrl: sandbox.mailboxUrl, mailboxes: { include: [address] } };
    const seal = (id: number) => sealSecrets(keys, fleet.id, id, secrets);
    const account = { tenant: 'default', name: address.replace('@', '.'), settings, seal };
    const outcome = await addAccounts(registry, [account], () => [{ added: 0 }], 'test');
    const [one] = done(outcome).added;
    if (one !== undefined) added.push({ ...one, settings });
  }
  return added;
}

async function inTime<T>(work: Promise<T>, story: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(story())), HANGS_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Verifies a shard, and compares it with the origin. */
async function compare(
  { cache, folder }: FleetNode,
  sandbox: Sandbox,
  { account, shard, settings }: Added,
): Promise<string[]> {
  const dataDir = path.join(cache, String(shard));
  const name = nameInShard(account);
  const config = path.join(folder, `${name}.json`);
  const own = { name, token: sandbox.tokens.mailbox, ...settings };
  writeFileSync(config, JSON.stringify({ dataDir, accounts: [own] }), { mode: 0o600 });
  const problems: string[] = [];
  for (const args of [
    ['verify', '--data', dataDir],
    ['verify', '--origin', '--config', config],
  ]) {
    const { code, stdout, stderr } = await ran(args, { now: Date.now });
    if (code !== 0) {
      problems.push(`${name}: ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
    }
  }
  return problems;
}
