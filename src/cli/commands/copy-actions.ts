import { accessSync, constants, existsSync, lstatSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { FILE_MODE, formatPath } from '../../archive/format.ts';
import { type CopiedCatalogState, type CopyLogResult, copyArchive } from '../../copies/copy-log.ts';
import { copiesError } from '../../copies/errors.ts';
import { newRecoveryKey, parseRecoveryLine, recoveryLines } from '../../copies/format/keys.ts';
import {
  type RestoredSettings,
  readSettings,
  restoreSettings,
  settingsText,
  writeSettings,
} from '../../copies/kept-objects.ts';
import { type KeyRequest, openOwnCopy } from '../../copies/local-key.ts';
import {
  addRecipients,
  adoptCopy,
  createCopy,
  finishRotation,
  isRotationUnfinished,
  listKeys,
  prepareCopy,
  type RotatedKeys,
  refuseExistingCopy,
  refuseTooManyKeys,
  removeRecipients,
  rotateKeys,
} from '../../copies/recipients.ts';
import { restoreArchive } from '../../copies/restore-copy.ts';
import { copyToTarget, type UploadResult } from '../../copies/upload-copy.ts';
import { canonicalTarget } from '../../core/config-schema.ts';
import { portableConfig } from '../../core/config-shown.ts';
import { usageError } from '../../core/error-tables.ts';
import { describeError, EXIT, type ExitCode, errnoName, shortList } from '../../core/errors.ts';
import { parseTarget, pathProblem } from '../../core/s3-target.ts';
import { openExistingState, type StateFile } from '../../core/state.ts';
import { padColumns, terminalLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted } from '../../core/text.ts';
import { forgetCopy, recordCopyMade, recordCopyRepair } from '../../verify/copy-facts.ts';
import { writeStateOrWarn } from '../../verify/verify.ts';
import { requireArchiveDir, withState } from '../archive.ts';
import { terminalPrompter } from '../ask.ts';
import {
  type CommandContext,
  type CommandResult,
  type Flags,
  invalidUsage,
  type Values,
} from '../context.ts';
import {
  formatFindings,
  isEncrypted,
  type KeyOptions,
  type OpenWithOptions,
  openingKey,
  openingKeyAlongside,
  passphraseOf,
  recordRefusedCopy,
  requireOption,
  withStore,
} from '../copy-target.ts';
import { joinReport, type Report } from '../output.ts';
import { openActivity, rebuildProgress } from '../progress.ts';

/**
 * Updates the encrypted copy at a target or, if it has none, a readable archive in a folder.
 * @throws usage-invalid
 */
export function copyTo(context: CommandContext, options: CopyLine): Promise<CommandResult> {
  const to = requireOption(options.to, '--to');
  if (isEncrypted(context, requireArchiveDir(context), to))
    return copyToStore(context, to, options);
  if (options.encrypt === true) {
    const problem = `${to} has no encrypted copy. Begin one with "mailkeep copy init --to ${to}".`;
    throw invalidUsage('copy', problem);
  }
  return copyToFolder(context, to, options);
}

/** Default number of copy states to keep regardless of age. */
const KEPT = 1;

function upload(
  context: CommandContext,
  order: Omit<Parameters<typeof copyToTarget>[0], 'now' | 'onProgress' | 'signal'>,
) {
  const { now, signal } = context;
  const activity = openActivity(context, 'comparing the copy with the archive');
  return copyToTarget({
    ...{ ...order, now, signal },
    onProgress: ({ objects, of, bytes: sent }) =>
      activity.show(() => `uploaded ${objects} of ${counted(of, 'object')}, ${bytes(sent)}`),
  }).finally(activity.stop);
}

const FINDINGS_SHOWN = 5;

/** @throws errors from `copyToTarget` */
async function copyToStore(
  context: CommandContext,
  target: string,
  { refresh = false, keep = KEPT, limitRate, lockDays }: CopyLine,
): Promise<ExitCode> {
  const { output, now } = context;
  const dataDir = requireArchiveDir(context);
  const startedAt = now();
  return withStore(context, target, { bytesPerSecond: limitRate }, async (store) => {
    const to = store.label;
    const config = portableConfig(context.globals, context.environment, dataDir);
    const copied = await recordRefusedCopy(context, dataDir, to, () =>
      upload(context, { dataDir, store, refresh, keep, lockDays, config }),
    );
    const { number: commit, removed, locks, mended: _, replaced, ...rest } = copied;
    const findings = formatFindings(copied.findings);
    writeStateOrWarn(context, dataDir, 'copy', (state) => {
      recordCopyMade(state, to, { at: now(), commit, encrypted: true });
      recordCopyRepair(state, to, now(), findings, replaced);
    });
    const about = { to, number: commit, ...rest, findings, replaced, removed, locks };
    await output.object({ ...about, durationMs: now() - startedAt }, () =>
      storeReport(to, copied, findings),
    );
    if (findings.length > 0) return EXIT.damage;
    return copied.invalid.length > 0 || removed.locked.length > 0 ? EXIT.failures : EXIT.done;
  });
}

function storeReport(
  to: string,
  copied: UploadResult,
  findings: readonly { readonly message: string; readonly repaired: boolean }[],
): Report {
  const { number, uploaded, objects, stored, replaced, invalid, removed, locks } = copied;
  const left = findings.filter(({ repaired }) => !repaired);
  const until = removed.lockedUntil;
  return [
    `${to} is at commit ${count(number)}: ${counted(uploaded, 'object')} uploaded, ${bytes(copied.bytes)}; total: ${counted(objects, 'object')}, ${bytes(stored)}.`,
    replaced.length > 0 &&
      `${counted(replaced.length, 'object')} that "mailkeep verify --copy" had found damaged ${replaced.length === 1 ? 'was' : 'were'} uploaded again.`,
    findings.slice(0, FINDINGS_SHOWN).map(({ message }) => message),
    findings.length > left.length &&
      `${counted(findings.length - left.length, 'damaged or missing object')} ${findings.length - left.length === 1 ? 'was' : 'were'} stored again. Check who or what changes that place.`,
    left.length > 0 && `${counted(left.length, 'object')} could not be repaired.`,
    removed.manifests + removed.objects > 0 &&
      `${counted(removed.manifests, 'earlier state')} and ${counted(removed.objects, 'object')} that nothing needs any more were removed.`,
    removed.locked.length > 0 &&
      `${counted(removed.locked.length, 'object')} could not be removed, because the bucket keeps them locked${until === null ? '' : ` until ${until}`}.`,
    locks !== null && `Nobody can delete any of it before ${new Date(locks.until).toISOString()}.`,
    invalid.length > 0 &&
      `${counted(invalid.length, 'manifest')} there ${invalid.length === 1 ? 'is' : 'are'} damaged or forged, and ignored: ${invalid.slice(0, 3).join(', ')}.`,
  ];
}

/** @throws offsite-no-locks; errors from `copyArchive` */
async function copyToFolder(
  context: CommandContext,
  target: string,
  options: CopyLine,
): Promise<void> {
  const { environment, signal, output, now } = context;
  const from = requireArchiveDir(context);
  const to = path.resolve(environment.cwd, target);
  if (options.lockDays !== undefined) throw copiesError('offsite-no-locks', { to });
  const startedAt = now();
  const activity = openActivity(context, 'comparing the copy with the archive');
  const { catalog, ...copied } = await copyArchive({
    from,
    to,
    rebuild: options.rebuild ?? false,
    signal,
    onCopy: ({ segments, of }) =>
      activity.show(() => `copied and verified ${segments} of ${counted(of, 'segment')}`),
    ...rebuildProgress(activity, 'the copied log'),
  }).finally(activity.stop);
  writeStateOrWarn(context, from, 'copy', (state) =>
    recordCopyMade(state, to, { at: now(), commit: copied.number, encrypted: false }),
  );
  const config = portableConfig(context.globals, environment, from);
  const writeThere = async (state: StateFile | undefined) => {
    const text = settingsText(state, config);
    if (text !== undefined) await writeSettings(to, text);
  };
  await withState(from, writeThere, openExistingState);
  const result = { to, ...copied, catalog, durationMs: now() - startedAt };
  await output.object(result, () => copyReport(to, copied, catalog));
}

function copyReport(
  to: string,
  { number, segments, written, bytes: size, purged }: CopyLogResult,
  catalog: CopiedCatalogState,
): Report {
  return [
    `${to} is at commit ${number}: ${counted(written, 'segment')} of ${segments} copied and verified, ${bytes(size)}.`,
    purged > 0 && `${counted(purged, 'record')} purged there as well.`,
    catalog === 'updated' && 'Its catalog was brought up to date.',
    (catalog === 'none' || catalog === 'removed') &&
      `It has no catalog; "mailkeep rebuild --data ${to}" creates one; so does "mailkeep copy" with --rebuild.`,
  ];
}

export async function copyFrom(context: CommandContext, line: FromLine): Promise<CommandResult> {
  const { environment, signal, output, now } = context;
  const from = requireOption(line.from, '--from');
  const typed = requireOption(line.to, '--to');
  const problem = pathProblem(typed);
  if (problem !== undefined) throw invalidUsage('copy', `--to takes a path: ${problem}.`);
  const to = path.resolve(environment.cwd, typed);
  const startedAt = now();
  const source = parseTarget(from);
  if (source.kind === 'folder') {
    const folder = path.resolve(environment.cwd, source.path);
    if (existsSync(formatPath(folder))) return fromFolder(context, folder, to);
  }
  return withStore(context, from, { bytesPerSecond: line.limitRate }, async (store) => {
    const way = await openingKey(context, line);
    const activity = openActivity(context, 'opening the copy');
    const back = await restoreArchive({
      ...{ store, to, way, signal },
      signer: line.signer,
      atCommit: line.atCommit,
      atLeast: line.atLeast,
      onSegments: ({ segments, of }) =>
        activity.show(() => `brought back ${segments} of ${counted(of, 'segment')}`),
      ...rebuildProgress(activity),
    }).finally(activity.stop);
    // A recovery key or passphrase proves that the keys come from `copy init`.
    const isUnproven = way.type === 'age' && line.signer === undefined;
    const copiedAt = new Date(back.copiedAt).toISOString();
    const losses = back.lost.map(({ segment, error }) => {
      return { segment, error: describeError(error).message };
    });
    const invalid = back.invalid.map((error) => describeError(error).message);
    const { copyId, number, hash, segments, bytes: size, messages, settings } = back;
    const durationMs = now() - startedAt;
    const timings = { fetchMs: back.fetchMs, catalogMs: Math.max(0, durationMs - back.fetchMs) };
    const signer = back.signer.toString('base64');
    const result = { from: store.label, to, copyId, signer, number, hash, copiedAt, segments };
    const about = { bytes: size, messages, lost: losses, invalid, settings, timings, durationMs };
    await output.object({ ...result, ...about }, () => [
      `${to} is the archive as of commit ${count(number)}, copied at ${copiedAt}: ${counted(messages, 'message')} in ${counted(segments, 'segment')}, ${bytes(size)}.`,
      'If you know that a later commit was copied, somebody has put an older copy back: --at-least refuses that.',
      isUnproven &&
        `It was begun with the signing key ${signer}. Compare it with the one that "copy init" printed: whoever knows an age recipient can make something that looks like a copy.`,
      losses.map(({ segment, error }) => `Segment ${segment} was lost: ${error}`),
      invalid.map((text) => `Ignored: ${text}`),
      settingsLines(settings),
      `Next: "mailkeep verify --data ${to}", then "mailkeep copy adopt" to continue this copy.`,
    ]);
    return back.lost.length > 0 ? EXIT.damage : EXIT.done;
  });
}

/**
 * Creates an archive from a readable copy.
 * @throws errors from `copyArchive`
 */
async function fromFolder(context: CommandContext, from: string, to: string): Promise<void> {
  const { signal, output, now } = context;
  const startedAt = now();
  const activity = openActivity(context, 'reading the copy');
  const copied = await copyArchive({
    ...{ from, to, rebuild: true, signal },
    onCopy: ({ segments, of }) =>
      activity.show(() => `brought back ${segments} of ${counted(of, 'segment')}`),
    ...rebuildProgress(activity),
  }).finally(activity.stop);
  const text = readSettings(from);
  const settings = (text && (await restoreSettings(to, text))) ?? null;
  const { number, hash, segments, bytes: size } = copied;
  const result = { from, to, number, hash, segments, bytes: size, settings };
  await output.object({ ...result, durationMs: now() - startedAt }, () => [
    `${to} is the archive as of commit ${count(number)}: ${counted(segments, 'segment')}, ${bytes(size)}.`,
    ...settingsLines(settings),
  ]);
}

/** Describes what was restored besides the archive, and which secrets the user still has to enter. */
function settingsLines(settings: RestoredSettings | null): readonly string[] {
  const { config = null, secrets = [], savedSearches = 0 } = settings ?? {};
  return joinReport([
    savedSearches > 0 && `${counted(savedSearches, 'saved search', 'saved searches')} restored.`,
    config !== null && `The configuration is in ${config}, without its secrets.`,
    secrets.length > 0 && `Enter or provide: ${secrets.join(', ')}.`,
    `Not in a copy: ${config === null ? 'the configuration, ' : ''}tokens, the keys of copies.`,
  ]);
}

/** `limitRate` is in bytes per second. */
export type CopyLine = Flags<'encrypt' | 'rebuild' | 'refresh'> &
  Values<'to'> &
  Values<'keep' | 'lockDays' | 'limitRate', number>;
/** The 32-byte Ed25519 key that must have signed the copy. */
type Signer = Values<'signer', Buffer>;
export type FromLine = CopyLine &
  KeyOptions &
  Signer &
  Values<'from'> &
  Values<'atCommit' | 'atLeast', number>;
type InitLine = Flags<'createBucket' | 'objectLock' | 'writeOnly'> &
  Values<'to' | 'recoveryKeyFile' | 'passphraseFile'> &
  Values<'age', readonly string[]>;
type AdoptLine = KeyOptions & Signer & Values<'to'> & Flags<'olderKey'>;

const NEWER_SHOWN = 5;

export async function copyAdopt(context: CommandContext, line: AdoptLine): Promise<ExitCode> {
  const { signal, output } = context;
  const target = requireOption(line.to, '--to');
  const dataDir = requireArchiveDir(context);
  return withStore(context, target, {}, async (store) => {
    const way = await openingKey(context, line);
    const allowOlder = line.olderKey ?? false;
    const opened = { way, signer: line.signer };
    const adopted = await adoptCopy({ dataDir, store, ...opened, allowOlder, signal });
    const { copyId, signer, newer } = adopted;
    const findings = formatFindings(adopted.findings);
    const result = { to: store.label, copyId, signer: signer.toString('base64'), newer, findings };
    await output.object(result, () => [
      `This archive continues the copy at ${store.label}, and signs for it with ${result.signer}.`,
      `"mailkeep copy --to ${target}" copies what is new.`,
      findings.map(
        ({ message, repaired }) => `${message}${repaired ? ' It was stored again.' : ''}`,
      ),
      newer.length > 0 &&
        `${counted(newer.length, 'recipient')} with newer keys should be removed, with "mailkeep copy key remove": ${shortList(newer, NEWER_SHOWN)}.`,
    ]);
    return findings.length > 0 ? EXIT.damage : EXIT.done;
  });
}

/**
 * Creates a copy's keys, then the copy itself once the user has the recovery key.
 * @throws usage-invalid for invalid option combinations; offsite-no-witness if the recovery key can be neither shown
 * nor written; errors from `createCopy`
 */
export async function copyInit(context: CommandContext, line: InitLine): Promise<void> {
  const { signal, output, now } = context;
  const { createBucket = false, objectLock = false, age = [], writeOnly = false } = line;
  const target = requireOption(line.to, '--to');
  if (objectLock && !createBucket) {
    const problem = '--object-lock needs --create-bucket: it changes no bucket that exists.';
    throw invalidUsage('copy init', problem);
  }
  const dataDir = requireArchiveDir(context);
  const file = newKeyFile(context, line.recoveryKeyFile);
  refuseKeyFile(file);
  const passphrase = passphraseOf(context, line.passphraseFile);
  return withStore(context, target, { createBucket, objectLock }, async (store) => {
    await refuseExistingCopy(store, signal);
    const prepared = await prepareCopy(dataDir);
    const common = { dataDir, store, to: store.label, prepared, passphrase, age, writeOnly };
    const copyId = await withNewKeyFile(file, (written) =>
      createCopy({
        ...{ ...common, signal, now },
        handOver: async () => {
          await handOver(context, file, store.label, prepared);
          written();
        },
      }),
    );
    const signer = prepared.signer.toString('base64');
    const result = { to: store.label, copyId, signer, recoveryKeyFile: file ?? null, writeOnly };
    await output.object(result, () => [
      `A copy begins at ${store.label}. Its manifests are signed by ${signer}.`,
      file !== undefined &&
        `The recovery key is in ${file}. Keep it away from this machine: anyone who has it can read the copy, and without it you cannot recover the copy.`,
      writeOnly && 'This machine can write to the copy, but not read it.',
      `"mailkeep copy --to ${target}" copies the archive there.`,
    ]);
  });
}

/**
 * Forgets an abandoned copy. Does not contact the target, which may no longer exist.
 * @throws offsite-unknown, offsite-planned
 */
export async function copyDrop(context: CommandContext, line: Values<'to'>): Promise<void> {
  const { output, environment } = context;
  const target = requireOption(line.to, '--to');
  parseTarget(target);
  const to = canonicalTarget(target, environment.cwd) ?? target;
  const forget = (state: StateFile | undefined) => (state && forgetCopy(state, to)) ?? 'unknown';
  const outcome = await withState(requireArchiveDir(context), forget, openExistingState);
  if (outcome === 'unknown') throw copiesError('offsite-unknown', { to });
  if (outcome === 'planned') throw copiesError('offsite-planned', { to });
  await output.object(
    { to, dropped: true },
    () => `${to} is no longer listed. Nothing was deleted there, and its keys are still here.`,
  );
}

type AddLine = OpenWithOptions &
  Values<'to' | 'recoveryKeyFile' | 'passphraseFile' | 'label'> &
  Values<'age', readonly string[]>;
/** `limitRate` is in bytes per second. */
type RotateLine = OpenWithOptions &
  Values<'to' | 'recoveryKeyFile' | 'passphraseFile'> &
  Flags<'reencrypt'> &
  Values<'limitRate', number>;

const OPENS = {
  new: 'opens everything',
  old: 'opens older states only',
  unknown: 'does not say what it opens',
};
const OPENS_COLUMNS = Math.max(...Object.values(OPENS).map((text) => text.length));

export async function keyList(context: CommandContext, line: Values<'to'>): Promise<ExitCode> {
  const { output, signal } = context;
  const target = requireOption(line.to, '--to');
  const dataDir = requireArchiveDir(context);
  return withStore(context, target, {}, async (store) => {
    const listing = await listKeys({ dataDir, store, signal });
    const { recipients, signers, damaged, isRotating } = listing;
    for (const { keys, opens } of recipients) {
      const { id, type, label, created } = keys;
      const at = timeText(created);
      const columns = [padColumns(type, 10), at ?? '?', padColumns(OPENS[opens], OPENS_COLUMNS)];
      await output.line({ what: 'recipient', id, type, label, created: at, opens }, () =>
        [id, ...columns, label === null ? '' : terminalLine(label)].join('  ').trimEnd(),
      );
    }
    for (const [at, signer] of signers.entries()) {
      const text = signer.toString('base64');
      await output.line({ what: 'signer', signer: text, first: at === 0 }, () =>
        at === 0 ? `signed by ${text}` : `signed by ${text}, later`,
      );
    }
    if (isRotating) {
      await output.line(
        { what: 'rotation', state: 'interrupted' },
        () => `A rotation was interrupted. "mailkeep copy key rotate --to ${target}" completes it.`,
      );
    }
    for (const error of damaged) {
      const { message } = describeError(error);
      const { name } = error.facts;
      const objectName = typeof name === 'string' ? name : null;
      await output.line({ what: 'damaged', name: objectName, error: message }, () =>
        terminalLine(message),
      );
    }
    return damaged.length > 0 ? EXIT.damage : EXIT.done;
  });
}

/** Formats an untrusted time. Returns null if it is invalid. */
function timeText(created: number): string | null {
  const time = new Date(created);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

interface NewRecovery {
  readonly recovery: Buffer;
  readonly signer: Buffer;
}

function newKeyFile({ environment }: CommandContext, name: string | undefined): string | undefined {
  return name === undefined ? undefined : path.resolve(environment.cwd, name);
}

/**
 * Refuses an existing file, or one in an unwritable folder. Called before any work, because the file is written last.
 * @throws usage-save-failed
 */
function refuseKeyFile(file: string | undefined): void {
  if (file === undefined) return;
  if (lstatSync(file, { throwIfNoEntry: false }) !== undefined) throw saveFailed(file, 'EEXIST');
  try {
    accessSync(path.dirname(file), constants.W_OK);
  } catch (error) {
    throw saveFailed(file, errnoName(error));
  }
}

/** Runs `act`. On failure, removes the recovery key file that it wrote, because that key opens nothing. */
async function withNewKeyFile<T>(
  file: string | undefined,
  act: (written: () => void) => Promise<T>,
): Promise<T> {
  let isWritten = false;
  try {
    return await act(() => {
      isWritten = true;
    });
  } catch (error) {
    if (isWritten && file !== undefined) rmSync(file, { force: true });
    throw error;
  }
}

function saveFailed(file: string, reason: string): Error {
  return usageError('usage-save-failed', { file, reason });
}

/**
 * Gives the user a new recovery key before it opens anything. Writes it to a new file, or shows it on a terminal and
 * asks the user to type it back.
 * @param to the copy, for display
 * @throws offsite-no-witness if it can be neither shown nor written; usage-save-failed
 */
async function handOver(
  context: CommandContext,
  file: string | undefined,
  to: string,
  key: NewRecovery,
): Promise<void> {
  if (file !== undefined) return writeKey(file, to, key);
  const prompter = context.globals.json ? undefined : terminalPrompter(context);
  if (prompter === undefined) throw copiesError('offsite-no-witness', {});
  const { stream } = context.notices;
  const lines = recoveryLines(key.recovery);
  stream.write(
    [
      'The recovery key opens the copy if this machine is lost. It is shown once. Write it down on paper:',
      '',
      ...lines.map((text, at) => `   ${at + 1}.  ${text}`),
      '',
      `   signed by  ${key.signer.toString('base64')}`,
      '',
      'Type it from the paper:',
      '',
    ].join('\n'),
  );
  for (const [at, expected] of lines.entries()) {
    // Typing the key back proves that it was written down legibly.
    while (!isLine(await prompter.line(`Line ${at + 1}`), at + 1, expected)) {
      stream.write(
        `That is not line ${at + 1}. Compare it with the paper, and the paper with the above.\n`,
      );
    }
  }
}

function isLine(typed: string, number: number, expected: string): boolean {
  try {
    return parseRecoveryLine(typed, number).equals(parseRecoveryLine(expected, number));
  } catch {
    // Any error means a mistyped line, which the caller reports.
    return false;
  }
}

/**
 * Writes a recovery key to a new file. Never replaces an existing one.
 * @throws usage-save-failed
 */
function writeKey(file: string, to: string, { recovery, signer }: NewRecovery): void {
  const text = [
    `# The recovery key of the mailkeep copy at ${to}. Keep it away from the machine and from the copy.`,
    `# Manifests are signed by ${signer.toString('base64')}`,
    ...recoveryLines(recovery),
    '',
  ].join('\n');
  try {
    writeFileSync(file, text, { mode: FILE_MODE, flag: 'wx', flush: true });
  } catch (error) {
    throw saveFailed(file, errnoName(error));
  }
}

/**
 * Wraps a copy's keys for another recipient. Creates a recovery key unless the options or the environment specify a
 * recipient.
 * @throws errors from `openOwnCopy`, `addRecipients` and `handOver`
 */
export async function keyAdd(context: CommandContext, line: AddLine): Promise<void> {
  const { signal, output, now } = context;
  const target = requireOption(line.to, '--to');
  const dataDir = requireArchiveDir(context);
  const file = newKeyFile(context, line.recoveryKeyFile);
  refuseKeyFile(file);
  const { age = [], label } = line;
  const isNamed = file !== undefined || age.length > 0;
  // If options name another recipient, the environment's passphrase may be the secret that opens the copy.
  const passphrase =
    line.passphraseFile !== undefined || !isNamed
      ? passphraseOf(context, line.passphraseFile)
      : undefined;
  const isRecovery = file !== undefined || (!isNamed && passphrase === undefined);
  return withStore(context, target, {}, async (store) => {
    const order = { dataDir, store, signal };
    const secrets = await openOwnCopy(order, () => openingKeyAlongside(context, line));
    const recovery = isRecovery ? newRecoveryKey() : undefined;
    const additions = { recovery, passphrase, age, label };
    const ids = await withNewKeyFile(file, async (written) => {
      if (recovery !== undefined) {
        await handOver(context, file, store.label, { recovery, signer: secrets.signer });
        written();
      }
      return addRecipients({ ...order, secrets, additions, now });
    });
    const result = { to: store.label, added: ids, recoveryKeyFile: file ?? null };
    await output.object(result, () => [
      `${counted(ids.length, 'recipient')} added: ${ids.join(', ')}.`,
      file !== undefined && `The recovery key is in ${file}. Keep it away from this machine.`,
    ]);
  });
}

export async function keyRemove(
  context: CommandContext,
  ids: readonly string[],
  line: Values<'to'>,
): Promise<void> {
  const { output, signal } = context;
  const target = requireOption(line.to, '--to');
  const dataDir = requireArchiveDir(context);
  return withStore(context, target, {}, async (store) => {
    const removed = await removeRecipients({ dataDir, store, signal, ids });
    await output.object({ to: store.label, removed }, () => [
      `${counted(removed.length, 'recipient')} removed: ${removed.join(', ')}.`,
      'This revokes nothing that was learned before: whoever opened the copy may have kept its keys.',
      `"mailkeep copy key rotate --to ${target}" makes new keys for what is copied from now on.`,
    ]);
  });
}

/** Maximum number of recipients shown. Limited because anyone can add them; JSON lists them all. */
const OLD_SHOWN = 5;
/** Keeps all states, because the next copy decides how many remain. */
const KEEP_ALL = Number.MAX_SAFE_INTEGER;

/**
 * Creates new keys for future copies. With `--reencrypt`, also re-uploads existing data.
 * @throws errors from `openOwnCopy`, `rotateKeys` and `handOver`
 */
export async function keyRotate(context: CommandContext, line: RotateLine): Promise<void> {
  const { signal, output } = context;
  const target = requireOption(line.to, '--to');
  const order = { dataDir: requireArchiveDir(context), signal };
  const file = newKeyFile(context, line.recoveryKeyFile);
  // The environment's passphrase may be the secret that opens the copy, so it does not become a recipient.
  const { passphraseFile } = line;
  const passphrase =
    passphraseFile === undefined ? undefined : passphraseOf(context, passphraseFile);
  return withStore(context, target, { bytesPerSecond: line.limitRate }, async (store) => {
    const request = { ...order, store };
    const isFinishing = await isRotationUnfinished(request);
    const rotated = isFinishing
      ? await finishRotation(request)
      : await rotate(context, line, request, file, passphrase);
    const refreshOrder = { ...request, refresh: true, keep: KEEP_ALL };
    const sent = line.reencrypt === true ? await upload(context, refreshOrder) : null;
    const uploaded = sent && { objects: sent.uploaded, bytes: sent.bytes };
    const recoveryKeyFile = isFinishing ? null : (file ?? null);
    const result = { to: store.label, ...rotated, recoveryKeyFile, uploaded };
    await output.object(result, () => [
      isFinishing
        ? 'The rotation that was interrupted is complete: its recovery key opens the copy.'
        : `What is copied from now on is encrypted for a new key, with ${counted(rotated.added.length, 'recipient')}.`,
      recoveryKeyFile !== null &&
        `The new recovery key is in ${recoveryKeyFile}. Keep it away from this machine.`,
      rotated.removed.length > 0 &&
        `${counted(rotated.removed.length, 'recipient')} of the earlier key removed.`,
      rotated.old.length > 0 &&
        `${counted(rotated.old.length, 'recipient')} can open only what was copied before: ${shortList(rotated.old, OLD_SHOWN)}.`,
      uploaded !== null &&
        `${counted(uploaded.objects, 'object')} uploaded again, ${bytes(uploaded.bytes)}. Earlier states stay readable with the earlier key until a copy removes them.`,
      uploaded === null &&
        `What is there stays readable with the earlier key. "mailkeep copy --refresh --to ${target}" uploads it again.`,
    ]);
  });
}

async function rotate(
  context: CommandContext,
  line: RotateLine,
  order: KeyRequest,
  file: string | undefined,
  passphrase: string | undefined,
): Promise<RotatedKeys> {
  const { store } = order;
  const secrets = await openOwnCopy(order, () => openingKeyAlongside(context, line));
  refuseTooManyKeys(secrets, store.label);
  const recovery = newRecoveryKey();
  await handOver(context, file, store.label, { recovery, signer: secrets.signer });
  const additions = { recovery, passphrase };
  return rotateKeys({ ...order, secrets, additions, now: context.now });
}
