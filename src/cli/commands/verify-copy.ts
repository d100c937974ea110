import { randomInt } from 'node:crypto';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openComparedCatalog } from '../../catalog/implied.ts';
import { type CheckedTarget, checkFolder, checkTarget } from '../../copies/check-copy.ts';
import { EXIT, type ExitCode } from '../../core/errors.ts';
import type { KnownFinding } from '../../core/state.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted } from '../../core/text.ts';
import { checkExport, type ExportCheck, type ExportFinding } from '../../transfer/check-export.ts';
import {
  type ExportTestFinding,
  type ExportTestResult,
  seededRandom,
  testExport,
} from '../../transfer/export-test.ts';
import { recordCopyCheck } from '../../verify/copy-facts.ts';
import { recordExportTest } from '../../verify/verification.ts';
import { type SampleSize, writeStateOrWarn } from '../../verify/verify.ts';
import { requireArchiveDir, withReader } from '../archive.ts';
import type { CommandContext } from '../context.ts';
import { formatFindings, isEncrypted, recordRefusedCopy, withStore } from '../copy-target.ts';
import { type Colours, type Report, shortId } from '../output.ts';
import { openActivity } from '../progress.ts';

/** @throws errors from `checkTarget` */
export async function verifyCopy(
  context: CommandContext,
  target: string,
  sample: SampleSize | undefined,
): Promise<ExitCode> {
  const { environment, signal, output, now } = context;
  const dataDir = requireArchiveDir(context);
  const startedAt = now();
  const folder = isEncrypted(context, dataDir, target)
    ? undefined
    : path.resolve(environment.cwd, target);
  return withStore(context, target, {}, async (store) => {
    const activity = openActivity(context, 'reading what should be there');
    const order = {
      ...{ dataDir, signal },
      sample: sample !== undefined && 'messages' in sample ? { parts: sample.messages } : sample,
      random: Math.random,
      onProgress: (done: { readonly checked: number; readonly of: number }) =>
        activity.show(() => `checked ${done.checked} of ${count(done.of)}`),
    };
    const checked = await recordRefusedCopy(context, dataDir, store.label, () =>
      (folder === undefined
        ? checkTarget({ ...order, store, temporary: tmpdir() })
        : checkFolder(folder, order)
      ).finally(activity.stop),
    );
    const findings = formatFindings(checked.findings);
    const copiedAt = new Date(checked.copiedAt).toISOString();
    const ok = findings.length === 0;
    const { checked: read, of, opened } = checked;
    const about = { at: now(), checked: read, of, unit: opened ? 'segment' : 'object' } as const;
    writeStateOrWarn(context, dataDir, 'copy', (state) =>
      recordCopyCheck(state, store.label, about, findings),
    );
    await output.object(
      { ...checked, to: store.label, ok, copiedAt, findings, durationMs: now() - startedAt },
      () => report(store.label, checked, copiedAt, findings, folder === undefined),
    );
    if (!ok) return EXIT.damage;
    return checked.invalid.length > 0 ? EXIT.failures : EXIT.done;
  });
}

function report(
  to: string,
  { checked, of, opened, number, invalid }: CheckedTarget,
  copiedAt: string,
  findings: readonly { readonly message: string }[],
  isEncrypted: boolean,
): Report {
  const unit = opened ? 'segment' : 'object';
  const method = opened
    ? 'opened and read'
    : 'compared with the signed manifest; this machine has no key that opens them';
  const since = isEncrypted ? 'copied at' : 'of';
  return [
    `${to} is at commit ${count(number)}, ${since} ${copiedAt}: ${count(checked)} of ${counted(of, unit)} ${method}.`,
    findings.length === 0 ? 'Nothing is damaged.' : findings.map(({ message }) => message),
    invalid.length > 0 &&
      `${counted(invalid.length, 'manifest')} there ${invalid.length === 1 ? 'is' : 'are'} damaged or forged, and ignored.`,
    findings.length > 0 &&
      (isEncrypted
        ? '"mailkeep copy --to" uploads again what is damaged, from the archive here.'
        : 'Remove the damaged files there: "mailkeep copy --to" writes them again, from the archive here.'),
  ];
}

const MAX_SHOWN = 50;

const WHAT: Readonly<Record<ExportFinding['kind'], string>> = {
  missing: 'MISSING',
  changed: 'CHANGED',
  manifest: 'MANIFEST is missing or not what was written',
  unreadable: 'UNREADABLE as a zip file',
  unlisted: 'not of this export',
  unfinished: 'an export to this place did not end: run it again',
};

export async function verifyExport(context: CommandContext, typed: string): Promise<ExitCode> {
  const { environment, signal, output } = context;
  const activity = openActivity(context, 'reading the manifest');
  const check = await checkExport({
    at: path.resolve(environment.cwd, typed),
    signal,
    onProgress: ({ messages, bytes: read }) =>
      activity.show(() => `compared ${counted(messages, 'place')}, ${bytes(read)}`),
  }).finally(activity.stop);
  await output.object(check, () => checkText(check));
  if (!check.sound) return EXIT.damage;
  return check.findings.some(({ kind }) => kind === 'unfinished') ? EXIT.failures : EXIT.done;
}

function checkText(check: ExportCheck): Report {
  const { format, commit, messages, lacking, found, findings, sound } = check;
  const verdict = sound ? 'as exported' : 'DAMAGED';
  const of = format === null ? '' : ` (${format}, commit ${commit?.number ?? 0})`;
  return [
    `${verdict}${of}: ${counted(messages, 'place')}, ${bytes(check.bytes)} compared`,
    lacking > 0 && `${counted(lacking, 'place')} had no bytes to export: the manifest names them`,
    findings.slice(0, MAX_SHOWN).map(findingText),
    found > MAX_SHOWN && `… and ${count(found - MAX_SHOWN)} more; --json names them`,
  ];
}

function findingText({ kind, path: at, id, mailbox, folder, uid }: ExportFinding): string {
  const message =
    id === undefined
      ? ''
      : `  (${shortId(id)}, ${terminalLine(mailbox ?? '')} ${terminalLine(folder ?? '')} uid ${uid})`;
  return `${WHAT[kind]}  ${terminalLine(at)}${message}`;
}

const MAX_SEED = 2 ** 32 - 1;

const EXPORT_TEST: Readonly<Record<ExportTestFinding['kind'], string>> = {
  lost: 'could not be exported: its bytes are damaged or missing',
  unlisted: 'has no place, so no export contains it',
  bytes: 'came back with other bytes',
  headers: 'came back with another header',
  manifest: 'the export does not agree with its manifest',
};

export async function runExportTest(
  context: CommandContext,
  wanted: number,
  seed = randomInt(MAX_SEED),
): Promise<ExitCode> {
  const { now, signal, output } = context;
  return withReader(context, async (reader) => {
    const stored = openComparedCatalog(reader.dataDir);
    try {
      const activity = openActivity(context, 'exporting messages and reading them back');
      const tested = await testExport({
        dir: reader.dataDir,
        catalog: reader.catalog,
        stored,
        sources: reader.sources(),
        wanted,
        random: seededRandom(seed),
        now,
        signal,
      }).finally(activity.stop);
      const { at, ...rest } = tested;
      const ok = tested.findings.length === 0;
      const verifiedAt = new Date(at).toISOString();
      const durationMs = now() - at;
      const outcome = {
        ...{ at, endedAt: now(), checked: tested.messages, of: tested.of },
        found: tested.findings.length,
        findings: tested.findings.map(knownFinding),
      };
      const remembered = writeStateOrWarn(context, reader.dataDir, 'result', (state) =>
        recordExportTest(state, outcome),
      );
      const shown = { mode: 'drill', ok, seed, ...rest, durationMs, verifiedAt, remembered };
      await output.object(shown, () => exportTestText(tested, seed, output.colours));
      return ok ? EXIT.done : EXIT.damage;
    } finally {
      stored.close();
    }
  });
}

function exportTestText(
  { messages, of, files, bytes: size, headers, findings }: ExportTestResult,
  seed: number,
  colours: Colours,
): Report {
  return [
    `Drew ${count(messages)} of ${counted(of, 'message')} (seed ${seed}), exported them as ${counted(files, 'file')}, ${bytes(size)}, and read them back.`,
    `Compared all bytes, and ${counted(headers, 'header')} by another parser.`,
    ...(findings.length === 0
      ? [colours.green('All of them match the log.')]
      : [
          ...findings.map((finding) => `${colours.red('DAMAGED')} ${testFindingText(finding)}`),
          colours.red(`${counted(findings.length, 'finding')}.`),
        ]),
  ];
}

/** Drops the path, which contains a folder's name. */
function knownFinding(finding: ExportTestFinding): KnownFinding {
  return { what: 'drill', id: null, text: testFindingText({ ...finding, path: null }) };
}

function testFindingText({ kind, id, path }: ExportTestFinding): string {
  const message = id === null ? '' : `message ${shortId(id)} `;
  return `${message}${EXPORT_TEST[kind]}${path === null ? '' : ` (${terminalLine(path)})`}`;
}
