import { mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openLogReader } from '../../src/archive/read/log-reader.ts';
import { usageError } from '../../src/errors/usage.ts';
import { exportBack } from '../../src/export/elsewhere/back.ts';
import { batchItem } from '../../src/export/elsewhere/batches.ts';
import { elsewhereOrigin, type FrontOptions } from '../../src/export/elsewhere/front.ts';
import type { ExportOptions } from '../../src/export/export-options.ts';
import { EXPORT_FORMATS } from '../../src/export/manifest.ts';
import { runExport, runExportFrom } from '../../src/export/run-export.ts';
import { withoutSector } from '../archive/without-sector.ts';
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
afterAll(() => archive.remove());

const fresh = (): string => path.join(work, `out-${++number}`);

type Sources = Pick<ExportOptions, 'catalog' | 'sources'>;

/** An archive behind requests. */
function elsewhere(
  options: Sources & Pick<ExportOptions, 'selection'>,
  change: Partial<FrontOptions> = {},
  through: (answer: Response) => Response = (answer) => answer,
) {
  const { catalog, sources, selection } = options;
  const back = exportBack({
    ...{ catalog, sources },
    choose: async (_typed, ids) => {
      const docids = [];
      for await (const id of ids ?? []) docids.push(archive.catalog.messages.docidOf(id) ?? 0);
      return { selection: ids === undefined ? selection : { ...selection, docids }, unknown: [] };
    },
  });
  return elsewhereOrigin({
    ask: async (request) => through(await back(request, () => undefined)),
    isCut: (error) => error instanceof Cut,
    typed: {},
    ids: undefined,
    onUnknown: () => undefined,
    ...change,
  });
}

/** The answer up to its `most`-th byte. */
function cutAt(answer: Response, most: number): Response {
  const { body, status } = answer;
  async function* pieces() {
    let left = most;
    for await (const piece of body ?? []) {
      if (piece.length > left) {
        yield piece.subarray(0, left);
        throw new Cut();
      }
      left -= piece.length;
      yield piece;
    }
  }
  const rest = pieces();
  const cut = new ReadableStream({
    async pull(controller) {
      try {
        const next = await rest.next();
        if (next.done === true) controller.close();
        else controller.enqueue(next.value);
      } catch (error) {
        controller.error(error);
      }
    },
  });
  return new Response(cut, { status });
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
    const { catalog } = archive;
    const all = [...catalog.listPlaces({})].flatMap(({ line }) => line.id ?? []);
    const ids = async function* () {
      for (let i = 0; i < 20_000; i += 1) yield all[i % 3] ?? '';
    };
    const wanted = new Set(all.slice(0, 3)).size;
    const run = options();
    const result = await runExportFrom(elsewhere(run, { ids: ids() }), run);
    expect(result.exported).toBe(wanted);
  });

  it('fails with the error of the ids, or of the other node', async () => {
    const run = options();
    const ids = async function* () {
      yield 'abc';
      throw usageError('usage-ids-unreadable', { source: 'x', reason: 'EIO' });
    };
    const unread = runExportFrom(elsewhere(run, { ids: ids() }), run);
    await expect(unread).rejects.toMatchObject({ code: 'usage-ids-unreadable' });
    const catalog: Sources['catalog'] = {
      ...archive.catalog,
      snapshot: () => {
        throw usageError('usage-unknown-message', { id: 'abc' });
      },
    };
    const refused = runExportFrom(elsewhere({ ...run, catalog }), run);
    await expect(refused).rejects.toMatchObject({
      code: 'usage-unknown-message',
      facts: { id: 'abc' },
    });
    expect(readdirSync(work)).not.toContain(path.basename(run.to));
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
