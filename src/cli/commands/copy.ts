import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { formatPath } from '../../archive/format.ts';
import { type CatalogThere, type Copied, copyArchive } from '../../copies/copy-log.ts';
import {
  beginCopy,
  copyToTarget,
  prepareCopy,
  refuseExisting,
} from '../../copies/copy-to-target.ts';
import { copiesError } from '../../copies/errors.ts';
import type { Way } from '../../copies/format/keys.ts';
import {
  type RestoredSettings,
  restoreSettings,
  settingsIn,
  settingsText,
  writeSettings,
} from '../../copies/kept-objects.ts';
import { noteCopied, noteMended } from '../../copies/own-copy.ts';
import { type ArchiveBack, adoptCopy, bringArchiveBack } from '../../copies/restore-copy.ts';
import type { CopiedOut } from '../../copies/upload-copy.ts';
import { nameOfTarget } from '../../core/config-schema.ts';
import { portableConfig } from '../../core/config-shown.ts';
import { usageError } from '../../core/error-tables.ts';
import { EXIT, type ExitCode, sentenceOf, some } from '../../core/errors.ts';
import { noPathProblem, parseTarget } from '../../core/s3-target.ts';
import { openExistingState } from '../../core/state.ts';
import { bytes, count, counted } from '../../core/text.ts';
import { forgetCopy } from '../../verify/copy-facts.ts';
import { archiveOf } from '../archive.ts';
import type { Body, CommandContext } from '../context.ts';
import {
  foundIn,
  isEncrypted,
  notingDamage,
  openingKey,
  passphraseOf,
  required,
  sub,
  withStore,
} from '../copy-target.ts';
import { collected, rate, signerKey, wholeNumber } from '../option-values.ts';
import { present } from '../output.ts';
import { openActivity } from '../progress.ts';
import { defineKeys, handOver, newKeyFile, refuseKeyFile, withNewKeyFile } from './copy-keys.ts';

const HELP = `
Updates a copy of the archive to the same commits. It can run during a sync, and can be interrupted safely: what
was copied before stays valid, and the same command continues.

A copy in a folder (another disk, a mounted share) is a complete archive: every segment is read back and verified
before it is put in place, "mailkeep verify --data DIR" verifies it, and with --rebuild it can be searched with
--data DIR. What was purged here is purged there.

A copy in S3 is encrypted, and so is one in a folder that was begun with "copy init": whoever keeps it cannot read
it, and what they change is found. "copy init" makes its keys. "copy --from" makes an archive out of such a copy,
on a machine that has nothing but the address and the recovery key.

With --lock-days, Object Lock (compliance mode) keeps every object of the copy in a bucket that has it: until the
days have passed, nobody can delete or shorten that, not even the owner of the account. Later copies extend it for
what is current. What is forgotten here stays in the bucket until its lock ends.

A copy that has more commits than this archive, or different ones, is never changed.

S3 reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL and AWS_PROFILE,
and the files in ~/.aws.

EXAMPLES
  mailkeep copy --to /media/usb/archive
  mailkeep copy init --to s3://my-bucket/mail
  mailkeep copy --to s3://my-bucket/mail
  mailkeep copy --to s3://my-locked-bucket/mail --lock-days 90
  mailkeep copy --from s3://my-bucket/mail --to ./archive --recovery-key-file key.txt
  mailkeep copy key list --to s3://my-bucket/mail
  mailkeep copy adopt --to s3://my-bucket/mail
  mailkeep copy drop --to s3://my-old-bucket/mail
  mailkeep verify --copy s3://my-bucket/mail`;

/** Manifests that are kept at the least. */
const MOST_KEPT = 10_000;
const MOST_LOCK_DAYS = 36_500;
const MOST_COMMITS = Number.MAX_SAFE_INTEGER;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .usage('[init|adopt|drop|key] --to <target> [options]')
    .argument('[command]')
    .helpCommand(false)
    .option('--to <target>', 'the copy: a folder, or s3://BUCKET/PREFIX')
    .option(
      '--encrypt',
      'make no readable copy: refuse a folder that was not begun with "copy init"',
    )
    .option('--rebuild', 'build the catalog of a copy in a folder, so that it can be searched')
    .option('--refresh', 'of an encrypted copy: upload every segment again')
    .option(
      '--keep <n>',
      'of an encrypted copy: keep this many of its states (default: 1); all of the last day stay',
      wholeNumber(1, MOST_KEPT),
    )
    .option(
      '--lock-days <n>',
      'in S3: lock what is copied for this many days; nobody can delete it before',
      wholeNumber(1, MOST_LOCK_DAYS),
    )
    .option('--limit-rate <rate>', 'send at most this much a second, such as 500k or 2M', rate)
    .option('--from <target>', 'make an archive in the folder --to out of this encrypted copy')
    .option(
      '--at-commit <n>',
      'for --from: the copy as of this commit',
      wholeNumber(1, MOST_COMMITS),
    )
    .option(
      '--at-least <n>',
      'for --from: refuse a copy whose newest commit is older',
      wholeNumber(1, MOST_COMMITS),
    )
    .addHelpText('after', HELP)
    .action((typed: string | undefined, options: CopyLine & FromLine) => {
      if (typed !== undefined) {
        const problem = `unknown command '${typed}'. Use init, adopt, drop or key, or --to alone.`;
        throw usageError('usage-invalid', { command: 'copy', problem });
      }
      chosen(async (context) => {
        if (options.from !== undefined) {
          return copyFrom(context, options);
        }
        return copyTo(context, options);
      });
    });
  withKeys(command);
  const init = sub(
    command,
    'init',
    'begin an encrypted copy: make its keys, and show the recovery key',
  )
    .option('--to <target>', 'where the copy will be: s3://BUCKET/PREFIX, or a folder')
    .option('--create-bucket', 'create the bucket, unless it is ours already')
    .option('--object-lock', 'create it as one that can lock objects, for --lock-days')
    .option('--recovery-key-file <file>', 'write the recovery key to this new file instead')
    .option('--passphrase-file <file>', 'let this passphrase open the copy as well')
    .option(
      '--age <recipient>',
      'let this age recipient open the copy as well; repeatable',
      collected,
    )
    .option('--write-only', 'keep no key on this machine that can read the copy');
  // The parser gives options that both have to the command before.
  init.action((options: InitLine) =>
    chosen(async (context) => {
      return copyInit(context, { ...command.opts<InitLine>(), ...options });
    }),
  );
  const adopt = sub(
    command,
    'adopt',
    'continue a copy with an archive that came from it, on a new machine',
  )
    .option('--to <target>', 'the copy: s3://BUCKET/PREFIX, or a folder')
    .option('--older-key', 'continue with these keys although recipients have newer ones');
  withKeys(adopt).action((options: AdoptLine) =>
    chosen(async (context) => {
      return copyAdopt(context, { ...command.opts<AdoptLine>(), ...options });
    }),
  );
  const drop = sub(command, 'drop', 'remove a copy that you gave up from "status"')
    .option('--to <target>', 'the copy, as "status" shows it')
    .addHelpText('after', '\nNothing is deleted at the target, and its keys stay on this machine.');
  drop.action((options: ListLine) =>
    chosen(async (context) => {
      return copyDrop(context, { ...command.opts<ListLine>(), ...options });
    }),
  );
  defineKeys(command, chosen);
}

function withKeys(command: Command): Command {
  return command
    .option('--recovery-key-file <file>', 'the recovery key is in this file')
    .option('--passphrase-file <file>', 'the passphrase is the first line of this file')
    .option('--identity-file <file>', 'the age identity is in this file')
    .option(
      '--signer <key>',
      'refuse a copy that was not begun with this signing key, as "copy init" printed it',
      signerKey,
    );
}

/** `mailkeep copy --to`: in a folder a readable archive, elsewhere an encrypted copy. @throws usage-invalid */
function copyTo(context: CommandContext, options: CopyLine): Promise<ExitCode> {
  const to = required(options.to, '--to');
  if (isEncrypted(context, archiveOf(context), to)) return copyToStore(context, to, options);
  if (options.encrypt === true) {
    const problem = `${to} has no encrypted copy. Begin one with "mailkeep copy init --to ${to}".`;
    throw usageError('usage-invalid', { command: 'copy', problem });
  }
  return copyToFolder(context, to, options);
}

/** States of a copy that stay however old they are, if not said. */
const KEPT = 1;

/** All of them are in JSON. */
const FINDINGS_SHOWN = 5;

/** @throws what the engine's `copyToTarget` throws */
async function copyToStore(
  context: CommandContext,
  target: string,
  { refresh = false, keep = KEPT, limitRate, lockDays }: CopyLine,
): Promise<ExitCode> {
  const { signal, output, now } = context;
  const dataDir = archiveOf(context);
  const startedAt = now();
  return withStore(context, target, { bytesPerSecond: limitRate }, async (store) => {
    const to = store.label;
    const activity = openActivity(context, 'comparing the copy with the archive');
    const copied = await notingDamage(context, dataDir, to, () =>
      copyToTarget({
        ...{ dataDir, store, refresh, keep, lockDays, signal, now },
        config: portableConfig(context.globals, context.surroundings, dataDir),
        onProgress: ({ objects, of, bytes: sent }) =>
          activity.show(() => `uploaded ${objects} of ${counted(of, 'object')}, ${bytes(sent)}`),
      }).finally(activity.stop),
    );
    const { number: commit, removed, locks, mended: _, replaced, ...rest } = copied;
    const findings = foundIn(copied.findings);
    noteCopied(context, dataDir, to, { at: now(), commit, encrypted: true });
    noteMended(context, dataDir, to, findings, replaced);
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
  copied: CopiedOut,
  findings: readonly { readonly message: string; readonly repaired: boolean }[],
): string {
  const { number, uploaded, objects, stored, replaced, invalid, removed, locks } = copied;
  const left = findings.filter(({ repaired }) => !repaired);
  const until = removed.lockedUntil;
  return present([
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
  ]).join('\n');
}

/** @throws offsite-no-locks; what the engine's `copyArchive` throws */
async function copyToFolder(
  context: CommandContext,
  target: string,
  options: CopyLine,
): Promise<ExitCode> {
  const { surroundings, signal, output, now } = context;
  const from = archiveOf(context);
  const to = path.resolve(surroundings.cwd, target);
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
    onFold: ({ messages }) =>
      activity.show(() => `read ${counted(messages, 'message')} of the copied log`),
    onIndex: ({ indexed, remaining }) =>
      activity.show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
  }).finally(activity.stop);
  noteCopied(context, from, to, { at: now(), commit: copied.number, encrypted: false });
  await carrySettings(context, from, to);
  const result = { to, ...copied, catalog, durationMs: now() - startedAt };
  await output.object(result, () => copyReport(to, copied, catalog));
  return EXIT.done;
}

/** Writes what a readable copy carries besides the archive. */
async function carrySettings(
  { globals, surroundings }: CommandContext,
  from: string,
  to: string,
): Promise<void> {
  const state = openExistingState(from);
  try {
    const text = settingsText(state, portableConfig(globals, surroundings, from));
    if (text !== undefined) await writeSettings(to, text);
  } finally {
    state?.close();
  }
}

function copyReport(
  to: string,
  { number, segments, written, bytes: size, purged }: Copied,
  catalog: CatalogThere,
): string {
  return present([
    `${to} is at commit ${number}: ${counted(written, 'segment')} of ${segments} copied and verified, ${bytes(size)}.`,
    purged > 0 && `${counted(purged, 'record')} purged there as well.`,
    catalog === 'updated' && 'Its catalog was brought up to date.',
    (catalog === 'none' || catalog === 'removed') &&
      `It has no catalog; "mailkeep rebuild --data ${to}" creates one; so does "mailkeep copy" with --rebuild.`,
  ]).join('\n');
}

/** `mailkeep copy --from`: makes an archive out of an encrypted copy. */
async function copyFrom(context: CommandContext, line: FromLine): Promise<ExitCode> {
  const { surroundings, signal, output, now } = context;
  const from = required(line.from, '--from');
  const typed = required(line.to, '--to');
  const problem = noPathProblem(typed);
  if (problem !== undefined) {
    throw usageError('usage-invalid', {
      command: 'copy',
      problem: `--to takes a path: ${problem}.`,
    });
  }
  const to = path.resolve(surroundings.cwd, typed);
  const startedAt = now();
  const source = parseTarget(from);
  if (source.kind === 'folder') {
    const folder = path.resolve(surroundings.cwd, source.path);
    if (existsSync(formatPath(folder))) return fromFolder(context, folder, to);
  }
  return withStore(context, from, { bytesPerSecond: line.limitRate }, async (store) => {
    const way = await openingKey(context, line);
    const activity = openActivity(context, 'opening the copy');
    const back = await bringArchiveBack({
      ...{ store, to, way, signal },
      signer: line.signer,
      atCommit: line.atCommit,
      atLeast: line.atLeast,
      onSegments: ({ segments, of }) =>
        activity.show(() => `brought back ${segments} of ${counted(of, 'segment')}`),
      onFold: ({ messages }) =>
        activity.show(() => `read ${counted(messages, 'message')} of the log`),
      onIndex: ({ indexed, remaining }) =>
        activity.show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
    }).finally(activity.stop);
    const copiedAt = new Date(back.copiedAt).toISOString();
    const lost = back.lost.map(({ segment, error }) => ({
      segment,
      error: sentenceOf(error).message,
    }));
    const invalid = back.invalid.map((error) => sentenceOf(error).message);
    const { copyId, number, hash, segments, messages } = back;
    const durationMs = now() - startedAt;
    const timings = { fetchMs: back.fetchMs, catalogMs: Math.max(0, durationMs - back.fetchMs) };
    const signer = back.signer.toString('base64');
    const result = { from: store.label, to, copyId, signer, number, hash, copiedAt, segments };
    await output.object(
      {
        ...result,
        ...{ bytes: back.bytes, messages, lost, invalid, settings: back.settings },
        ...{ timings, durationMs },
      },
      () => report(to, back, copiedAt, lost, invalid, isProven(way, line) ? undefined : signer),
    );
    return back.lost.length > 0 ? EXIT.damage : EXIT.done;
  });
}

/** Makes an archive out of a readable copy. @throws what the engine's `copyArchive` throws */
async function fromFolder(context: CommandContext, from: string, to: string): Promise<ExitCode> {
  const { signal, output, now } = context;
  const startedAt = now();
  const activity = openActivity(context, 'reading the copy');
  const copied = await copyArchive({
    ...{ from, to, rebuild: true, signal },
    onCopy: ({ segments, of }) =>
      activity.show(() => `brought back ${segments} of ${counted(of, 'segment')}`),
    onFold: ({ messages }) =>
      activity.show(() => `read ${counted(messages, 'message')} of the log`),
    onIndex: ({ indexed, remaining }) =>
      activity.show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
  }).finally(activity.stop);
  const text = settingsIn(from);
  const settings = (text && (await restoreSettings(to, text))) ?? null;
  const { number, hash, segments, bytes: size } = copied;
  const result = { from, to, number, hash, segments, bytes: size, settings };
  await output.object({ ...result, durationMs: now() - startedAt }, () =>
    [
      `${to} is the archive as of commit ${count(number)}: ${counted(segments, 'segment')}, ${bytes(size)}.`,
      ...settingsLines(settings),
    ].join('\n'),
  );
  return EXIT.done;
}

/** Whether the keys of the copy can only be those that `copy init` made. */
function isProven({ type }: Way, { signer }: FromLine): boolean {
  return type !== 'age' || signer !== undefined;
}

/** Says what came back besides the archive, and which secrets are still to be entered. */
function settingsLines(settings: RestoredSettings | null): readonly string[] {
  const { config = null, secrets = [], savedSearches = 0 } = settings ?? {};
  return present([
    savedSearches > 0 && `${counted(savedSearches, 'saved search', 'saved searches')} restored.`,
    config !== null && `The configuration is in ${config}, without its secrets.`,
    secrets.length > 0 && `Enter or provide: ${secrets.join(', ')}.`,
    `Not in a copy: ${config === null ? 'the configuration, ' : ''}tokens, the keys of copies.`,
  ]);
}

/** @param unproven who began the copy, where an age identity alone says so */
function report(
  to: string,
  { number, segments, bytes: size, messages, settings }: ArchiveBack,
  copiedAt: string,
  lost: readonly { readonly segment: number; readonly error: string }[],
  invalid: readonly string[],
  unproven: string | undefined,
): string {
  return present([
    `${to} is the archive as of commit ${count(number)}, copied at ${copiedAt}: ${counted(messages, 'message')} in ${counted(segments, 'segment')}, ${bytes(size)}.`,
    'If you know that a later commit was copied, somebody has put an older copy back: --at-least refuses that.',
    unproven !== undefined &&
      `It was begun with the signing key ${unproven}. Compare it with the one that "copy init" printed: whoever knows an age recipient can make something that looks like a copy.`,
    lost.map(({ segment, error }) => `Segment ${segment} was lost: ${error}`),
    invalid.map((text) => `Ignored: ${text}`),
    settingsLines(settings),
    `Next: "mailkeep verify --data ${to}", then "mailkeep copy adopt" to continue this copy.`,
  ]).join('\n');
}

/** What `mailkeep copy` was given. */
interface CopyLine {
  readonly to?: string;
  readonly encrypt?: boolean;
  readonly rebuild?: boolean;
  readonly refresh?: boolean;
  readonly keep?: number;
  readonly lockDays?: number;
  /** Bytes a second. */
  readonly limitRate?: number;
}

/** Where the user said that what opens a copy is. */
export interface KeyLine {
  readonly recoveryKeyFile?: string | undefined;
  readonly passphraseFile?: string | undefined;
  readonly identityFile?: string | undefined;
}

/** The same where those options name something new. */
export interface OpenWithLine {
  readonly openWithRecoveryKey?: string;
  readonly openWithPassphrase?: string;
  readonly openWithIdentity?: string;
}

export interface ListLine {
  readonly to?: string;
}

/** What `mailkeep copy key add` was given: who is to open the copy as well. */
export interface AddLine extends OpenWithLine {
  readonly to?: string;
  readonly recoveryKeyFile?: string;
  readonly passphraseFile?: string;
  readonly age?: readonly string[];
  readonly label?: string;
}

/** What `mailkeep copy key rotate` was given: who is to open the copy from now on. */
export interface RotateLine extends OpenWithLine {
  readonly to?: string;
  readonly recoveryKeyFile?: string;
  readonly passphraseFile?: string;
  readonly reencrypt?: boolean;
  /** Bytes a second. */
  readonly limitRate?: number;
}

interface FromLine extends CopyLine, KeyLine {
  /** Ed25519, 32 bytes: who must have begun the copy. */
  readonly signer?: Buffer;
  readonly from?: string;
  readonly atCommit?: number;
  readonly atLeast?: number;
}

interface InitLine {
  readonly to?: string;
  readonly createBucket?: boolean;
  readonly objectLock?: boolean;
  readonly recoveryKeyFile?: string;
  readonly passphraseFile?: string;
  readonly age?: readonly string[];
  readonly writeOnly?: boolean;
}

interface AdoptLine extends KeyLine {
  /** Ed25519, 32 bytes: who must have begun the copy. */
  readonly signer?: Buffer;
  readonly to?: string;
  readonly olderKey?: boolean;
}

/** All of them are in JSON. */
const NEWER_SHOWN = 5;

/** `mailkeep copy adopt`: lets an archive that came from a copy continue that copy. */
async function copyAdopt(context: CommandContext, line: AdoptLine): Promise<ExitCode> {
  const { signal, output } = context;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  return withStore(context, target, {}, async (store) => {
    const way = await openingKey(context, line);
    const allowOlder = line.olderKey ?? false;
    const opened = { way, signer: line.signer };
    const adopted = await adoptCopy({ dataDir, store, ...opened, allowOlder, signal });
    const { copyId, signer, newer } = adopted;
    const findings = foundIn(adopted.findings);
    const result = { to: store.label, copyId, signer: signer.toString('base64'), newer, findings };
    await output.object(result, () =>
      present([
        `This archive continues the copy at ${store.label}, and signs for it with ${result.signer}.`,
        `"mailkeep copy --to ${target}" copies what is new.`,
        findings.map(
          ({ message, repaired }) => `${message}${repaired ? ' It was stored again.' : ''}`,
        ),
        newer.length > 0 &&
          `${counted(newer.length, 'recipient')} with newer keys should be removed, with "mailkeep copy key remove": ${some(newer, NEWER_SHOWN)}.`,
      ]).join('\n'),
    );
    return findings.length > 0 ? EXIT.damage : EXIT.done;
  });
}

/**
 * `mailkeep copy init`: makes the keys of a copy and begins it, once its owner has the recovery key.
 *
 * @throws usage-invalid for options that do not fit, offsite-no-witness where the recovery key can be neither shown nor written; what the engine throws
 */
async function copyInit(context: CommandContext, line: InitLine): Promise<ExitCode> {
  const { signal, output, now } = context;
  const { createBucket = false, objectLock = false, age = [], writeOnly = false } = line;
  const target = required(line.to, '--to');
  if (objectLock && !createBucket) {
    const problem = '--object-lock needs --create-bucket: it changes no bucket that exists.';
    throw usageError('usage-invalid', { command: 'copy init', problem });
  }
  const dataDir = archiveOf(context);
  const file = newKeyFile(context, line.recoveryKeyFile);
  refuseKeyFile(file);
  const passphrase = passphraseOf(context, line.passphraseFile);
  return withStore(context, target, { createBucket, objectLock }, async (store) => {
    await refuseExisting(store, signal);
    const prepared = await prepareCopy(dataDir);
    const begun = { dataDir, store, to: store.label, prepared, passphrase, age, writeOnly };
    const copyId = await withNewKeyFile(file, (written) =>
      beginCopy({
        ...{ ...begun, signal, now },
        handOver: async () => {
          await handOver(context, file, store.label, prepared);
          written();
        },
      }),
    );
    const signer = prepared.signer.toString('base64');
    const result = { to: store.label, copyId, signer, recoveryKeyFile: file ?? null, writeOnly };
    await output.object(result, () =>
      present([
        `A copy begins at ${store.label}. Its manifests are signed by ${signer}.`,
        file !== undefined &&
          `The recovery key is in ${file}. Keep it away from this machine: anyone who has it can read the copy, and without it you cannot recover the copy.`,
        writeOnly && 'This machine can write to the copy, but not read it.',
        `"mailkeep copy --to ${target}" copies the archive there.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}

/**
 * `mailkeep copy drop`: forgets what this archive knows of a copy that was given up. Asks nothing of the target, which
 * may be gone.
 *
 * @throws offsite-unknown, offsite-planned
 */
async function copyDrop(context: CommandContext, line: ListLine): Promise<ExitCode> {
  const { output, surroundings } = context;
  const typed = required(line.to, '--to');
  parseTarget(typed);
  const to = nameOfTarget(typed, surroundings.cwd) ?? typed;
  const state = openExistingState(archiveOf(context));
  try {
    const was = state === undefined ? 'unknown' : forgetCopy(state, to);
    if (was === 'unknown') throw copiesError('offsite-unknown', { to });
    if (was === 'planned') throw copiesError('offsite-planned', { to });
  } finally {
    state?.close();
  }
  await output.object(
    { to, dropped: true },
    () => `${to} is no longer listed. Nothing was deleted there, and its keys are still here.`,
  );
  return EXIT.done;
}
