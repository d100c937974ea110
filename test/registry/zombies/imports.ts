import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import {
  beginImport,
  coverImported,
  finishImport,
  type ImportedRange,
  resumeImport,
  tailImported,
} from '../../../src/registry/imports.ts';
import { resolve } from '../../../src/registry/leases.ts';
import type { Lease } from '../../../src/registry/outcome.ts';
import { done, sha256 } from '../servers/fleet.ts';
import { as, ready, sent, staleObject, statement, type Zombie } from './kinds.ts';
import {
  IMPORT_END,
  IMPORTED,
  NEXT_BATCH,
  NEXT_RANGE,
  type Scene,
  type Transaction,
} from './scene.ts';

type Name = Extract<Transaction, 'trimImport' | 'coverImported' | 'tailImported' | 'finishImport'>;

/** Everything that believes wrongly to be importing. */
function ofImporter(name: Name): readonly Zombie[] {
  const by = 'lease';
  const other = (zombie: string, change: (scene: Scene) => Partial<Lease>): Zombie => ({
    ...{ zombie, by },
    send: (scene) => scene.send[name]({ ...scene.importer, ...change(scene) }),
  });
  return [
    as('another importer continued since', by, name, ({ registry, importer }) =>
      resumeImport(registry, importer.archive, randomUUID()).then(done),
    ),
    as('the same session continued since', by, name, ({ registry, importer }) =>
      resumeImport(registry, importer.archive, importer.session).then(done),
    ),
    as('an outcome was resolved since', by, name, ({ registry, importer }) =>
      resolve(registry, importer).then(done),
    ),
    as('a failover handed the epoch out twice', by, name, ({ other: holder, importer, ...scene }) =>
      statement(scene, sql`UPDATE archive SET holder = ${holder} WHERE id = ${importer.archive}`),
    ),
    as('the import ended since', by, name, sent('finishImport')),
    as('the import was called off since', by, name, sent('callOffImport')),
    as('the archive is active', by, name, ({ importer, ...scene }) =>
      statement(scene, sql`UPDATE archive SET state = 'active' WHERE id = ${importer.archive}`),
    ),
    other('another living session has the epoch right', ({ other: session }) => ({ session })),
    other('an unknown session has the epoch right', () => ({ session: randomUUID() })),
    other('an epoch that was never given out', ({ importer }) => ({ epoch: importer.epoch + 1 })),
    other('an archive that is no import', ({ archive }) => ({ archive })),
    other('the holder of an archive that is no import', ({ lease }) => lease),
  ];
}

/** Whoever does not look whether there is an import. */
function ofNoImport(name: 'resumeImport' | 'callOffImport'): readonly Zombie[] {
  return [
    as('the import ended since', 'state', name, sent('finishImport')),
    as('the import was called off since', 'state', name, sent('callOffImport')),
    {
      zombie: 'an archive that is no import',
      by: 'state',
      send: (scene) => scene.send[name](scene.lease),
    },
    {
      zombie: 'an archive that does not exist',
      by: 'state',
      send: (scene) => scene.send[name]({ ...scene.importer, archive: 99 }),
    },
  ];
}

const otherRange = (
  zombie: string,
  by: 'head' | 'range',
  change: Partial<ImportedRange>,
): Zombie => ({
  ...{ zombie, by },
  send: ({ registry, importer }) =>
    coverImported(registry, importer, ready('c/import'), { ...NEXT_RANGE, ...change }),
});

const otherEnd = (
  zombie: string,
  by: 'head' | 'range',
  change: Partial<typeof IMPORT_END>,
): Zombie => ({
  ...{ zombie, by },
  send: ({ registry, importer }) => finishImport(registry, importer, { ...IMPORT_END, ...change }),
});

export const IMPORT_ZOMBIES = {
  beginImport: [
    as('the same import has begun', 'name', 'beginImport', sent('beginImport')),
    {
      zombie: 'the tenant has an account of that name',
      by: 'name',
      send: ({ registry }) => {
        const account = { ...IMPORTED, name: 'anna', logId: Buffer.alloc(8, 9) };
        return beginImport(registry, account, randomUUID(), () => []);
      },
    },
    {
      zombie: 'the log is being imported under another name',
      by: 'log',
      send: ({ registry }) =>
        beginImport(registry, { ...IMPORTED, name: 'again' }, randomUUID(), () => []),
    },
    {
      zombie: 'the log was imported by another tenant',
      by: 'log',
      before: sent('finishImport'),
      send: ({ registry }) =>
        beginImport(registry, { ...IMPORTED, tenant: 'other' }, randomUUID(), () => []),
    },
  ],
  resumeImport: ofNoImport('resumeImport'),
  callOffImport: ofNoImport('callOffImport'),
  trimImport: ofImporter('trimImport'),
  coverImported: [
    ...ofImporter('coverImported'),
    ...staleObject('coverImported', 'c/import'),
    as('the same cover came before', 'head', 'coverImported', sent('coverImported')),
    as('the tail has the commit', 'head', 'coverImported', sent('tailImported')),
    as('what it follows was removed', 'head', 'coverImported', sent('trimImport')),
    otherRange('begins too early', 'head', { first: 4 }),
    otherRange('begins too late', 'head', { first: 6 }),
    otherRange('follows another commit', 'head', { previousHash: sha256('fork') }),
    otherRange('ends before it begins', 'range', { last: 4 }),
    otherRange('is of a closed segment', 'range', { segment: 1 }),
    otherRange('leaves a segment out', 'range', { segment: 4, at: 64 }),
    otherRange('does not begin where its segment does', 'range', { segment: 3 }),
    otherRange('seals a segment whose beginning is stored', 'range', { generation: 2 }),
  ],
  tailImported: [
    ...ofImporter('tailImported'),
    as('the same commit came before', 'head', 'tailImported', sent('tailImported')),
    as('an object holds the commit', 'head', 'tailImported', sent('coverImported')),
    as('what it follows was removed', 'head', 'tailImported', sent('trimImport')),
    {
      zombie: 'it follows another commit',
      by: 'head',
      send: ({ registry, importer }) =>
        tailImported(registry, importer, [{ ...NEXT_BATCH, previousHash: sha256('fork') }]),
    },
    {
      zombie: 'its second commit does not follow the first',
      by: 'head',
      send: ({ registry, importer }) =>
        tailImported(registry, importer, [NEXT_BATCH, { ...NEXT_BATCH, number: 7 }]),
    },
  ],
  finishImport: [
    ...ofImporter('finishImport'),
    as('what was stored was removed', 'head', 'finishImport', sent('trimImport')),
    as('another commit was stored since', 'head', 'finishImport', sent('tailImported')),
    otherEnd('ends too early', 'head', { headNumber: 3 }),
    otherEnd('ends with another commit', 'head', { headHash: sha256('fork') }),
    otherEnd('continues a closed segment', 'range', { hotSegment: 1 }),
    as('a commit is missing', 'range', 'finishImport', ({ importer, ...scene }) =>
      statement(
        scene,
        sql`UPDATE cover SET first = 2 WHERE archive = ${importer.archive} AND first = 1`,
      ),
    ),
    {
      zombie: 'its snapshot was condemned',
      by: 'object',
      send: ({ registry, importer }) =>
        finishImport(registry, importer, IMPORT_END, {
          snapshot: {
            uploaded: ready('c/condemned'),
            ...{ number: 4, hash: sha256('batch 4'), catalogVersion: 1 },
          },
        }),
    },
  ],
} satisfies Partial<Record<Transaction, readonly Zombie[]>>;
