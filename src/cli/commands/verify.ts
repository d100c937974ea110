import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { holdsArchive } from '../../archive/file-system.ts';
import { catalogFile } from '../../catalog/database.ts';
import type { Finding } from '../../catalog/findings.ts';
import type { SegmentsForRepair } from '../../copies/restore-copy.ts';
import { catalogError, usageError } from '../../core/error-tables.ts';
import {
  combineExitCodes,
  describeError,
  EXIT,
  type ExitCode,
  hasCode,
  reasonText,
} from '../../core/errors.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted, span } from '../../core/text.ts';
import type { Difference, OriginFinding } from '../../sync/examine-account.ts';
import type { SyncResult } from '../../sync/result.ts';
import type { ConnectedAccounts } from '../../sync/run-sync.ts';
import type { SegmentChecker } from '../../verify/check-segment.ts';
import { fingerprintOf, readCheckpoint, readPublicKey } from '../../verify/checkpoint.ts';
import { verifyError } from '../../verify/errors.ts';
import type { CatalogState } from '../../verify/fast-compare.ts';
import type { VerifyProgress } from '../../verify/read-log.ts';
import type { CatalogOutcome, OtherCopies, RepairResult } from '../../verify/repair-archive.ts';
import {
  readArchive,
  recordCheckup,
  recordRead,
  type SampleSize,
  verifySampleOf,
} from '../../verify/verify.ts';
import type { Verification } from '../../verify/verify-archive.ts';
import { requireArchiveDir } from '../archive.ts';
import {
  action,
  type CommandContext,
  type Flags,
  type Register,
  refuse,
  type Values,
} from '../context.ts';
import { findingText } from '../finding-text.ts';
import { collect, sampleSize, wholeNumber } from '../option-values.ts';
import { type Colours, firstLines, joinReport, type Report } from '../output.ts';
import { followSyncRun, openActivity } from '../progress.ts';
import { listProblems, printError } from '../warnings.ts';

type VerifyLine = Flags<'quick' | 'origin' | 'repair' | 'trustCopy'> &
  Values<'checkpoint' | 'publicKey' | 'export' | 'copy'> &
  Values<'sample', SampleSize> &
  Values<'drill', number | true> &
  Values<'seed', number> &
  Values<'from', string[]>;

const TESTED_MESSAGES = 20;
const MAX_DRILLED = 1_000_000;

const HELP = `
Verifies the archive against itself. By default every byte is read: the log with its checksums, hashes and
chain of commits, every message rebuilt and hashed, and every row of the catalog compared with what the log
implies. Damage is listed with the messages it affects, and the exit code is 3. Nothing is changed, and the
command can run during a sync.

--quick skips hashing large records (attachments) and rebuilding messages.
--sample verifies some messages, starting with those not verified for longest.
--checkpoint also proves that nothing was changed or cut off before a signed statement of "mailkeep
checkpoint". --public-key names the key that must have signed it.

--origin compares the archive with the service: every uid, listed field and flag of every folder, within the
request budget. For places that were relinked without a download, it fetches and compares the sources. It needs
a configuration and exclusive use of the archive. Differences exit with code 1; "sync --full" resolves them.
Incomplete messages are counted apart, and exit with code 1 until "quarantine ack" silences them.

--drill exports some random messages (20 by default) into a temporary folder, reads them back with another
parser, compares bytes and headers, and removes the folder. --seed selects the same messages again.
--export compares an export (a folder or a zip) with its manifest, every byte; it needs no archive.

--copy checks an encrypted copy (see "copy --help"): every segment is downloaded, opened and read, or as many as
--sample says, drawn at random (3, or 5%; at least one). Where this machine may only write to it, the bytes of its objects are compared with the
signed manifest instead.

--repair repairs what it finds: single flipped bits by the checksums and hashes over them, other damage from
another file of the log, from a copy (--from, a folder or s3://…), or from the mailbox itself if there is a
configuration. Bytes are accepted only if their hash matches. Data that cannot be recovered is recorded as
missing and reported until it is found. Replaced files are kept as *.damaged; nothing is deleted. Commits of
a copy behind the last one known here are taken only if a checkpoint that this archive signed covers them, or
with --trust-copy.

EXAMPLES
  mailkeep verify
  mailkeep verify --checkpoint /media/usb/checkpoint.json
  mailkeep verify --sample 5%
  mailkeep verify --origin
  mailkeep verify --drill 100
  mailkeep verify --export /media/usb/mail.zip
  mailkeep verify --copy s3://my-bucket/mail --sample 5%
  mailkeep verify --repair --from /media/usb/archive
  mailkeep verify --json`;

export const register: Register = (command, run) => {
  command
    .option('--quick', 'structure, chain and catalog only')
    .option('--sample <p>', 'this many messages, or this share of them (5%)', sampleSize)
    .option('--checkpoint <file>', 'prove that the log still contains what this statement covers')
    .option(
      '--public-key <key>',
      'for --checkpoint: the key that must have signed it, or a file with that key',
    )
    .option('--origin', 'compare with the service, instead of the archive with itself')
    .option('--repair', 'recover damaged and missing bytes, and rebuild the catalog')
    .option(
      '--from <copy>',
      'for --repair: a copy of the archive, a folder or s3://BUCKET/PREFIX; repeatable',
      collect,
    )
    .option('--trust-copy', 'for --from: also take what nothing here proves')
    .option(
      '--drill [n]',
      'export this many messages, read them back and compare them',
      wholeNumber(1, MAX_DRILLED),
    )
    .option('--seed <n>', 'for --drill: select messages by this seed', wholeNumber(0, 2 ** 32 - 1))
    .option('--export <path>', 'compare an export with its manifest, instead of the archive')
    .option('--copy <target>', 'check an encrypted copy, instead of the archive')
    .addHelpText('after', HELP)
    .action(action(run, verify));
};

async function verify(context: CommandContext, options: VerifyLine): Promise<ExitCode> {
  const { sample, checkpoint, copy, drill, export: exported } = options;
  refuseCombination(options);
  if (options.origin === true) return verifyOrigin(context);
  if (exported !== undefined || copy !== undefined || drill !== undefined) {
    const { verifyCopy, runExportTest, verifyExport } = await import('./verify-copy.ts');
    if (exported !== undefined) return verifyExport(context, exported);
    if (copy !== undefined) return verifyCopy(context, copy, sample);
    return runExportTest(
      context,
      typeof drill === 'number' ? drill : TESTED_MESSAGES,
      options.seed,
    );
  }
  const dataDir = requireArchiveDir(context);
  if (sample !== undefined) return verifyPart(context, dataDir, sample);
  if (options.repair === true)
    return repairCopied(context, dataDir, options.from ?? [], options.trustCopy ?? false);
  // The worker threads load in parallel with this one.
  const { threadedChecker: checkerOnThreads } = await import('../../verify/check-segment.ts');
  const checker = checkerOnThreads();
  try {
    const statement =
      checkpoint === undefined ? null : vouchedBy(context, checkpoint, options.publicKey);
    return await verifyAll(context, dataDir, options.quick !== true, statement, checker);
  } finally {
    await checker.close();
  }
}

/** @throws usage-invalid */
function refuseCombination(options: VerifyLine): void {
  const { quick, sample, checkpoint, publicKey, repair, from, origin, drill, seed } = options;
  const { copy, export: exported, trustCopy } = options;
  const others = (...names: string[]): boolean =>
    Object.keys(options).some((name) => !names.includes(name));
  refuse('verify', {
    '--sample cannot be combined with these: a sample proves neither chain nor checkpoint.':
      sample !== undefined && (quick === true || checkpoint !== undefined || repair === true),
    '--copy can be combined with --sample only: it does not verify the archive.':
      copy !== undefined && others('copy', 'sample'),
    '--origin cannot be combined: it compares with the service, the others with what is on disk.':
      origin === true && others('origin'),
    '--export cannot be combined: it does not verify the archive.':
      exported !== undefined && others('export'),
    '--drill cannot be combined: it tries exports, and proves no more than they need.':
      drill !== undefined && others('drill', 'seed'),
    '--seed belongs to --drill.': seed !== undefined && drill === undefined,
    '--repair reads everything, --quick does not.': repair === true && quick === true,
    '--public-key belongs to --checkpoint.': publicKey !== undefined && checkpoint === undefined,
    '--from belongs to --repair.': from !== undefined && repair !== true,
    '--trust-copy belongs to --from.': trustCopy === true && from === undefined,
  });
}

/** Maximum number of findings shown as text. `--json` includes more. */
const MAX_SHOWN = 50;

function verifyReport(
  result: Verification,
  mode: 'full' | 'quick',
  durationMs: number,
  colours: Colours,
): Report {
  const { segments, records, messages, rawBytes, rebuilt, found, findings, tail, last } = result;
  const rate = durationMs > 0 ? `, ${count(rawBytes / 1000 / durationMs)} MB/s` : '';
  return [
    `Read ${counted(segments, 'segment')}, ${counted(last?.number ?? 0, 'commit')}, ${counted(records, 'record')}, ${counted(messages, 'message')} (${bytes(rawBytes)} of mail) in ${span(durationMs)}${rate}.`,
    mode === 'full' && `Rebuilt and hashed ${counted(rebuilt, 'message')}.`,
    catalogText(result.catalog, inLog(findings)),
    tail !== null &&
      `After the last commit there are ${bytes(tail.bytes)} of a write that is in progress or was interrupted; they are not part of the archive.`,
    found === 0 && result.catalog === 'unreadable'
      ? 'The log is as it was written.'
      : verdict(found, findings, colours),
    remedy(findings),
  ];
}

/** Suggests a repair for damage to the log or the state. A catalog finding's own line suggests a rebuild. */
function remedy(findings: readonly Finding[]): string | false {
  if (inLog(findings)) {
    return 'Nothing was changed; "mailkeep verify --repair" recovers what can be found.';
  }
  return (
    findings.some(({ what }) => what === 'state-file') &&
    'Nothing was changed; "mailkeep verify --repair", or the next sync, begins a new state and keeps the damaged file. Saved searches are in it; an off-site copy has them.'
  );
}

function inLog(findings: readonly Finding[]): boolean {
  return findings.some(({ what }) => what === 'log' || what === 'message' || what === 'missing');
}

function verdict(found: number, findings: readonly Finding[], colours: Colours): string[] {
  if (found === 0) return [colours.green('Everything is as it was written.')];
  const line = (finding: Finding) => `${colours.red('DAMAGED')} ${findingText(finding)}`;
  const rest = (more: number) => `… and ${counted(more, 'more finding')}; --json shows them.`;
  return [
    ...firstLines(findings, MAX_SHOWN, line, rest, found),
    colours.red(`${counted(found, 'finding')}.`),
  ];
}

function catalogText(state: CatalogState, logIsDamaged: boolean): string {
  return {
    equal: 'The catalog agrees with the log.',
    behind: 'The catalog agrees with the log, but is behind it; the next sync adds the rest.',
    missing: 'There is no catalog to compare; "mailkeep rebuild" creates one.',
    'other-version':
      'The catalog is of another version and was not compared; "mailkeep rebuild" rebuilds it.',
    // Rebuilding from a damaged log would lose data that only the catalog still contains.
    different: logIsDamaged
      ? 'The catalog differs from the log, which is damaged.'
      : 'The catalog differs from the log; "mailkeep rebuild" rebuilds it.',
    damaged: 'The catalog is damaged; "mailkeep rebuild" rebuilds it.',
    unreadable: 'The catalog could not be read and was not compared.',
  }[state];
}

/**
 * Verifies the whole archive and prints the findings. Records the time, unless the catalog could not be checked.
 * @param checker closed by the caller
 */
async function verifyAll(
  context: CommandContext,
  dataDir: string,
  full: boolean,
  checkpoint: ReturnType<typeof vouchedBy> | null,
  checker: SegmentChecker,
): Promise<ExitCode> {
  const { now, output } = context;
  const startedAt = now();
  const vouched = checkpoint === null ? [] : [checkpoint];
  const activity = openActivity(context, 'reading the log');
  const progress = (at: VerifyProgress): void => activity.show(() => readText(at));
  const read = { full, vouched, signal: context.signal, progress };
  const result = await readArchive(dataDir, read, checker).finally(activity.stop);
  const durationMs = now() - startedAt;
  const mode = full ? 'full' : 'quick';
  const remembered = recordRead(context, dataDir, { at: startedAt, mode, checkpoint }, result);
  if (remembered && full && result.found === 0 && result.catalog === 'equal') {
    recordCheckup(context, dataDir, startedAt);
  }
  const exit = exitOfVerification(result);
  const { number, hash, signedAt, signer, compared } = checkpoint ?? {};
  const statement = checkpoint && { number, hash, signedAt, signer, compared };
  const shown = { mode, ok: exit === EXIT.done, ...result, checkpoint: statement, durationMs };
  await output.object({ ...shown, verifiedAt: isoTime(startedAt), remembered }, () =>
    verifyReport(result, mode, durationMs, output.colours),
  );
  printUnread(context, dataDir, result);
  return exit;
}

/** Returns 1 for an unchecked catalog, which is neither damaged nor sound. */
function exitOfVerification({ found, catalog }: Verification): ExitCode {
  if (found > 0) return EXIT.damage;
  return catalog === 'unreadable' ? EXIT.failures : EXIT.done;
}

function printUnread(
  { notices, globals }: CommandContext,
  dataDir: string,
  { catalogError: reason }: Verification,
): void {
  if (reason === null) return;
  const error = catalogError('catalog-io', { file: catalogFile(dataDir), reason });
  printError(notices.stream, globals.json, describeError(error));
}

/**
 * Reads a checkpoint, and prints who signed it and when. `compared` is true if the user supplied the key.
 * @param publicKey the required signing key, or a file containing it
 * @throws checkpoint-unreadable, checkpoint-forged, checkpoint-other-key, checkpoint-public-key
 */
function vouchedBy(
  { environment, notices }: CommandContext,
  file: string,
  publicKey: string | undefined,
) {
  const statement = readCheckpoint(path.resolve(environment.cwd, file));
  const signer = fingerprintOf(statement.publicKey);
  if (publicKey !== undefined) {
    const required = readPublicKey(publicKey, path.resolve(environment.cwd, publicKey));
    if (required !== statement.publicKey) {
      throw verifyError('checkpoint-other-key', {
        file,
        found: signer,
        wanted: fingerprintOf(required),
      });
    }
  }
  const { archiveId, number, hash, signedAt } = statement;
  const pinned = publicKey === undefined ? ' (not compared: --public-key does that)' : '';
  notices.say(terminalLine(`The checkpoint was signed ${signedAt} with key ${signer}${pinned}.`));
  const compared = publicKey !== undefined;
  return { by: 'checkpoint', archiveId, number, hash, signedAt, signer, compared } as const;
}

function readText({ segments, of, rawBytes }: VerifyProgress): string {
  return `read ${segments} of ${of} segments, ${bytes(rawBytes)} of mail`;
}

async function verifyPart(
  context: CommandContext,
  dataDir: string,
  size: SampleSize,
): Promise<ExitCode> {
  const { output } = context;
  const activity = openActivity(context, 'verifying messages');
  const done = await verifySampleOf(context, dataDir, size).finally(activity.stop);
  const { at, sampling, durationMs, remembered } = done;
  const { checked, of, found, findings } = sampling;
  const oldest = sampling.oldest === null ? null : isoTime(sampling.oldest);
  const result = { mode: 'sample', ok: found === 0, ...sampling, oldest, durationMs };
  await output.object({ ...result, verifiedAt: isoTime(at), remembered }, () => [
    `Rebuilt and hashed ${count(checked)} of ${counted(of, 'message')}, least recently verified first, in ${span(durationMs)}.`,
    oldest === null
      ? 'Some messages have never been verified.'
      : `Every message was verified since ${oldest}.`,
    verdict(found, findings, output.colours),
    remedy(findings),
  ]);
  return found === 0 ? EXIT.done : EXIT.damage;
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Any differences beyond this are only counted. */
const MAX_NAMED = 10_000;
const NO_NARROWING = { account: undefined, mailboxes: [], folders: [] };

/**
 * Compares the archive with the service, and verifies messages that were matched without a download. Differences are
 * only reported; the next sync resolves them.
 * @throws archive-in-use
 */
async function verifyOrigin(context: CommandContext): Promise<ExitCode> {
  const { loadSettings } = await import('../../catalog/archive-settings.ts');
  const { openWriter } = await import('../../catalog/open-writer.ts');
  const { examineAccount } = await import('../../sync/examine-account.ts');
  const { runSync, withAccounts } = await import('../../sync/run-sync.ts');
  const { chooseAccounts } = await import('../../sync/selection.ts');
  const settings = loadSettings(context);
  const selection = chooseAccounts(settings, undefined);
  const writer = await openWriter(context, settings.dataDir, settings.archive.codec);
  const followed = await followSyncRun(context, settings, false);
  const act = async ({ accounts, requests }: ConnectedAccounts): Promise<ExitCode> => {
    const tally = { folders: 0, messages: 0, incomplete: 0, differences: 0 };
    const findings: OriginFinding[] = [];
    const result = await runSync(writer, settings, {
      accounts,
      policy: { verifyPerHour: Number.MAX_SAFE_INTEGER, full: true, acceptEndings: false },
      pass: (ctx, boxes) =>
        examineAccount(ctx, boxes, {
          found: (finding) => {
            tally.differences += 1;
            if (findings.length < MAX_NAMED) findings.push(finding);
          },
          compared: (messages, incomplete) => {
            tally.folders += 1;
            tally.messages += messages;
            tally.incomplete += incomplete;
          },
        }),
      indexing: { some: async () => 0, all: async () => {} },
      tidy: async () => [],
      requests,
      now: context.now,
      progress: followed.progress,
      signal: context.signal,
    });
    followed.stop();
    return report(context, result, tally, findings);
  };
  try {
    return await withAccounts(context, settings, selection, NO_NARROWING, writer, followed, act);
  } finally {
    followed.stop();
    await writer.close();
  }
}

async function report(
  context: CommandContext,
  result: SyncResult,
  tally: Readonly<Record<'folders' | 'messages' | 'incomplete' | 'differences', number>>,
  findings: readonly OriginFinding[],
): Promise<ExitCode> {
  const sum = (field: 'verified' | 'corrected'): number =>
    result.mailboxes.reduce((total, mailbox) => total + mailbox[field], 0);
  const { requests, durationMs, failures, mailboxes } = result;
  const { differences } = tally;
  // Messages matched without a download that have now been fetched and either confirmed or corrected.
  const [verified, corrected] = [sum('verified'), sum('corrected')];
  const isAll = failures.length === 0 && mailboxes.every(({ comparison }) => comparison === 'all');
  const more = differences - findings.length;
  const assumed =
    verified + corrected === 0
      ? ''
      : ` ${counted(verified, 'relinked message')} had the bytes that were assumed, ${count(corrected)} had others and were corrected.`;
  await context.output.object(
    { ...tally, verified, corrected, findings, requests, durationMs, failures },
    () => [
      findings.map(({ mailbox, folder, uid, difference }) => {
        const place = [mailbox, folder, ...(uid === null ? [] : [String(uid)])].join(' / ');
        return `${terminalLine(place)} ${SENTENCES[difference]}`;
      }),
      more > 0 && `… and ${counted(more, 'more difference')}`,
      `${comparedText(tally)}${isAll ? '' : '; not everything could be compared'}.${assumed} ${counted(requests, 'request')}, ${span(durationMs)}.`,
    ],
  );
  const problems = listProblems(result);
  for (const problem of problems) printError(context.notices.stream, context.globals.json, problem);
  const differs = differences > 0 ? EXIT.failures : EXIT.done;
  return combineExitCodes([...problems.map(({ exit }) => exit), differs]);
}

/** Never says that nothing differs if nothing was compared. */
function comparedText({
  folders,
  messages,
  incomplete,
  differences,
}: Parameters<typeof report>[2]): string {
  if (folders + differences === 0) return 'Nothing was compared with the service';
  const other = incomplete === 0 ? 'difference' : 'other difference';
  const found = joinReport([
    incomplete > 0 && `${count(incomplete)} incomplete ("mailkeep quarantine" lists them)`,
    differences === 0 ? `no ${other}` : counted(differences, other),
  ]).join(', ');
  return `${counted(messages, 'place')} in ${counted(folders, 'folder')} compared with the service: ${found}`;
}

const SENTENCES: Readonly<Record<Difference, string>> = {
  'not-archived': 'is at the service and not in the archive',
  'not-listed': 'is current in the archive and not listed by the service',
  'other-message': 'is listed as another message than the archive has',
  'other-flags': 'has other flags at the service',
  'folder-not-archived': 'is at the service and not in the archive',
  'folder-not-listed': 'is in the archive and not listed by the service',
};

/** @throws archive-in-use; usage-no-archive for a copy that is not an archive */
async function repairCopied(
  context: CommandContext,
  dataDir: string,
  from: readonly string[],
  trustsCopies: boolean,
): Promise<ExitCode> {
  const { isEncrypted, withStore } = await import('../copy-target.ts');
  const { segmentsForRepair } = await import('../../copies/restore-copy.ts');
  const { environment, signal } = context;
  const folders = from
    .filter((copy) => !isEncrypted(context, dataDir, copy))
    .map((copy) => path.resolve(environment.cwd, copy));
  for (const copy of folders) {
    // A copy that exists but is unreadable is reported and skipped later.
    if (!existsSync(copy) || isAbsent(copy))
      throw usageError('usage-no-archive', { dataDir: copy });
  }
  const fetched: Fetched[] = [];
  try {
    for (const copy of from.filter((one) => isEncrypted(context, dataDir, one))) {
      await withStore(context, copy, {}, async (store) => {
        const activity = openActivity(context, 'looking for damage, and fetching those segments');
        const found = await segmentsForRepair({ dataDir, store, signal }).finally(activity.stop);
        fetched.push({ ...found, label: store.label });
      });
    }
    const copies = [...folders, ...fetched.map(({ folder }) => folder)];
    const vouched = fetched.flatMap(({ commit }) => commit ?? []);
    return await repairWith(context, dataDir, { copies, vouched, trustsCopies }, fetched);
  } finally {
    for (const { folder } of fetched) rmSync(folder, { recursive: true, force: true });
  }
}

type Fetched = SegmentsForRepair & { readonly label: string };

/** @param fetched copies that were downloaded to temporary folders */
async function repairWith(
  context: CommandContext,
  dataDir: string,
  others: OtherCopies,
  fetched: readonly Fetched[],
): Promise<ExitCode> {
  const { repairAndVerify } = await import('../../verify/repair-archive.ts');
  const { output, now } = context;
  const startedAt = now();
  const outcome = await repairAndVerify(context, dataDir, others, async (part, act) => {
    const looking = part === 'mending' ? ' and looking for damage' : '';
    const activity = openActivity(context, `reading the log${looking}`);
    return act((progress) => activity.show(() => readText(progress))).finally(activity.stop);
  });
  const { catalog, after, remembered } = outcome;
  const names = new Map(fetched.map(({ folder, label }) => [folder, label]));
  const withLabel = <T extends { readonly copy: string }>(found: T): T => ({
    ...found,
    copy: names.get(found.copy) ?? found.copy,
  });
  const lost = fetched.flatMap(({ label: copy, lost: names }) =>
    names.map(({ name, error }) => ({ copy, file: `${copy}/${name}`, reason: error.code })),
  );
  const repaired = {
    ...outcome.repaired,
    skippedCopies: outcome.repaired.skippedCopies.map(withLabel),
    skippedSegments: [...outcome.repaired.skippedSegments.map(withLabel), ...lost],
    unproven: outcome.repaired.unproven.map(withLabel),
  };
  const exit = exitOfVerification(after);
  const { before, ...done } = repaired;
  const result = {
    ...{ mode: 'repair', ok: exit === EXIT.done, foundBefore: before.found },
    ...done,
    ...{ catalogRebuilt: catalog.catalogRebuilt, unreadCatalog: catalog.unread },
    ...after,
    ...{ durationMs: now() - startedAt, remembered },
  };
  await output.object(result, () => repairReport(repaired, catalog, after, output.colours));
  printUnread(context, dataDir, after);
  return exit;
}

/** Returns true only if the folder is known to contain no archive. */
function isAbsent(copy: string): boolean {
  try {
    return !holdsArchive(copy);
  } catch (error) {
    if (!hasCode(error, 'archive-unreadable')) throw error;
    return false;
  }
}

function repairReport(
  { before, mended, restored, missing, unwritable, unproven, ...skipped }: RepairResult,
  { catalogRebuilt, unread }: CatalogOutcome,
  after: Verification,
  colours: Colours,
): Report {
  const { skippedCopies, skippedSegments } = skipped;
  const isAllRead = skippedCopies.length + skippedSegments.length === 0;
  const scope = isAllRead ? 'found nowhere' : 'not found in what could be read';
  return [
    `${counted(before.found, 'finding')}.`,
    skippedCopies.map(({ copy, reason }) => `The copy ${copy} was skipped: ${reasonText(reason)}.`),
    skippedSegments.map(
      ({ file, reason }) => `The file ${file} was skipped: ${reasonText(reason)}.`,
    ),
    mended.map(({ segment, generation, putAside }) => {
      const aside = putAside.length === 0 ? '' : `; put aside: ${putAside.join(', ')}`;
      return `Segment ${segment} is intact again, as generation ${generation}${aside}`;
    }),
    unproven.map(
      ({ copy, number, known }) =>
        `The copy ${copy} has commits up to ${number}, and nothing here proves those behind ${known}. ` +
        'If you know that only you could write to it, --trust-copy takes them.',
    ),
    restored.map(({ kind, hash, from }) => `Found ${kind} ${hash} again, in the ${from}.`),
    missing.map(({ kind, hash }) => `MISSING ${kind} ${hash}: ${scope}.`),
    missing.length > 0 &&
      !isAllRead &&
      'Make the skipped files readable and repair again: they may contain what is missing.',
    unwritable !== null &&
      'The last segment is damaged beyond repair: nothing can be appended. Use a second copy.',
    catalogRebuilt && 'The catalog was rebuilt.',
    unread !== null &&
      `The old one could not be read (${reasonText(unread.reason)}); what is left of it: ${unread.file}`,
    verdict(after.found, after.findings, colours),
  ];
}
