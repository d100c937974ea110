import { accessSync, constants, lstatSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { FILE_MODE } from '../../archive/format.ts';
import { copyToTarget } from '../../copies/copy-to-target.ts';
import { copiesError } from '../../copies/errors.ts';
import { newRecoveryKey, parseRecoveryLine, recoveryLines } from '../../copies/format/keys.ts';
import { type KeysOrder, type Opens, openOwnCopy } from '../../copies/own-copy.ts';
import {
  addRecipients,
  finishRotation,
  isSwitched,
  type ListedRecipient,
  listKeys,
  type RotatedKeys,
  refuseTooManyKeys,
  removeRecipients,
  rotateKeys,
} from '../../copies/recipients.ts';
import { usageError } from '../../core/error-tables.ts';
import {
  EXIT,
  type ExitCode,
  errnoName,
  type MailkeepError,
  sentenceOf,
  some,
} from '../../core/errors.ts';
import { padColumns, terminalLine } from '../../core/terminal-safe.ts';
import { bytes, counted } from '../../core/text.ts';
import { archiveOf } from '../archive.ts';
import { terminalAsker } from '../ask.ts';
import type { Body, CommandContext } from '../context.ts';
import { openingKeyAlongside, passphraseOf, required, sub, withStore } from '../copy-target.ts';
import { collected, rate } from '../option-values.ts';
import { present } from '../output.ts';
import { openActivity } from '../progress.ts';
import type { AddLine, ListLine, RotateLine } from './copy.ts';

const HELP = `
A copy is encrypted for its recipients: a recovery key, passphrases, age recipients. Each of them opens all of
it, until the keys are rotated.

"remove" revokes nothing that was learned before: whoever opened the copy may have kept its keys, and still needs only
the objects. "rotate" makes new keys for what is copied from now on: with a new recovery key, with the passphrase of
--passphrase-file, and for the age recipients that this machine knows. Other recipients open only what was copied
before. An interrupted rotation is completed by running it again; the copy can be used meanwhile.

EXAMPLES
  mailkeep copy key list --to s3://my-bucket/mail
  mailkeep copy key add --to s3://my-bucket/mail --age age1… --label "Anna"
  mailkeep copy key remove 3f2a --to s3://my-bucket/mail
  mailkeep copy key rotate --to s3://my-bucket/mail --reencrypt`;

/** Declares `mailkeep copy key` and the commands below it. */
export function defineKeys(copy: Command, chosen: (body: Body) => void): void {
  const key = sub(
    copy,
    'key',
    'list, add and remove who can open an encrypted copy, or make new keys',
  )
    .usage('<list|add|remove|rotate> --to <target> [options]')
    .argument('[command]')
    .helpCommand(false)
    .addHelpText('after', HELP)
    .action((typed: string | undefined) => {
      if (typed === undefined) {
        throw usageError('usage-no-command', { help: key.helpInformation().trimEnd() });
      }
      const problem = `unknown command '${typed}'. Use list, add, remove or rotate.`;
      throw usageError('usage-invalid', { command: 'copy key', problem });
    });
  // The parser gives options that `copy` has too to that command.
  withTarget(sub(key, 'list', 'list who can open a copy, and who signs for it')).action(
    (options: ListLine) =>
      chosen(async (context) => {
        return keyList(context, { ...copy.opts<ListLine>(), ...options });
      }),
  );
  const add = withTarget(sub(key, 'add', 'let somebody else open a copy'))
    .option('--recovery-key-file <file>', 'a new recovery key, written to this new file')
    .option('--passphrase-file <file>', 'the passphrase in the first line of this file')
    .option('--age <recipient>', 'this age recipient; repeatable', collected)
    .option('--label <text>', 'whose it is; everybody who can list the copy can read this')
    .addHelpText(
      'after',
      '\nWithout an option that names a recipient, a new recovery key is shown, and has to be typed back.',
    );
  withOpening(add).action((options: AddLine) =>
    chosen(async (context) => {
      return keyAdd(context, { ...copy.opts<AddLine>(), ...options });
    }),
  );
  withTarget(sub(key, 'remove', 'remove recipients; nothing that was learned is revoked'))
    .argument('<id...>', 'ids as "copy key list" shows them, or how they begin')
    .action((ids: string[], options: ListLine) =>
      chosen(async (context) => {
        return keyRemove(context, ids, { ...copy.opts<ListLine>(), ...options });
      }),
    );
  const rotate = withTarget(sub(key, 'rotate', 'make new keys for what is copied from now on'))
    .option('--recovery-key-file <file>', 'write the new recovery key to this new file')
    .option('--passphrase-file <file>', 'let the passphrase in this file open the copy as well')
    .option('--reencrypt', 'upload what is there again, encrypted for the new key')
    .option('--limit-rate <rate>', 'send at most this much a second, such as 500k or 2M', rate)
    .addHelpText(
      'after',
      '\nWithout --recovery-key-file, the new recovery key is shown, and has to be typed back.',
    );
  withOpening(rotate).action((options: RotateLine) =>
    chosen(async (context) => {
      return keyRotate(context, { ...copy.opts<RotateLine>(), ...options });
    }),
  );
}

function withTarget(command: Command): Command {
  return command.option('--to <target>', 'the copy: s3://BUCKET/PREFIX, or a folder');
}

/** For machines that can only write: what opens the copy, so that its keys can be wrapped for others. */
function withOpening(command: Command): Command {
  return command
    .option('--open-with-recovery-key <file>', 'where this machine can only write: open with this')
    .option('--open-with-passphrase <file>', 'open with the passphrase in this file')
    .option('--open-with-identity <file>', 'open with the age identity in this file');
}

const OPENS: Readonly<Record<Opens, string>> = {
  new: 'opens everything',
  old: 'opens older states only',
  unknown: 'does not say what it opens',
};
const OPENS_COLUMNS = Math.max(...Object.values(OPENS).map((text) => text.length));

/** `mailkeep copy key list`: who can open a copy, what is damaged, and who signs. */
async function keyList(context: CommandContext, line: ListLine): Promise<ExitCode> {
  const { output, signal } = context;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  return withStore(context, target, {}, async (store) => {
    const listed = await listKeys({ dataDir, store, signal });
    const { recipients, signers, damaged, isRotating } = listed;
    for (const recipient of recipients) {
      await output.line(recipientFacts(recipient), () => recipientText(recipient));
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
      const { message } = sentenceOf(error);
      await output.line({ what: 'damaged', name: nameIn(error), error: message }, () =>
        terminalLine(message),
      );
    }
    return damaged.length > 0 ? EXIT.damage : EXIT.done;
  });
}

function recipientFacts({ keys, opens }: ListedRecipient) {
  const { id, type, label, created } = keys;
  return { what: 'recipient', id, type, label, created: timeText(created), opens };
}

function recipientText({ keys, opens }: ListedRecipient): string {
  const { id, type, label, created } = keys;
  return [
    id,
    padColumns(type, 10),
    timeText(created) ?? '?',
    padColumns(OPENS[opens], OPENS_COLUMNS),
    label === null ? '' : terminalLine(label),
  ]
    .join('  ')
    .trimEnd();
}

/** Anybody may have written the number; null where it is no time. */
function timeText(created: number): string | null {
  const time = new Date(created);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

function nameIn({ facts }: MailkeepError): string | null {
  return typeof facts.name === 'string' ? facts.name : null;
}

/** A recovery key that opens nothing yet. */
interface NewRecovery {
  readonly recovery: Buffer;
  /** Ed25519, 32 bytes: who signs the manifests of its copy. */
  readonly signer: Buffer;
}

/** Returns where a new recovery key is to be written; undefined where it is to be shown. */
export function newKeyFile(
  { surroundings }: CommandContext,
  named: string | undefined,
): string | undefined {
  return named === undefined ? undefined : path.resolve(surroundings.cwd, named);
}

/**
 * Refuses a file that exists already, or whose folder does not, before anything is done: it is written last.
 *
 * @throws usage-save-failed
 */
export function refuseKeyFile(file: string | undefined): void {
  if (file === undefined) return;
  if (lstatSync(file, { throwIfNoEntry: false }) !== undefined) throw unsaved(file, 'EEXIST');
  try {
    accessSync(path.dirname(file), constants.W_OK);
  } catch (error) {
    throw unsaved(file, errnoName(error));
  }
}

/** Runs `act`, and removes the file of a recovery key that it wrote if it fails: that key opens nothing. */
export async function withNewKeyFile<T>(
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

function unsaved(file: string, reason: string): Error {
  return usageError('usage-save-failed', { file, reason });
}

/**
 * Gives a new recovery key to its owner, before it opens anything: in a new file, or on a terminal, typed back.
 *
 * @param to the copy that it will open, for people
 * @throws offsite-no-witness where it can be neither shown nor written; usage-save-failed
 */
export async function handOver(
  context: CommandContext,
  file: string | undefined,
  to: string,
  made: NewRecovery,
): Promise<void> {
  if (file === undefined) await shown(context, made);
  else writeKey(file, to, made);
}

/** Shows the recovery key on a terminal, and has it typed back: paper that was never read is no key. */
async function shown(context: CommandContext, { recovery, signer }: NewRecovery): Promise<void> {
  const asker = context.globals.json ? undefined : terminalAsker(context);
  if (asker === undefined) throw copiesError('offsite-no-witness', {});
  const { stream } = context.notices;
  const lines = recoveryLines(recovery);
  stream.write(
    [
      'The recovery key opens the copy if this machine is lost. It is shown once. Write it down on paper:',
      '',
      ...lines.map((text, at) => `   ${at + 1}.  ${text}`),
      '',
      `   signed by  ${signer.toString('base64')}`,
      '',
      'Type it from the paper:',
      '',
    ].join('\n'),
  );
  for (const [at, wanted] of lines.entries()) {
    for (;;) {
      const typed = await asker.line(`Line ${at + 1}`);
      if (isLine(typed, at + 1, wanted)) break;
      stream.write(
        `That is not line ${at + 1}. Compare it with the paper, and the paper with the above.\n`,
      );
    }
  }
}

function isLine(typed: string, number: number, wanted: string): boolean {
  try {
    return parseRecoveryLine(typed, number).equals(parseRecoveryLine(wanted, number));
  } catch {
    // Whatever is wrong with it, it is not the line; the caller says so.
    return false;
  }
}

/** @throws usage-save-failed; a file that exists is never replaced */
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
    throw unsaved(file, errnoName(error));
  }
}

/**
 * `mailkeep copy key add`: wraps the keys of a copy for somebody else. Without a recipient in its options or a passphrase
 * in the environment, it makes a recovery key.
 *
 * @throws what the engine and `handOver` throw
 */
async function keyAdd(context: CommandContext, line: AddLine): Promise<ExitCode> {
  const { signal, output, now } = context;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  const file = newKeyFile(context, line.recoveryKeyFile);
  refuseKeyFile(file);
  const { age = [], label } = line;
  const isNamed = file !== undefined || age.length > 0;
  // The environment's passphrase may be what opens the copy, where something else is to be added.
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
    const added = await withNewKeyFile(file, async (written) => {
      if (recovery !== undefined) {
        await handOver(context, file, store.label, { recovery, signer: secrets.signer });
        written();
      }
      return addRecipients({ ...order, secrets, additions, now });
    });
    const result = { to: store.label, added, recoveryKeyFile: file ?? null };
    await output.object(result, () =>
      present([
        `${counted(added.length, 'recipient')} added: ${added.join(', ')}.`,
        file !== undefined && `The recovery key is in ${file}. Keep it away from this machine.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}

/** `mailkeep copy key remove`: removes recipients, and says what that does not do. */
async function keyRemove(
  context: CommandContext,
  ids: readonly string[],
  line: ListLine,
): Promise<ExitCode> {
  const { output, signal } = context;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  return withStore(context, target, {}, async (store) => {
    const removed = await removeRecipients({ dataDir, store, signal, ids });
    await output.object({ to: store.label, removed }, () =>
      [
        `${counted(removed.length, 'recipient')} removed: ${removed.join(', ')}.`,
        'This revokes nothing that was learned before: whoever opened the copy may have kept its keys.',
        `"mailkeep copy key rotate --to ${target}" makes new keys for what is copied from now on.`,
      ].join('\n'),
    );
    return EXIT.done;
  });
}

/** Anybody can put recipients there: so many are named, and all of them in JSON. */
const OLD_SHOWN = 5;
/** All states stay: how many to keep is for the next copy to say. */
const KEEP_ALL = Number.MAX_SAFE_INTEGER;

/**
 * `mailkeep copy key rotate`: makes new keys for what is copied from now on, and with `--reencrypt` uploads the rest again.
 *
 * @throws what the engine and `handOver` throw
 */
async function keyRotate(context: CommandContext, line: RotateLine): Promise<ExitCode> {
  const { signal, output } = context;
  const target = required(line.to, '--to');
  const order = { dataDir: archiveOf(context), signal };
  const file = newKeyFile(context, line.recoveryKeyFile);
  // The environment's passphrase may be what opens the copy: it becomes no recipient.
  const { passphraseFile } = line;
  const passphrase =
    passphraseFile === undefined ? undefined : passphraseOf(context, passphraseFile);
  return withStore(context, target, { bytesPerSecond: line.limitRate }, async (store) => {
    const inStore = { ...order, store };
    const isFinishing = await isSwitched(inStore);
    const rotated = isFinishing
      ? await finishRotation(inStore)
      : await rotate(context, line, inStore, { file, passphrase });
    const uploaded = line.reencrypt === true ? await reencrypt(context, inStore) : null;
    const recoveryKeyFile = isFinishing ? null : (file ?? null);
    const result = { to: store.label, ...rotated, recoveryKeyFile, uploaded };
    await output.object(result, () =>
      present([
        isFinishing
          ? 'The rotation that was interrupted is complete: its recovery key opens the copy.'
          : `What is copied from now on is encrypted for a new key, with ${counted(rotated.added.length, 'recipient')}.`,
        recoveryKeyFile !== null &&
          `The new recovery key is in ${recoveryKeyFile}. Keep it away from this machine.`,
        rotated.removed.length > 0 &&
          `${counted(rotated.removed.length, 'recipient')} of the earlier key removed.`,
        rotated.old.length > 0 &&
          `${counted(rotated.old.length, 'recipient')} can open only what was copied before: ${some(rotated.old, OLD_SHOWN)}.`,
        uploaded !== null &&
          `${counted(uploaded.objects, 'object')} uploaded again, ${bytes(uploaded.bytes)}. Earlier states stay readable with the earlier key until a copy removes them.`,
        uploaded === null &&
          `What is there stays readable with the earlier key. "mailkeep copy --refresh --to ${target}" uploads it again.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}

async function rotate(
  context: CommandContext,
  line: RotateLine,
  order: KeysOrder,
  {
    file,
    passphrase,
  }: { readonly file: string | undefined; readonly passphrase: string | undefined },
): Promise<RotatedKeys> {
  const { store } = order;
  const secrets = await openOwnCopy(order, () => openingKeyAlongside(context, line));
  refuseTooManyKeys(secrets, store.label);
  const recovery = newRecoveryKey();
  await handOver(context, file, store.label, { recovery, signer: secrets.signer });
  const additions = { recovery, passphrase };
  return rotateKeys({ ...order, secrets, additions, now: context.now });
}

async function reencrypt(
  context: CommandContext,
  order: KeysOrder,
): Promise<{ readonly objects: number; readonly bytes: number }> {
  const activity = openActivity(context, 'comparing the copy with the archive');
  const copied = await copyToTarget({
    ...{ ...order, refresh: true, keep: KEEP_ALL, now: context.now },
    onProgress: ({ objects, of, bytes: sent }) =>
      activity.show(() => `uploaded ${objects} of ${counted(of, 'object')}, ${bytes(sent)}`),
  }).finally(activity.stop);
  return { objects: copied.uploaded, bytes: copied.bytes };
}
