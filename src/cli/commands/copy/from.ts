import { existsSync } from 'node:fs';
import path from 'node:path';
import { formatPath } from '../../../archive/format/layout.ts';
import { copyArchive } from '../../../engine/copy-archive.ts';
import { type ArchiveBack, bringArchiveBack } from '../../../engine/offsite/bring-archive-back.ts';
import {
  type RestoredSettings,
  restoreSettings,
  settingsIn,
} from '../../../engine/offsite/carried-settings.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import { noPathProblem, parseTarget } from '../../../objects/s3-target.ts';
import type { Way } from '../../../offsite/format/unlock.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import type { CommandContext } from '../../context.ts';
import { required, withStore } from '../../copy-target.ts';
import { present } from '../../output.ts';
import { openActivity } from '../../progress/activity.ts';
import type { FromLine } from './lines.ts';
import { openingKey } from './opening-key.ts';

/** `mailkeep copy --from`: makes an archive out of an encrypted copy. */
export async function copyFrom(context: CommandContext, line: FromLine): Promise<ExitCode> {
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
