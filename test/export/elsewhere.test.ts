import { mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { archiveError } from '../../src/archive/errors.ts';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { usageError } from '../../src/core/error-tables.ts';
import { exportBack } from '../../src/export/elsewhere/back.ts';
import { batchItem } from '../../src/export/elsewhere/batches.ts';
import { bodyOf, buffersOf } from '../../src/export/elsewhere/bodies.ts';
import {
  type ElsewhereOrigin,
  elsewhereOrigin,
  type FrontOptions,
  UnusableAnswer,
} from '../../src/export/elsewhere/front.ts';
import { checkExport } from '../../src/transfer/check-export.ts';
import { EXPORT_FORMATS } from '../../src/transfer/export-manifest.ts';
import type { ExportOptions } from '../../src/transfer/plan-export.ts';
import { runExport, runExportFrom } from '../../src/transfer/run-export.ts';
import { withoutSector } from '../archive/without-sector.ts';
import { bothEnds } from '../listener/both-ends.ts';
import { EVERYTHING, exporting, StoredArchive, sampleSources, tree } from './stored-archive.ts';

class Cut extends Error {}

/** Larger than what is held in memory whole. */
const LARGE = Buffer.concat([
  Buffer.from('Subject: large\r\n\r\n'),
  Buffer.alloc(5 << 20, 'From\n'),
]);

let archive: StoredArchive;
let first: number;
let work: string;
let number = 0;
const origins: ElsewhereOrigin[] = [];
/** It passes only where somebody waits. */
let time = 0;

beforeAll(async () => {
  archive = await StoredArchive.create();
  work = path.join(archive.dir, 'work');
  mkdirSync(work);
  first = await archive.store(
    [...sampleSources(15), LARGE].map((source) => ({ folder: 'INBOX', source })),
    { quarantined: [{ folder: 'INBOX', uid: 800 }] },
  );
  const late = [{ folder: 'Trash', source: Buffer.from('Subject: late\n\nx'), uid: 7 }];
  await archive.store(late, { ended: [{ folder: 'INBOX', uid: 2 }], delimiter: '/' });
});
afterEach(async () => {
  for (const origin of origins.splice(0)) await origin.close();
});
afterAll(() => archive.remove());

const fresh = (): string => path.join(work, `out-${++number}`);

type Sources = Pick<ExportOptions, 'catalog' | 'sources'>;

/** What answers for an archive. */
function behind({ catalog, sources, selection }: Sources & Pick<ExportOptions, 'selection'>) {
  return exportBack(() => ({
    ...{ catalog, sources },
    choose: async (_typed, ids) => {
      const docids = ids?.map((id) => archive.catalog.messages.docidOf(id) ?? 0);
      return {
        selection: docids === undefined ? selection : { ...selection, docids },
        unknown: [],
      };
    },
  }));
}

/** An archive behind requests. */
function elsewhere(
  options: Sources & Pick<ExportOptions, 'selection'>,
  change: Partial<FrontOptions> = {},
  through: (answer: Response, path: string) => Response = (answer) => answer,
) {
  const back = behind(options);
  const origin = elsewhereOrigin({
    async ask(request) {
      const answer = await back(request, () => undefined);
      return through(answer, new URL(request.url).pathname);
    },
    isPassing: (error) => error instanceof Cut,
    clock: () => time,
    pause: async (ms) => {
      time += ms;
    },
    signal: new AbortController().signal,
    typed: {},
    ids: undefined,
    onUnknown: () => undefined,
    ...change,
  });
  origins.push(origin);
  return origin;
}

/** The answer up to its `most`-th byte. */
function cutAt(answer: Response, most: number): Response {
  const { body, status } = answer;
  async function* pieces() {
    let left = most;
    for await (const piece of buffersOf(body)) {
      yield piece.subarray(0, left);
      left -= piece.length;
      if (left < 0) throw new Cut();
    }
  }
  return new Response(
    bodyOf(pieces(), () => undefined),
    { status },
  );
}

describe.each(EXPORT_FORMATS)('an export (%s) of an archive at another node', (format) => {
  const cases: readonly Partial<ExportOptions>[] = [
    {},
    { sidecar: true },
    { selection: { ...EVERYTHING, withDeleted: true } },
    { selection: { ...EVERYTHING, deleted: true } },
  ];

  it.each(cases)('has the same bytes as one that is made there (%#)', async (more) => {
    const options = { ...exporting(archive, fresh(), format), ...more };
    const here = await runExport(options);
    const to = fresh();
    const there = await runExportFrom(elsewhere(options), { ...options, to });
    expect({ ...there, to: here.to, manifest: here.manifest }).toEqual(here);
    expect(there.exported).toBeGreaterThan(0);
    expect(contents(to)).toEqual(contents(options.to));
  });

  it('asks for small messages many at a time, and for nothing that is there', async () => {
    const options = exporting(archive, fresh(), format);
    let asked = 0;
    const counted = (answer: Response): Response => {
      asked += 1;
      return answer;
    };
    const { exported } = await runExportFrom(elsewhere(options, {}, counted), options);
    // The selection, the large one, and the small ones before and after it.
    expect(exported).toBeGreaterThan(10);
    expect(asked).toBeLessThanOrEqual(4);
    const before = asked;
    const again = { ...options, incremental: format === 'zip' || format === 'mbox' };
    const second = await runExportFrom(elsewhere(again, {}, counted), again);
    expect(second).toMatchObject({ exported: 0, skipped: exported });
    // Every zip is made again, also of what the one before has.
    if (format !== 'zip') expect(asked).toBe(before + 1);
  });

  it('adds what is new to an earlier one', async () => {
    const earlier = { ...EVERYTHING, asOf: first };
    const results = [];
    for (const isHere of [true, false]) {
      const then = { ...exporting(archive, fresh(), format), selection: earlier };
      const now = { ...then, selection: EVERYTHING, incremental: true };
      const run = (one: ExportOptions) =>
        isHere ? runExport(one) : runExportFrom(elsewhere(one), one);
      await run(then);
      const { exported, skipped, kept } = await run(now);
      results.push({ exported, skipped, kept, contents: contents(then.to) });
    }
    expect(results[1]).toEqual(results[0]);
    expect(results[1]).toMatchObject({ exported: 1, kept: 1 });
  });

  it('asks again for what was cut off, from where it ended', async () => {
    const options = { ...exporting(archive, fresh(), format), sidecar: true };
    await runExport(options);
    const to = fresh();
    let asked = 0;
    const cut = (answer: Response): Response => {
      asked += 1;
      // Every second answer is cut, the selection not among them.
      return asked % 2 === 0 ? cutAt(answer, (asked * 7919) % 300_000) : answer;
    };
    await runExportFrom(elsewhere(options, {}, cut), { ...options, to });
    expect(contents(to)).toEqual(contents(options.to));
  });

  it('gives up where nothing more comes, and leaves nothing that looks whole', async () => {
    const options = exporting(archive, fresh(), format);
    let asked = 0;
    const cut = (answer: Response): Response => {
      asked += 1;
      return asked === 1 ? answer : cutAt(answer, 0);
    };
    const origin = elsewhere(options, {}, cut);
    await expect(runExportFrom(origin, options)).rejects.toThrow(Cut);
    const left = readdirSync(work, { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.startsWith(path.basename(options.to)),
    );
    expect(
      left.filter((name) => name.endsWith('.tmp') || name.endsWith('keep-export.json')),
    ).toEqual([]);
    if (format === 'zip') expect(left).toEqual([]);
  });

  it('writes no bytes that are not those of the message', async () => {
    const options = exporting(archive, fresh(), format);
    let asked = 0;
    const wrong = (answer: Response): Response => {
      asked += 1;
      // First among others, then alone.
      const forged = Buffer.from('Subject: forged\n\nnot this one');
      if (asked === 2) return new Response(new Uint8Array(batchItem(forged)));
      return asked === 3 ? new Response(new Uint8Array(forged)) : answer;
    };
    const result = await runExportFrom(elsewhere(options, {}, wrong), options);
    expect(result).toMatchObject({ damaged: 1, places: result.exported + 1 + result.quarantined });
    for (const bytes of contents(options.to).values())
      expect(bytes.includes('not this one')).toBe(false);
  });

  it('names what is damaged there as that node would', async () => {
    const sources = openLogReader({
      ...{ dir: archive.dir, locator: archive.catalog.locator },
      files: withoutSector(5, 'short'),
    });
    try {
      const options = { ...exporting(archive, fresh(), format), sources };
      const here = await runExport(options);
      const to = fresh();
      const there = await runExportFrom(elsewhere(options), { ...options, to });
      expect(there.damaged).toBeGreaterThan(0);
      expect(there.failures).toEqual(here.failures);
      expect(contents(to)).toEqual(contents(options.to));
    } finally {
      sources.close();
    }
  });
});

describe('a selection for another node', () => {
  const options = () => exporting(archive, fresh(), 'eml');

  it('names messages by any number of ids', async () => {
    const all = [...archive.catalog.listPlaces({})].flatMap(({ line }) => line.id ?? []);
    const ids = Array.from({ length: 20_000 }, (_, i) => all[i % 3] ?? '');
    const wanted = new Set(all.slice(0, 3)).size;
    const run = options();
    const result = await runExportFrom(elsewhere(run, { ids }), run);
    expect(result.exported).toBe(wanted);
  });

  it('fails with the error of the other node', async () => {
    const run = options();
    const failing = (error: Error): Sources['catalog'] => ({
      ...archive.catalog,
      snapshot: () => {
        throw error;
      },
    });
    const unknown = failing(usageError('usage-unknown-message', { id: 'abc' }));
    const refused = runExportFrom(elsewhere({ ...run, catalog: unknown }), run);
    await expect(refused).rejects.toMatchObject({
      code: 'usage-unknown-message',
      facts: { id: 'abc' },
    });
    // Its disk is none of ours.
    const full = failing(Object.assign(new Error('no room'), { code: 'ENOSPC' }));
    const failed = runExportFrom(elsewhere({ ...run, catalog: full }), run);
    await expect(failed).rejects.toThrow(UnusableAnswer);
    expect(readdirSync(work)).not.toContain(path.basename(run.to));
  });

  it('is refused in a few words where it is not understood', async () => {
    const back = behind(options());
    const id = 'ab'.repeat(32);
    for (const at of [`/messages/${id}?size=9&from=-5`, `/messages/${id}`]) {
      const answer = await back(new Request(`http://archive${at}`), () => undefined);
      const { thrown } = await answer.json();
      expect([at, answer.status, thrown.message]).toEqual([
        ...[at, 400, 'a request that is not understood'],
      ]);
    }
  });

  it.each([
    ['a page', () => new Response('<h1>Not found</h1>', { status: 404 })],
    ['nothing', () => new Response('')],
    [
      'facts that are none',
      () =>
        new Response('{"thrown":{"message":"","code":"x","ours":{"facts":null}}}', { status: 500 }),
    ],
    ['another line', () => new Response('{"place":{"line":1}}\n')],
  ])('does not understand %s', async (_what, answer) => {
    const run = options();
    const wrong = runExportFrom(elsewhere(run, {}, answer), run);
    await expect(wrong).rejects.toThrow(UnusableAnswer);
  });
});

describe('large messages from another node', () => {
  let large: StoredArchive;
  beforeAll(async () => {
    large = await StoredArchive.create();
    const sizes = [
      ...Array.from({ length: 24 }, () => 1 << 20),
      ...Array.from({ length: 4 }, () => 5 << 20),
    ];
    const letters = sizes.map((size, i) => ({
      folder: 'INBOX',
      source: Buffer.concat([Buffer.from(`Subject: ${i}\r\n\r\n`), Buffer.alloc(size, `${i} `)]),
    }));
    await large.store(letters);
  });
  afterAll(() => large.remove());

  it.each([
    ['eml', false],
    ['mbox', true],
    ['zip', false],
  ] as const)('come through one connection (%s)', async (format, statusHeaders) => {
    const options = { ...exporting(large, fresh(), format), statusHeaders };
    const here = await runExport(options);
    const back = behind(options);
    const { over } = bothEnds(7, back);
    const to = fresh();
    const origin = elsewhere(options, {
      ask: (request) => over.fetch(request),
      isPassing: () => false,
    });
    const there = await runExportFrom(origin, { ...options, to });
    over.close();
    expect(there).toMatchObject({ exported: here.exported, damaged: 0 });
    expect(contents(to)).toEqual(contents(options.to));
  });

  it.each(['mbox', 'zip'] as const)(
    'leave nothing where they are gone in the middle (%s)',
    async (format) => {
      const options = exporting(large, fresh(), format);
      const [first] = [...large.catalog.listPlaces({})].filter(({ line }) => line.size > 4 << 20);
      const id = first?.line.id ?? '';
      let isGone = false;
      const through = (answer: Response, at: string): Response => {
        if (at !== `/messages/${id}`) return answer;
        if (!isGone) {
          isGone = true;
          return cutAt(answer, 2 << 20);
        }
        const thrown = {
          message: '',
          code: 'bytes-purged',
          ours: { family: 'usage', facts: { hash: id } },
        };
        return Response.json({ thrown }, { status: 500 });
      };
      const result = await runExportFrom(elsewhere(options, {}, through), options);
      expect(result).toMatchObject({ purged: 1, damaged: 0, exported: result.places - 1 });
      expect(await checkExport({ at: options.to, signal: options.signal })).toMatchObject({
        sound: true,
      });
      const expected = exporting(large, fresh(), format);
      const sources = {
        ...large.sources,
        readMessage: (one: string) => large.sources.readMessage(one),
        streamMessage: (one: string) => {
          if (one === id) throw archiveError('bytes-purged', { hash: id });
          return large.sources.streamMessage(one);
        },
      };
      await runExport({ ...expected, sources });
      expect(contents(options.to)).toEqual(contents(expected.to));
    },
  );

  it('are not taken for longer than they are', async () => {
    const options = exporting(large, fresh(), 'eml');
    const endless = (answer: Response, at: string): Response =>
      at.length < 40 ? answer : new Response(new Uint8Array(6 << 20));
    const result = await runExportFrom(elsewhere(options, {}, endless), options);
    expect(result).toMatchObject({ exported: 0, damaged: 28 });
  });
});

/** What an export consists of: a file, or a folder of them. */
function contents(at: string): Map<string, Buffer> {
  const folder = path.dirname(at);
  return new Map(
    [...tree(folder)]
      .filter(([name]) => name.split(path.sep)[0] === path.basename(at))
      .map(([name, bytes]) => [name.slice(path.basename(at).length), bytes]),
  );
}
