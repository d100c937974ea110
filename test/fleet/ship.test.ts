import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { readCatalogHead } from '../../src/catalog/implied.ts';
import { objectError } from '../../src/copies/errors.ts';
import { openExistingState } from '../../src/core/state.ts';
import { abandon } from '../../src/fleet/objects.ts';
import { exportRegistry, importRegistry } from '../../src/fleet/registry-export.ts';
import { readNote } from '../../src/fleet/take-over.ts';
import { type Cut, CuttingProxy } from './servers/cutting-proxy.ts';
import {
  bound,
  FLEET,
  type Fleet,
  KEYS,
  Node,
  type Servers,
  signal,
  withoutServers,
} from './servers/nodes.ts';
import { newShard, statement } from './servers/scene.ts';
import { twoNodes } from './servers/two-nodes.ts';

describe.skipIf(withoutServers())('a shard', () => {
  let servers: Servers;
  let fleet: Fleet;
  let a: Node;
  let b: Node;

  twoNodes((made) => {
    ({ servers, fleet, a, b } = made);
  });

  const rows = () =>
    statement<{ kind: string; state: string; count: number }>(
      fleet.registry,
      sql`SELECT kind, state, count(*) AS count FROM object GROUP BY 1, 2 ORDER BY 1, 2`,
    ).then((found) => found.map(({ kind, state, count }) => `${count} ${kind} ${state}`));
  const current = () =>
    statement<{ manifest: string; commit: number }>(
      fleet.registry,
      sql`SELECT manifest, commit_number AS commit FROM shard`,
    ).then(([row]) => row);

  test('what was shipped is taken over by another node, with catalog and state', async () => {
    expect(await a.takeOver()).toMatchObject({ from: 'nothing', aside: [] });
    expect(await a.ship()).toBe('nothing');
    await a.store(3);
    await a.log.rollIfLarger(1);
    await sealClosedSegments({ dir: a.dir, before: a.log.segment });
    await a.store(2);
    const state = openExistingState(a.dir);
    state?.set('suspended', '["mail.example.org","m1"]', 7);
    state?.close();
    expect(a.shipper?.isBehind()).toBe(true);
    expect(await a.ship(true)).toBe('shipped');
    expect(a.shipper?.isBehind()).toBe(false);
    expect(await rows()).toEqual([
      ...['1 manifest live', '1 segment live', '1 snapshot live', '1 state live', '1 tail live'],
    ]);
    // Also what is in the write-ahead log of SQLite only.
    const sizes = sql<{ bytes: number }>`SELECT catalog_bytes AS bytes FROM shard`;
    expect((await statement(fleet.registry, sizes))[0]?.bytes).toBeGreaterThan(50_000);
    await a.lose();
    expect(await b.takeOver()).toMatchObject({ from: 'bucket', aside: [] });
    expect(await b.commits()).toEqual(await a.commits());
    expect(readCatalogHead(b.dir)).toEqual(readCatalogHead(a.dir));
    expect(openExistingState(b.dir)?.get('suspended', '["mail.example.org","m1"]')).toBe(7);
    expect(readNote(b.dir)).toMatchObject({ shard: fleet.shard, commit: 5, done: 0 });
    await b.store();
    expect(await b.ship()).toBe('shipped');
    expect((await current())?.commit).toBe(6);
  });

  test('only what is new is uploaded, and what is replaced is condemned', async () => {
    await a.takeOver();
    await a.store(3);
    await a.log.rollIfLarger(1);
    await a.store();
    expect(await a.ship()).toBe('shipped');
    expect(await a.ship()).toBe('shipped');
    expect(await rows()).toEqual([
      ...[
        '1 manifest condemned',
        '1 manifest live',
        '1 segment live',
        '1 state live',
        '1 tail live',
      ],
    ]);
    await a.store();
    expect(await a.ship()).toBe('shipped');
    // The small parts of the open segment are joined.
    expect(await rows()).toContain('1 tail condemned');
    expect(await rows()).toContain('1 segment live');
  });

  test('a node that comes back continues with what it had not shipped', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship();
    await a.store(2);
    await a.close();
    await a.lose();
    const before = await a.commits();
    expect(await a.takeOver()).toMatchObject({ from: 'folder', aside: [] });
    expect(await a.commits()).toEqual(before);
    expect(await a.ship()).toBe('shipped');
    expect((await current())?.commit).toBe(4);
  });

  test('a folder that is behind is completed', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship();
    await a.close();
    await a.lose();
    await b.takeOver();
    await b.store(2);
    await b.log.rollIfLarger(1);
    await sealClosedSegments({ dir: b.dir, before: b.log.segment });
    await b.store(2);
    await b.log.rollIfLarger(1);
    await b.store(2);
    await b.ship();
    await b.lose();
    expect(await a.takeOver()).toMatchObject({ from: 'folder and bucket', aside: [] });
    expect(await a.commits()).toEqual(await b.commits());
    // The plain file of the sealed segment is gone.
    expect(readdirSync(path.join(a.dir, 'log')).toSorted()).toEqual([
      ...['0000000001.2.seg', '0000000002.1.seg', '0000000003.1.seg'],
    ]);
    await a.store();
    expect(await a.ship()).toBe('shipped');
  });

  test('a folder that ran ahead of another branch is set aside', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship();
    await a.store(2);
    const before = await a.commits();
    await a.close();
    await a.lose();
    await b.takeOver();
    await b.store(1);
    await b.ship();
    await b.lose();
    const { from, aside } = await a.takeOver();
    expect({ from, aside }).toEqual({ from: 'bucket', aside: [`${a.dir}.aside-1`] });
    expect(await a.commits()).toEqual(await b.commits());
    expect(await a.commits(`${a.dir}.aside-1`)).toEqual(before);
  });

  test('a damaged folder is set aside, and what was shipped is restored', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship();
    await a.close();
    await a.lose();
    rmSync(path.join(a.dir, 'log', '0000000001.1.seg'));
    expect(await a.takeOver()).toMatchObject({ from: 'bucket' });
    expect(await a.commits()).toHaveLength(2);
  });

  test('a folder in which no archive was made counts as none', async () => {
    await a.takeOver();
    await a.close();
    await a.lose();
    const files = ['FORMAT', 'catalog.sqlite', path.join('log', '0000000001.1.seg')];
    const unmake = () => {
      for (const name of files) rmSync(path.join(a.dir, name), { force: true });
    };
    unmake();
    expect(await a.takeOver()).toMatchObject({ from: 'folder', aside: [] });
    await a.close();
    await a.lose();
    unmake();
    await b.takeOver();
    await b.store();
    await b.ship();
    await b.lose();
    expect((await a.takeOver()).from).toBe('bucket');
    expect(await a.merge()).toEqual([{ merged: 0, purged: 0, damaged: 0 }]);
    expect(await a.commits()).toEqual(await b.commits());
  });

  test('objects that the bucket has lost are uploaded again', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship(true);
    expect(await a.shipper?.findMissing(signal)).toBe(0);
    const lost = a.shipper?.current?.clear.objects.map(({ name }) => name) ?? [];
    for (const name of lost) await fleet.store.delete(name, signal);
    expect(await a.shipper?.findMissing(signal)).toBe(lost.length);
    expect(a.shipper?.isBehind()).toBe(true);
    expect(await a.ship()).toBe('shipped');
    expect(await a.shipper?.findMissing(signal)).toBe(0);
    expect(a.shipper?.current?.clear.objects.filter(({ name }) => lost.includes(name))).toEqual([]);
    await a.lose();
    expect(await b.takeOver()).toMatchObject({ from: 'bucket' });
    expect(await b.commits()).toEqual(await a.commits());
  });

  test('an object that is missing does not make a folder another one', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship();
    await a.close();
    await a.lose();
    await b.takeOver();
    await b.store(2);
    await b.ship();
    await b.lose();
    const tail = b.shipper?.current?.secret.tail[0]?.name;
    a.objects = {
      ...bound(fleet.store),
      get(name, options) {
        if (name === tail) throw objectError('object-missing', { store: 's3', name });
        return fleet.store.get(name, options);
      },
    };
    await expect(a.takeOver()).rejects.toMatchObject({ code: 'object-missing' });
    a.objects = fleet.store;
    expect(await a.open()).toMatchObject({ from: 'folder and bucket', aside: [] });
  });

  test('a session that lost the shard ships nothing', async () => {
    await a.takeOver();
    await a.store();
    await a.ship();
    await a.lose();
    await b.takeOver();
    const before = await rows();
    await a.store();
    await expect(a.ship()).rejects.toMatchObject({ by: 'lease' });
    expect(await rows()).toEqual(before);
    expect(await b.commits()).toHaveLength(1);
  });

  test('an upload that was condemned is uploaded again', async () => {
    await a.takeOver();
    await a.store();
    const { registry } = fleet;
    const names = await statement<{ name: string }>(registry, sql`SELECT name FROM object`);
    expect(names).toEqual([]);
    // A collector takes everything for abandoned as soon as it is registered.
    await statement(
      registry,
      sql`CREATE FUNCTION hasty() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.state := 'condemned'; RETURN NEW; END $$`,
    );
    await statement(
      registry,
      sql`CREATE TRIGGER hasty BEFORE INSERT ON object FOR EACH ROW
        WHEN (NEW.kind = 'tail') EXECUTE FUNCTION hasty()`,
    );
    expect(await a.ship()).toBe('again');
    await statement(registry, sql`DROP TRIGGER hasty ON object`);
    expect(await a.ship()).toBe('shipped');
    expect(await rows()).toContain('1 tail live');
    expect(await abandon(registry, ['none'])).toBe(0);
  });

  test('what a take-over or a ship that was killed has left is removed', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship();
    await a.close();
    await a.lose();
    const left = [path.join(a.dir, 'snapshot-x'), `${a.dir}.new-x`];
    for (const folder of left) mkdirSync(folder);
    expect(await a.takeOver()).toMatchObject({ from: 'folder' });
    expect(left.filter((folder) => existsSync(folder))).toEqual([]);
  });

  test('is in the last export of the registry, also of one that was restored', async () => {
    const { registry, store } = fleet;
    const about = { id: FLEET, bucket: store.label };
    const version = (to: number) => statement(registry, sql`UPDATE fleet SET version = ${to}`);
    for (let n = 0; n < 25; n += 1) {
      await version(1_000 + n);
      await exportRegistry(registry, about, KEYS, store, signal);
    }
    await version(500);
    await newShard(registry, 'ben');
    await exportRegistry(registry, about, KEYS, store, signal);
    const again = await servers.postgres.open(await servers.postgres.create());
    expect(await importRegistry(again, KEYS, store, signal)).toEqual({ ...about, accounts: 2 });
    const names: string[] = [];
    for await (const { name } of store.list('registry/', signal)) names.push(name);
    expect(names).toHaveLength(24);
  });

  describe('whose answer is lost', () => {
    let proxy: CuttingProxy;

    beforeEach(async () => {
      proxy = await CuttingProxy.start(servers.postgres.socket);
      a = new Node('a', fleet, await servers.postgres.open(fleet.database, {}, proxy.folder));
    });
    afterEach(async () => {
      await proxy.stop();
      await a.close();
    });

    /** Cuts the transaction that ships: it comes after the upload of the manifest. */
    const cutShip = (text: string, how: Cut) => {
      const { store } = fleet;
      let isCut = false;
      a.objects = {
        ...bound(store),
        async completeUpload(upload, parts, stop) {
          await store.completeUpload(upload, parts, stop);
          if (isCut || !upload.name.startsWith('manifests/')) return;
          isCut = true;
          // Not the end of a registration, which came before.
          proxy.cutNext(text, how);
        },
      };
    };
    const readyToShip = async (text: string, how: Cut) => {
      cutShip(text, how);
      await a.takeOver();
      await a.store();
    };

    test('it was committed: the row says so', async () => {
      await readyToShip('commit\0', 'after');
      expect(await a.ship()).toBe('shipped');
      expect((await current())?.manifest).toBe(a.shipper?.current?.clear.name);
    });

    test('it was not committed: another manifest follows the same one', async () => {
      await readyToShip('commit\0', 'before');
      expect(await a.ship()).toBe('again');
      expect(await current()).toMatchObject({ manifest: null });
      expect(await a.ship()).toBe('shipped');
      // Its objects were uploaded, and are named again.
      expect(await rows()).toEqual([
        ...['1 manifest live', '1 manifest uploading', '1 state live', '1 tail live'],
      ]);
    });

    test('it is committed later: it is taken for what it is', async () => {
      await readyToShip('commit\0', 'held');
      expect(await a.ship()).toBe('again');
      expect(await current()).toMatchObject({ manifest: null });
      await proxy.deliver();
      await a.store();
      expect(await a.ship()).toBe('again');
      expect((await current())?.commit).toBe(1);
      expect(await a.ship()).toBe('shipped');
      expect((await current())?.commit).toBe(2);
    });

    test('a statement of it is lost: nothing has happened', async () => {
      await readyToShip('UPDATE object', 'after');
      await expect(a.ship()).rejects.toMatchObject({ code: 'registry-unreachable' });
      expect(await current()).toMatchObject({ manifest: null });
      expect(await a.ship()).toBe('shipped');
    });
  });
});
