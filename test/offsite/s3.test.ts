import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { bytesAsStream } from '../../src/copies/format/manifest.ts';
import { ensureBucket, S3Store, s3Store } from '../../src/copies/s3-store.ts';
import { seeded } from '../bench/seeded.ts';
import { mailkeep } from '../cli/child.ts';
import { HttpProxy } from '../objects/servers/http-proxy.ts';
import { type Radosgw, startRadosgw, withoutRadosgw } from '../objects/servers/radosgw.ts';
import { targetAt } from '../objects/servers/s3-server.ts';
import { expectLife, objectsAt } from './copy-life.ts';
import { message, ProgramArchive, s3Environment } from './copy-program.ts';
import { expectExtended, expectLocked } from './locked-copy.ts';
import { signal } from './sample-copy.ts';

const skipped = withoutRadosgw();
const DATA = /^PUT .*\/data\//;
const MANIFEST = /^PUT .*\/manifests\//;
let server: Radosgw;

beforeAll(async () => {
  if (!skipped) server = await startRadosgw();
});

afterAll(() => server?.stop());

/** An archive with a message, a copy of it that has begun, and a proxy on the way there. */
async function begun({ onTestFinished }: TestContext, bucket: string, ...options: string[]) {
  const archive = new ProgramArchive(s3Environment(server));
  const proxy = await HttpProxy.start(server.port);
  onTestFinished(async () => {
    await proxy.stop();
    rmSync(archive.folder, { recursive: true });
  });
  const to = `s3://${bucket}/mail`;
  const key = path.join(archive.folder, 'recovery-key.txt');
  await archive.import([message(1, 'walrus')]);
  const init = ['copy', 'init', '--to', to, '--create-bucket', ...options];
  await archive.run(...init, '--recovery-key-file', key);
  /** Brings the copy back; returns the commit. */
  const back = async (name: string): Promise<unknown> => {
    const args = ['copy', '--from', to, '--to', path.join(archive.folder, name), '--json'];
    const ended = await mailkeep([...args, '--recovery-key-file', key], { env: archive.env });
    expect(`${ended.code} ${ended.stderr}`).toBe('0 ');
    return (JSON.parse(ended.stdout) as { number: number }).number;
  };
  return { archive, proxy, to, back, proxied: s3Environment(server, proxy.port) };
}

// At once, each in a bucket of its own, because they wait for the disk and the server most of the time.
describe.skipIf(skipped).concurrent('the program with RadosGW', () => {
  test('a copy lives, and comes back', () => expectLife(server, 'life'), 300_000);

  test('an interrupted copy leaves the one before, and continues', async (context) => {
    const { archive, proxy, to, back, proxied } = await begun(context, 'interrupted');
    const first = await archive.run('copy', '--to', to);
    await archive.import([message(2, 'ocelot', seeded('ocelot').bytes(500_000))]);
    await archive.closeSegment();
    const copying = archive.start(['copy', '--to', to], proxied);
    let isInterrupted = false;
    proxy.faultFor = (method, at) => {
      if (isInterrupted || !MANIFEST.test(`${method} ${at}`)) return undefined;
      isInterrupted = true;
      copying.child.kill('SIGINT');
      return { do: 'silence' };
    };
    expect(await copying.ended).toMatchObject({ code: 130 });
    expect(await back('before')).toBe(first.number);
    // What was uploaded is not uploaded again.
    const continued = await archive.run('copy', '--to', to);
    expect(continued).toMatchObject({ uploaded: 0, objects: 1 });
    expect(await back('after')).toBe(continued.number);
    expect(await objectsAt(server, 'interrupted', 'mail', 'data')).toHaveLength(2);
  }, 120_000);

  test('a second copier of the same archive ends with code 5', async (context) => {
    const { archive, proxy, to, proxied } = await begun(context, 'two-copiers');
    const reached = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    proxy.hold = async (method, at) => {
      if (!DATA.test(`${method} ${at}`)) return;
      reached.resolve();
      await release.promise;
    };
    const first = archive.start(['copy', '--to', to], proxied);
    await Promise.race([reached.promise, once(first.child, 'close')]);
    const second = await archive.ended(['copy', '--to', to]);
    expect(second.code).toBe(5);
    expect(second.stderr).toContain('offsite-in-use');
    release.resolve();
    expect(await first.ended).toMatchObject({ code: 0, stderr: '' });
    expect(await archive.run('copy', '--to', to)).toMatchObject({ uploaded: 0, objects: 1 });
  }, 120_000);

  test('a damaged segment is repaired from the bucket', async (context) => {
    const { archive, to } = await begun(context, 'repair');
    await archive.closeSegment();
    await archive.run('copy', '--to', to);
    const log = path.join(archive.data, 'log');
    const [name = ''] = readdirSync(log).filter((one) => one.includes('0000000001.'));
    const bytes = readFileSync(path.join(log, name));
    writeFileSync(
      path.join(log, name),
      bytes.fill(0x55, bytes.length >> 1, (bytes.length >> 1) + 40),
    );
    expect((await archive.ended(['verify'])).code).toBe(3);
    expect(await archive.run('verify', '--repair', '--from', to)).toMatchObject({
      ok: true,
      missing: [],
      unproven: [],
    });
    expect(await archive.run('verify')).toMatchObject({ ok: true });
  }, 120_000);

  test('where the bucket keeps versions, an older one is read if the newest is damaged', async (context) => {
    await ensureBucket(targetAt(server, 'versions'), signal, { lock: true });
    const { archive, to, back } = await begun(context, 'versions');
    const { number } = await archive.run('copy', '--to', to);
    const store = s3Store(targetAt(server, 'versions', { prefix: 'mail' }));
    context.onTestFinished(() => store.close());
    for (const folder of ['data', 'manifests']) {
      for (const name of await objectsAt(server, 'versions', 'mail', folder)) {
        const bytes = Buffer.from('overwritten');
        await store.put(name, bytes.length, bytesAsStream(bytes), { signal });
        expect(await store.versions(name, signal)).toHaveLength(2);
      }
    }
    // The damage is found all the same.
    const checked = await archive.ended(['verify', '--copy', to]);
    expect(checked.code).toBe(3);
    expect(JSON.parse(checked.stdout)).toMatchObject({ findings: [{}] });
    expect(await back('overwritten')).toBe(number);
    const client = new S3Store(targetAt(server, 'versions', { prefix: 'mail' }));
    context.onTestFinished(() => client.close());
    for (const name of await objectsAt(server, 'versions', 'mail', 'data')) {
      await client.deleteVersion(name, undefined, signal);
    }
    expect(await objectsAt(server, 'versions', 'mail', 'data')).toEqual([]);
    expect(await back('deleted')).toBe(number);
  }, 120_000);

  test('what is locked cannot be deleted, and what a lock keeps is named with its end', async (context) => {
    const copy = await begun(context, 'locked', '--object-lock');
    await expectLocked({ server, bucket: 'locked', ...copy });
  }, 120_000);

  test('locks are extended in time, only of the newest state, and without requests before', async (context) => {
    await ensureBucket(targetAt(server, 'extended'), signal, { lock: true });
    await expectExtended({ server, bucket: 'extended', ...(await begun(context, 'extended')) });
  }, 120_000);

  test('where nothing can be locked, --lock-days is refused and nothing is copied', async (context) => {
    const { archive, to } = await begun(context, 'unlocked');
    const again = ['copy', 'init', '--to', to, '--object-lock'];
    const refused = await archive.ended(again);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('--object-lock needs --create-bucket');
    for (const target of [to, path.join(archive.folder, 'disk')]) {
      const { code, stderr } = await archive.ended(['copy', '--to', target, '--lock-days', '1']);
      expect(code).toBe(2);
      expect(stderr).toContain('offsite-no-locks');
    }
    expect(await objectsAt(server, 'unlocked', 'mail', 'data')).toEqual([]);
    expect(existsSync(path.join(archive.folder, 'disk'))).toBe(false);
  }, 120_000);

  test('a full bucket is reported, and the copy stays what it was', async (context) => {
    const { archive, to, back } = await begun(context, 'full');
    const first = await archive.run('copy', '--to', to);
    await server.limit('full', 2_000_000);
    await archive.import([message(2, 'ocelot', seeded('ocelot').bytes(9_000_000))]);
    const full = await archive.ended(['copy', '--to', to]);
    expect(full.code).toBe(1);
    expect(full.stderr).toContain('store-full');
    expect(await back('before')).toBe(first.number);
    expect(await archive.run('verify', '--copy', to)).toMatchObject({ findings: [] });
    await server.limit('full', undefined);
    const copied = await archive.run('copy', '--to', to);
    expect(await back('after')).toBe(copied.number);
  }, 120_000);
});
