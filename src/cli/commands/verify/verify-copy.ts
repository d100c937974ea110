import { tmpdir } from 'node:os';
import path from 'node:path';
import { checkFolder } from '../../../engine/offsite/check-folder.ts';
import { type CheckedTarget, checkTarget } from '../../../engine/offsite/check-target.ts';
import { noteCopyChecked } from '../../../engine/offsite/note-copy.ts';
import type { SampleSize } from '../../../engine/verify/verify.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { count, counted } from '../../../wording/amounts.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { foundIn, isEncrypted, notingDamage, withStore } from '../../copy-target.ts';
import { present } from '../../output.ts';
import { openActivity } from '../../progress/activity.ts';

/** `mailkeep verify --copy`. @throws what the engine's `checkTarget` throws */
export async function verifyCopy(
  context: CommandContext,
  target: string,
  sample: SampleSize | undefined,
): Promise<ExitCode> {
  const { surroundings, signal, output, now } = context;
  const dataDir = archiveOf(context);
  const startedAt = now();
  const folder = isEncrypted(context, dataDir, target)
    ? undefined
    : path.resolve(surroundings.cwd, target);
  return withStore(context, target, {}, async (store) => {
    const activity = openActivity(context, 'reading what should be there');
    const order = {
      ...{ dataDir, signal },
      sample: sample !== undefined && 'messages' in sample ? { parts: sample.messages } : sample,
      random: Math.random,
      onProgress: (done: { readonly checked: number; readonly of: number }) =>
        activity.show(() => `checked ${done.checked} of ${count(done.of)}`),
    };
    const checked = await notingDamage(context, dataDir, store.label, () =>
      (folder === undefined
        ? checkTarget({ ...order, store, temporary: tmpdir() })
        : checkFolder(folder, order)
      ).finally(activity.stop),
    );
    const findings = foundIn(checked.findings);
    const copiedAt = new Date(checked.copiedAt).toISOString();
    const ok = findings.length === 0;
    const { checked: read, of, opened } = checked;
    const about = { at: now(), checked: read, of, unit: opened ? 'segment' : 'object' } as const;
    noteCopyChecked(context, dataDir, store.label, about, findings);
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
): string {
  const what = opened ? 'segment' : 'object';
  const how = opened
    ? 'opened and read'
    : 'compared with the signed manifest; this machine has no key that opens them';
  const since = isEncrypted ? 'copied at' : 'of';
  return present([
    `${to} is at commit ${count(number)}, ${since} ${copiedAt}: ${count(checked)} of ${counted(of, what)} ${how}.`,
    findings.length === 0 ? 'Nothing is damaged.' : findings.map(({ message }) => message),
    invalid.length > 0 &&
      `${counted(invalid.length, 'manifest')} there ${invalid.length === 1 ? 'is' : 'are'} damaged or forged, and ignored.`,
    findings.length > 0 &&
      (isEncrypted
        ? '"mailkeep copy --to" uploads again what is damaged, from the archive here.'
        : 'Remove the damaged files there: "mailkeep copy --to" writes them again, from the archive here.'),
  ]).join('\n');
}
