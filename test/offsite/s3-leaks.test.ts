import { readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { bytesAsStream } from '../../src/copies/format/manifest.ts';
import { s3Store } from '../../src/copies/s3-store.ts';
import { mailkeep } from '../cli/child.ts';
import { sampleSources } from '../export/stored-archive.ts';
import { HttpProxy } from '../objects/servers/http-proxy.ts';
import { startRadosgw, withoutRadosgw } from '../objects/servers/radosgw.ts';
import { type S3Server, targetAt } from '../objects/servers/s3-server.ts';
import { ProgramArchive, s3Environment } from './copy-program.ts';
import { found, hashesOf, termsOf } from './leaks.ts';
import { signal } from './sample-copy.ts';

const skipped = withoutRadosgw();
const MAX_MESSAGES = process.env.MAILKEEP_CORPUS === undefined ? 80 : 400;
let server: S3Server;

beforeAll(async () => {
  if (!skipped) server = await startRadosgw();
});

afterAll(() => server?.stop());

/** RadosGW's names of requests: 16 random hexadecimal digits, which hold short terms by chance. */
const REQUEST_ID = /tx[0-9a-f]{21}-[0-9a-f]{10}-[0-9a-f]+/g;

/** A proxy, and everything that came through it, in both directions, but for the server's names of requests. */
async function recorded() {
  const proxy = await HttpProxy.start(server.port);
  onTestFinished(() => proxy.stop());
  const wire: Buffer[] = [];
  proxy.onExchange = ({ method, path: at, headers, body, answer }) => {
    const heads = JSON.stringify([method, at, decodeURIComponent(at), headers, answer.headers]);
    const answered = answer.body.toString('latin1');
    for (const text of [heads, answered]) {
      wire.push(Buffer.from(text.replace(REQUEST_ID, ''), 'latin1'));
    }
    wire.push(body);
  };
  return { proxy, wire };
}

/** The life of a copy of this mail: all objects there were, and all that came over the wire. */
async function copyOf(bucket: string, sources: readonly Buffer[]) {
  const { proxy, wire } = await recorded();
  const env = s3Environment(server, proxy.port);
  const archive = new ProgramArchive(env);
  onTestFinished(() => rmSync(archive.folder, { recursive: true }));
  const to = `s3://${bucket}/mail`;
  const store = s3Store(targetAt(server, bucket, { prefix: '' }));
  const objects: Buffer[] = [];
  const collect = async (): Promise<void> => {
    for await (const { name } of store.list('', signal)) {
      const pieces: Buffer[] = [Buffer.from(`${name}\n`)];
      for await (const piece of store.get(name, { signal })) pieces.push(piece);
      objects.push(Buffer.concat(pieces));
    }
  };
  const key = path.join(archive.folder, 'key.txt');
  const begun = ['copy', 'init', '--to', to, '--create-bucket', '--recovery-key-file', key];
  const half = Math.ceil(sources.length / 2);
  await archive.import(sources.slice(0, half));
  await archive.run(...begun);
  await archive.run('copy', '--to', to);
  await archive.closeSegment();
  if (half < sources.length) await archive.import(sources.slice(half));
  await archive.run('copy', '--to', to);
  await collect();
  await archive.run('verify', '--copy', to);
  const log = path.join(archive.data, 'log');
  const files = readdirSync(log).map((name) => readFileSync(path.join(log, name)));
  const { stdout } = await archive.ended(['list', '--limit', '1']);
  const { id } = JSON.parse(stdout.split('\n')[0] ?? '') as { id: string };
  await archive.run('forget', id, '--yes');
  await archive.run('copy', '--to', to);
  await collect();
  const back = path.join(archive.folder, 'back');
  const from = ['copy', '--from', to, '--to', back, '--recovery-key-file', key, '--json'];
  expect(await mailkeep(from, { env })).toMatchObject({ code: 0 });
  await store.close();
  return { archive, objects, wire, files, proxy };
}

describe.skipIf(skipped)('what leaves the machine', () => {
  test('no word, address, subject, file name, Message-ID or hash of the mail is in it', async () => {
    // What S3, HTTP and the format themselves say, whatever the mail.
    const nothing = await copyOf('b-1', [Buffer.from('From: a@b\r\n\r\n0\r\n')]);
    // An import reports empty files, and ends with 1.
    const sources = sampleSources(MAX_MESSAGES).filter((source) =>
      /\S/.test(source.toString('latin1')),
    );
    const terms = termsOf(sources);
    const own = found(terms, [...nothing.objects, ...nothing.wire]);
    for (const term of own) terms.delete(term);
    expect(own.size).toBeLessThan(200);

    const copy = await copyOf('b-2', sources);
    for (const file of copy.files) for (const hash of hashesOf(file)) terms.add(hash);
    const summary = `${sources.length} messages, ${terms.size} terms; ${own.size} are S3's own`;
    console.info(`${summary}: ${[...own].join(' ')}`);
    expect([...found(terms, copy.objects)]).toEqual([]);
    expect([...found(terms, copy.wire)]).toEqual([]);

    // The same search finds everything in mail that is sent as it is, and what a readable copy does not compress.
    const { proxy, wire } = await recorded();
    const plain = s3Store(targetAt(server, 'b-2', { prefix: 'plain', port: proxy.port }));
    for (const [at, source] of sources.entries()) {
      await plain.put(`data/${at}`, source.length, bytesAsStream(source), { signal });
    }
    await plain.close();
    const hashes = new Set([...sources, ...copy.files].flatMap(hashesOf));
    const open = [...terms].filter((term) => !hashes.has(term));
    expect(found(open, wire).size).toBe(open.length);
    const readable = path.join(copy.archive.folder, 'readable');
    await copy.archive.run('copy', '--to', readable);
    const log = path.join(readable, 'log');
    const segments = readdirSync(log).map((name) => readFileSync(path.join(log, name)));
    expect(found(terms, segments).size).toBeGreaterThan(50);
  }, 300_000);
});
