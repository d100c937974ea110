import { existsSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { sql } from 'kysely';
import { segmentPath } from '../../../src/archive/format.ts';
import { s3Store } from '../../../src/copies/s3-store.ts';
import { verifiedBytes } from '../../../src/fleet/verified-bytes.ts';
import { readArchive } from '../../../src/registry/reading.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { randomFrom } from '../../../src/sandbox/generated-mail.ts';
import { startSandbox } from '../../../src/sandbox/sandbox.ts';
import { seeded } from '../../bench/seeded.ts';
import { Actor } from '../../bench/soak/origin-actor.ts';
import { ran } from '../../cli/surface.ts';
import { targetAt } from '../../objects/servers/s3-server.ts';
import { signal } from '../../objects/store-contract.ts';
import type { Place } from '../commands/place.ts';
import { addAccounts, nodeOf } from '../commands/running-worker.ts';
import type { Servers } from '../servers/scene.ts';
import { Faults } from './faults.ts';
import { History, NODES } from './history.ts';

const TURNS = 6;
const CHANGES = 12;
/** A watchdog, not a measure, in milliseconds. */
const HANGS_MS = 300_000;
const ADDRESSES = ['anna', 'ben'].map((name) => `${name}@example.org`);
const OFTEN = { sync: '* * * * * *', sweep: '*/2 * * * * *', jitterSeconds: 0 };

/** What a history did, and what is wrong at its end. */
export interface Played {
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
  const sandbox = await startSandbox({
    seed,
    addresses: ADDRESSES,
    mail: { messages: 40 },
  });
  const faults = await Faults.start(servers, seeded('worker faults', seed));
  const places = new Map<string, Place>();
  try {
    for (const node of NODES) {
      const first = places.get('one');
      const settings = { schedule: OFTEN };
      const made = first === undefined ? { settings } : { first, settings };
      places.set(node, await nodeOf(servers, node, { ...made, through: faults }));
    }
    const history = new History(program, places, random, faults);
    try {
      const [one] = places.values();
      if (one === undefined) throw new Error('there is no node');
      const accounts = await addAccounts(one, sandbox);
      const actor = new Actor(sandbox, random);
      const acts = async (): Promise<Place> => {
        faults.begin();
        for (const node of NODES) history.start(node);
        for (let turn = 0; turn < TURNS; turn += 1) {
          for (let change = 0; change < CHANGES; change += 1) actor.change();
          await history.turn();
        }
        return history.rest([...accounts.keys()]);
      };
      const place = await inTime(acts(), async () =>
        [`seed ${seed} hangs: ${history.story}`, ...(await traces(one, faults))].join('\n'),
      );
      await fetchSealed(servers, place);
      const problems = await problemsOf(history, { place, faults }, accounts);
      return { seed, changes: actor.changes, faults: faults.made, did: history.did, problems };
    } finally {
      await history.kill();
    }
  } finally {
    for (const place of places.values()) place.remove();
    await faults.stop();
    await sandbox.close();
  }
}

async function inTime<T>(work: Promise<T>, story: () => Promise<string>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      story().then((told) => reject(new Error(told)), reject);
    }, HANGS_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** What the registry says of logs and objects, what was asked of the store about each object, and what proxies did. */
async function traces({ registry }: Place, faults: Faults): Promise<string[]> {
  const heads = await registry.read<object>(
    'look at heads',
    sql`SELECT id, epoch, head_number, hot_segment, hot_offset, hot_previous FROM archive`,
  );
  const held = await registry.read<object>(
    'look at logs',
    sql`SELECT archive, number AS first, number AS last, segment, 0 AS generation, '' AS key FROM tail
      UNION ALL SELECT archive, first, last, segment, generation, key FROM cover ORDER BY 1, 2`,
  );
  const objects = await registry.read<{ key: string; state: string }>(
    'look at objects',
    sql`SELECT key, state FROM object ORDER BY begun_at`,
  );
  const asked = objects.map(({ key, state }) => {
    const requests = faults.http.seen.filter((one) => decodeURIComponent(one.path).includes(key));
    const told = requests.map(({ method, path: to, fault }) => {
      const query = to.includes('?') ? to.slice(to.indexOf('?')).slice(0, 30) : '';
      return `${method}${query}${fault === undefined ? '' : ` (${fault.do})`}`;
    });
    return `${state} ${key}: ${told.join(', ')}`;
  });
  return [...[...heads, ...held].map((row) => JSON.stringify(row)), ...asked, ...faults.sql.drawn];
}

/** Brings sealed segments into the folders: a worker fetches them when it needs them, and `verify` reads the folder alone. */
async function fetchSealed({ gateway }: Servers, { registry, folder, prefix }: Place) {
  const objects = s3Store(targetAt(gateway, 'fleet', { prefix }));
  try {
    for (const archive of await archivesOf(registry)) {
      const dir = path.join(folder, 'cache', String(archive.id));
      const stored = await readArchive(registry, archive.id);
      for (const cover of stored?.covers ?? []) {
        if (cover.generation === 1) continue;
        const file = segmentPath(dir, cover);
        if (!existsSync(file)) await writeFile(file, verifiedBytes(objects, cover, signal));
      }
    }
  } finally {
    await objects.close();
  }
}

async function archivesOf(registry: Registry) {
  return registry.read<{ id: number; name: string }>(
    'look at archives',
    sql`SELECT id, name FROM archive`,
  );
}

async function problemsOf(
  history: History,
  { place, faults }: { readonly place: Place; readonly faults: Faults },
  accounts: ReadonlyMap<string, object>,
): Promise<string[]> {
  const problems: string[] = [];
  const checked = await place.run(['check', '--read', '--json']);
  if (!/"damaged":0\b/.test(checked.stdout)) {
    problems.push(`check: ${checked.stdout}${checked.stderr}`, ...(await traces(place, faults)));
  }
  for (const { id, name } of await archivesOf(place.registry)) {
    const dataDir = path.join(place.folder, 'cache', String(id));
    problems.push(...(await history.lost(id, dataDir)));
    const config = path.join(place.folder, `${name}.json`);
    const own = { name, token: { file: 'token' }, ...accounts.get(name) };
    writeFileSync(config, JSON.stringify({ dataDir, accounts: [own] }), { mode: 0o600 });
    for (const args of [
      ['verify', '--data', dataDir],
      ['verify', '--origin', '--config', config],
    ]) {
      const { code, stdout, stderr } = await ran(args, { now: Date.now });
      if (code !== 0)
        problems.push(`${name}: ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
    }
  }
  return problems;
}
