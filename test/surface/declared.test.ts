import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { realFiles } from '../../src/archive/file-system.ts';
import {
  CODEC,
  commitHash,
  encodeSegmentHeader,
  FLAG_PURGED,
  genesisHash,
  Identities,
  RECORD_HEADER_BYTES,
  RECORD_KIND,
  SEGMENT_HEADER_BYTES,
  STORED_KIND,
  segmentName,
  writeRecordHeader,
} from '../../src/archive/format.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { DEFAULT_CODEC, recipeLine } from '../../src/archive/payload.ts';
import { checkFormat } from '../../src/archive/recovery.ts';
import { encodeTrailer, PURGED_BIT, TRAILER_BYTES } from '../../src/archive/sealed-footer.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { CATALOG_VERSION } from '../../src/catalog/database.ts';
import { jsonSchemaText } from '../../src/core/config-schema.ts';
import { hasCode } from '../../src/core/errors.ts';
import { openState, stateFile } from '../../src/core/state.ts';
import { UNKNOWN_COPY } from '../../src/core/state-runs.ts';
import { answerLine, changeMessage, syncMessage } from '../../src/daemon/control.ts';
import { type MeasuredStatus, Metrics } from '../../src/daemon/metrics.ts';
import { daemonStatus } from '../../src/daemon/ports.ts';
import { PROGRAM } from '../../src/fleet/schema.ts';
import { EXTRACTOR_VERSION } from '../../src/mail/extraction.ts';
import { IMPORT_HOST } from '../../src/mail/identity.ts';
import {
  EXPORT_FORMATS,
  MANIFEST_NAME,
  MANIFEST_VERSION,
  UNFINISHED_NAME,
} from '../../src/transfer/export-manifest.ts';
import { copyStatus } from '../../src/verify/copy-facts.ts';
import { verificationStatus } from '../../src/verify/verification.ts';
import { linkAnswer, linkMessage } from '../../src/web/link-channel.ts';
import { sourceFiles } from '../architecture/source-tree.ts';
import { expectRecorded } from './recorded.ts';
import { schemaPaths } from './schema-paths.ts';

const AT = 1_700_000_000_000;
const ISO = new Date(AT).toISOString();

test('the metrics page has the metrics that are recorded', async () => {
  const status: MeasuredStatus = {
    ...{ messages: 1, bytes: 2, logBytes: 3, catalogBytes: 4, pending: 5 },
    traffic: [
      { account: 'home', host: 'host', limit: 9, bytes: 8, heldUntil: null, completeAt: null },
    ],
    budget: [{ gate: 'host main', learnedPerMinute: 42, announcedPerMinute: null, heldUntil: ISO }],
    mailboxes: [
      {
        ...{ host: 'host', resourceId: 'AC1', address: 'ada@example.org', unwatched: false },
        ...{ provenAt: ISO, complete: true, certifiedAt: ISO, messages: 1, quarantined: 1 },
        ...{ held: 1, unread: 0, ended: 0, suspendedSince: ISO, leftBehindAt: null, folders: [] },
        quota: { at: ISO, resources: [{ name: 'STORAGE', usage: 1, limit: 2 }] },
      },
    ],
    verification: verificationStatus({
      ...{ at: AT, mode: 'full', checked: 1, of: 1, fullAt: AT, ok: false, drill: null },
      damage: { since: AT, found: 1, findings: [{ what: 'log', id: null, text: 'x' }] },
    }),
  };
  const copy = copyStatus(
    's3://bucket/mail',
    {
      ...UNKNOWN_COPY,
      made: { at: AT, commit: 1, encrypted: true },
      plan: { everyMs: 1, since: AT, currentAt: 0 },
      checked: { at: AT, checked: 1, of: 1, unit: 'segment', found: 1, fullAt: AT },
      damage: { since: AT, found: 1, text: 'x', names: [] },
    },
    2,
    AT,
  );
  const shown = { status: () => status, copies: () => [copy] };
  const metrics = new Metrics({ version: '1', now: () => AT, ...shown });
  const request = { account: 'main', surface: 'mailbox', operation: 'getQuota' };
  metrics.request({ ...request, status: 200, ms: 1 });
  metrics.onRun({
    ...{ kind: 'sync', startedAt: AT, endedAt: AT, outcome: 'failed', accounts: [], mailboxes: [] },
    failures: [
      { account: 'main', mailbox: null, family: 'origin', code: 'origin.timeout', message: '' },
    ],
    counts: { added: 1, ended: 1, bytes: 1, requests: 1 },
  });
  metrics.webhookRequest('delivery');
  metrics.notification('url', 'sent');
  const text = await metrics.text(true);
  const recorded = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(
    ([, name = '', type = '']): [string, string] => {
      const sample = new RegExp(`^${name}(?:_bucket|_sum|_count)?(?:\\{(.*)\\})? \\S+$`, 'm');
      const found = sample.exec(text);
      if (found === null) throw new Error(`${name} has no sample that would show its labels`);
      const labels = [...(found[1] ?? '').matchAll(/(\w+)="/g)].map(([, label]) => label);
      return [
        name,
        `${type} {${labels
          .filter((label) => label !== 'le')
          .sort()
          .join(', ')}}`,
      ];
    },
  );
  expect(recorded.length).toBeGreaterThan(25);
  expectRecorded('metrics', { metrics: Object.fromEntries(recorded) });
});

test('the control socket takes and answers what is recorded', () => {
  const paths = (schema: z.ZodType) => schemaPaths(z.toJSONSchema(schema, { io: 'input' }));
  const asked = sourceFiles(['src']).flatMap(({ text }) =>
    [...text.matchAll(/^\s+case '((?:GET|POST) \/[a-z]+)':/gm)].map(([, line = '']) => line),
  );
  expect(asked.sort()).toEqual([
    'GET /metrics',
    'GET /status',
    'POST /hint',
    'POST /link',
    'POST /sync',
  ]);
  expectRecorded('control', {
    'GET /status: answer': paths(daemonStatus),
    'POST /hint: request': paths(changeMessage),
    'POST /link: answer': paths(linkAnswer),
    'POST /link: request': paths(linkMessage),
    'POST /sync: answer, one line each': paths(answerLine),
    'POST /sync: request': paths(syncMessage),
  });
});

test('the configuration has the fields that are recorded', () => {
  const fields = schemaPaths(JSON.parse(jsonSchemaText()));
  expect(Object.keys(fields).length).toBeGreaterThan(60);
  expectRecorded('configuration', { fields });
});

test('files carry the marks that are recorded', async () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'mailkeep-formats-'));
  const log = await openLogWriter({ dir, now: () => AT });
  await log.close();
  (await openCatalog(dir)).close();
  openState(dir).close();
  const archiveId = Buffer.from('0102030405060708', 'hex');
  const space = { archiveId, segment: 1 };
  const genesis = genesisHash(archiveId);
  const header = Buffer.alloc(RECORD_HEADER_BYTES);
  const fields = { kind: 1, codec: 2, flags: 3, rawLength: 4, storedLength: 5, crc: 6 };
  writeRecordHeader(header, 0, { ...fields, hash: Buffer.alloc(32, 7) }, space, 64);
  const identities = new Identities();
  identities.add(RECORD_KIND.blob, 3, Buffer.alloc(32, 9));
  const segment = encodeSegmentHeader({
    ...{ archiveId, segment: 1, generation: 2, previousNumber: 0, previousHash: genesis },
  });
  const numbers = (record: Readonly<Record<string, number>>) =>
    Object.fromEntries(Object.entries(record).map(([name, number]) => [name, String(number)]));
  expectRecorded('formats', {
    archive: {
      FORMAT: readFileSync(path.join(dir, 'FORMAT'), 'utf8').trimEnd(),
      'newest format that is read': newestFormat(dir),
      'first commit': commitHash(genesis, 1, AT, identities),
      'genesis hash': genesis,
      recipe: recipeLine({ parts: [['raw', 1]], sha256: 'ab', size: 1 }).trimEnd(),
      'record header': header.toString('hex'),
      'segment header': segment.toString('hex'),
      'segment name': segmentName({ segment: 1, generation: 2 }),
      trailer: encodeTrailer(space, 64, 100).toString('hex'),
      'default codec': DEFAULT_CODEC,
      ...numbers({
        'bytes of a record header': RECORD_HEADER_BYTES,
        'bytes of a segment header': SEGMENT_HEADER_BYTES,
        'bytes of a trailer': TRAILER_BYTES,
        'flag of purged': FLAG_PURGED,
        'bit of purged': PURGED_BIT,
      }),
    },
    catalog: {
      version: String(CATALOG_VERSION),
      'version of a new one': String(userVersion(path.join(dir, 'catalog.sqlite'))),
      'version of extracted text': String(EXTRACTOR_VERSION),
    },
    'catalog tables': tables(path.join(dir, 'catalog.sqlite')),
    codecs: numbers(CODEC),
    export: {
      manifest: MANIFEST_NAME,
      unfinished: UNFINISHED_NAME,
      version: MANIFEST_VERSION,
      formats: EXPORT_FORMATS.join(', '),
    },
    import: { host: IMPORT_HOST },
    'record kinds': numbers(STORED_KIND),
    registry: { 'version of the program': String(PROGRAM) },
    state: { version: String(userVersion(stateFile(dir))) },
    'state tables': tables(stateFile(dir)),
  });
});

/** The highest number that FORMAT may say; leaves it there. */
function newestFormat(dir: string): string {
  const file = path.join(dir, 'FORMAT');
  for (let number = 1; ; number += 1) {
    writeFileSync(file, `mailkeep archive ${number}\n`);
    try {
      checkFormat(realFiles, dir);
    } catch (error) {
      if (!hasCode(error, 'archive-format-newer')) throw error;
      return String(number - 1);
    }
  }
}

function userVersion(file: string): unknown {
  return reading(file, (database) => database.pragma('user_version', { simple: true }));
}

/** Columns with their types by table; tables that SQLite keeps for full-text indexes are left out. */
function tables(file: string): Record<string, string> {
  const named = z.array(z.object({ name: z.string(), type: z.string() }));
  return reading(file, (database) => {
    const names = named.parse(
      database.prepare("SELECT name, type FROM sqlite_master WHERE type = 'table'").all(),
    );
    return Object.fromEntries(
      names.map(({ name }) => {
        const columns = named.parse(database.pragma(`table_info(${name})`));
        return [name, columns.map((column) => `${column.name} ${column.type}`.trim()).join(', ')];
      }),
    );
  });
}

function reading<T>(file: string, read: (database: Database.Database) => T): T {
  const database = new Database(file, { readonly: true });
  onTestFinished(() => {
    database.close();
  });
  return read(database);
}
