import path from 'node:path';
import { type ArchiveBack, bringArchiveBack } from '../../../engine/offsite/bring-archive-back.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import { noPathProblem } from '../../../objects/s3-target.ts';
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
    throw usageError('usage-invalid', { command: 'copy', problem: `--to takes a path: ${problem}.` });
  }
  const to = path.resolve(surroundings.cwd, typed);
  const startedAt = now();
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
      { ...result, bytes: back.bytes, messages, lost, invalid, timings, durationMs },
      () => report(to, back, copiedAt, lost, invalid, isProven(way, line) ? undefined : signer),
    );
    return back.lost.length > 0 ? EXIT.damage : EXIT.done;
  });
}

/** Whether the keys of the copy can only be those that `copy init` made. */
function isProven({ type }: Way, { signer }: FromLine): boolean {
  return type !== 'age' || signer !== undefined;
}

/** @param unproven who began the copy, where an age identity alone says so */
function report(
  to: string,
  { number, segments, bytes: size, messages }: ArchiveBack,
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
    'Not in a copy: the configuration, tokens, saved searches, the keys of copies.',
    `Next: "mailkeep verify --data ${to}", then "mailkeep copy adopt" to continue this copy.`,
  ]).join('\n');
}
