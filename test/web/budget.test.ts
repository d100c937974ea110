import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { makeSyntheticCatalog } from '../bench/synthetic-catalog.ts';
import { mailkeep } from '../cli/child.ts';
import { letter, Served } from './served.ts';

/** What browsers may have to load, in bytes after gzip: docs/web.md has the same figures. */
const MOST = { scripts: 60_000, scriptsOfMail: 42_000, stylesOfMail: 10_000 };
/** The first page with its scripts and styles, in bytes on the wire. */
const MOST_OF_FIRST_PAGE = 60_000;

const folder = fileURLToPath(new URL('../../dist/web/', import.meta.url));
const assets = z
  .object({
    names: z.record(z.string(), z.string()),
    served: z.array(z.string()),
    compressed: z.array(z.string()),
  })
  .parse(JSON.parse(readFileSync(`${folder}assets.json`, 'utf8')));

const fileOf = (name: string) => (assets.compressed.includes(name) ? `${name}.br` : name);

function contentOf(name: string): Buffer {
  const bytes = readFileSync(folder + fileOf(name));
  return assets.compressed.includes(name) ? brotliDecompressSync(bytes) : bytes;
}

function packed(name: string): number {
  return gzipSync(contentOf(name), { level: 9 }).length;
}

function sum(names: Iterable<string>): number {
  return [...names].reduce((total, name) => total + packed(name), 0);
}

/** A script with all that it imports before it runs; what it imports later is not among them. */
function withImports(name: string, found = new Set<string>()): Set<string> {
  if (found.has(name)) return found;
  found.add(name);
  const source = contentOf(name).toString('utf8');
  for (const [, imported] of source.matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g))
    withImports(imported ?? '', found);
  return found;
}

test('all that is served is what the build made', () => {
  const made = readdirSync(folder).filter((name) => name !== 'assets.json');
  const stored = assets.served.map((name) => fileOf(name));
  expect(made.sort()).toEqual(stored.sort());
});

test('the first page of 5,000 messages keeps its budget on the wire', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'budget-'));
  writeFileSync(path.join(folder, 'a.eml'), letter('One', 'text'));
  const data = path.join(folder, 'archive');
  const { code } = await mailkeep([
    'import',
    '--data',
    data,
    '--quiet',
    path.join(folder, 'a.eml'),
  ]);
  expect(code).toBe(0);
  await makeSyntheticCatalog(data, 5_000, 7, () => {});
  const served = await new Served().startSignedIn(data);
  onTestFinished(() => served.close());
  const ask = (address: string) =>
    served.ask(address, {
      headers: { cookie: served.cookie, 'accept-encoding': 'gzip, deflate, br, zstd' },
    });
  const html = await ask('/mail');
  expect(html.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
  const text = gunzipSync(html.bytes).toString();
  expect(text).toContain('5,001');
  const parts = [...new Set(text.match(/\/assets\/[^"]+\.(?:js|css|svg)(?=")/g))].filter(
    (name) => !/later-/.test(name),
  );
  const scripts = parts.filter((name) => name.endsWith('.js'));
  expect(scripts).toHaveLength(2);
  let bytes = html.bytes.length;
  for (const name of parts) {
    const { headers, bytes: packed } = await ask(name);
    expect([name, headers['content-encoding']]).toEqual([name, 'br']);
    expect(headers.vary?.toLowerCase()).toBe('accept-encoding');
    bytes += packed.length;
  }
  expect(bytes).toBeLessThanOrEqual(MOST_OF_FIRST_PAGE);
  // Data is compressed as well. A client that asks for nothing gets it as it is.
  const headers = { ...served.own(), 'accept-encoding': 'br, gzip' };
  const rows = await served.ask('/api/rows?limit=100', { headers });
  expect(rows.headers['content-encoding']).toBe('gzip');
  const { text: plain } = await served.ask('/api/rows?limit=100', { headers: served.own() });
  expect(gunzipSync(rows.bytes).toString()).toBe(plain);
  expect(rows.bytes.length).toBeLessThan(plain.length / 3);
});

test('forms have another token on each page, so that compression tells nothing of it', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'budget-'));
  writeFileSync(path.join(folder, 'a.eml'), letter('One', 'text'));
  const data = path.join(folder, 'archive');
  await mailkeep(['import', '--data', data, '--quiet', path.join(folder, 'a.eml')]);
  const served = await new Served().startSignedIn(data);
  onTestFinished(() => served.close());
  const token = async () =>
    /name="token" value="([^"]+)"/.exec((await served.get('/you')).text)?.[1];
  const [first, second] = [await token(), await token()];
  expect(first).toMatch(/^[\w-]{86}$/);
  expect(second).not.toBe(first);
  // Both are right, and a changed one is not.
  const end = (value = '') =>
    served.post('/you/end', { token: value, id: 'none' }, { cookie: served.cookie });
  expect((await end(first)).status).toBe(303);
  expect((await end(second)).status).toBe(303);
  expect((await end(`A${second?.slice(1)}`)).status).toBe(second?.startsWith('A') ? 303 : 403);
  expect((await end(second?.slice(43))).status).toBe(403);
});

test('no script of mail makes a format of Intl when it is loaded: the first one takes 40 ms', () => {
  for (const name of withImports(assets.names['app.js'] ?? '')) {
    const source = contentOf(name)
      .toString('utf8')
      .replaceAll('Intl.DateTimeFormat().resolvedOptions()', '');
    expect([name, source.includes('Intl.')]).toEqual([name, false]);
  }
});

test('scripts and styles keep their budget', () => {
  const scripts = assets.served.filter((name) => name.endsWith('.js'));
  const { names } = assets;
  const ofMail = withImports(names['app.js'] ?? '');
  // The list loads two scripts, and another follows with the first message.
  expect(ofMail.size).toBe(2);
  expect(scripts.length).toBe(ofMail.size + ['the third', 'enter.js', 'you.js'].length);
  expect(sum(scripts)).toBeLessThanOrEqual(MOST.scripts);
  expect(sum(ofMail)).toBeLessThanOrEqual(MOST.scriptsOfMail);
  const styles = ['style.css', 'without-script.css'].map((name) => names[name] ?? '');
  expect(sum(styles)).toBeLessThanOrEqual(MOST.stylesOfMail);
});
