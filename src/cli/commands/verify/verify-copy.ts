import { tmpdir } from 'node:os';
import { type CheckedTarget, checkTarget } from '../../../engine/offsite/check-target.ts';
import type { SampleSize } from '../../../engine/verify/verify.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import { count, counted } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { withStore } from '../../copy-target.ts';
import { present } from '../../output.ts';
import { openActivity } from '../../progress/activity.ts';

/** `mailkeep verify --copy`. @throws what the engine's `checkTarget` throws */
export async function verifyCopy(
  context: CommandContext,
  target: string,
  sample: SampleSize | undefined,
): Promise<ExitCode> {
  const { signal, output, now } = context;
  const dataDir = archiveOf(context);
  if (sample !== undefined && !('share' in sample)) {
    const problem = 'with --copy, --sample takes a share of the copy, such as 5%.';
    throw usageError('usage-invalid', { command: 'verify', problem });
  }
  const startedAt = now();
  return withStore(context, target, {}, async (store) => {
    const activity = openActivity(context, 'reading the manifest');
    const checked = await checkTarget({
      ...{ dataDir, store, signal },
      share: sample?.share ?? 1,
      random: Math.random,
      temporary: tmpdir(),
      onProgress: (done) => activity.show(() => `checked ${done.checked} of ${count(done.of)}`),
    }).finally(activity.stop);
    const findings = checked.findings.map(({ name, error }) => {
      const { code, message } = sentenceOf(error);
      return { name, code, message };
    });
    const copiedAt = new Date(checked.copiedAt).toISOString();
    const ok = findings.length === 0;
    await output.object(
      { ...checked, to: store.label, ok, copiedAt, findings, durationMs: now() - startedAt },
      () => report(store.label, checked, copiedAt, findings),
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
): string {
  const what = opened ? 'segment' : 'object';
  const how = opened
    ? 'opened and read'
    : 'compared with the signed manifest; this machine has no key that opens them';
  return present([
    `${to} is at commit ${count(number)}, copied at ${copiedAt}: ${count(checked)} of ${counted(of, what)} ${how}.`,
    findings.length === 0 ? 'Nothing is damaged.' : findings.map(({ message }) => message),
    invalid.length > 0 &&
      `${counted(invalid.length, 'manifest')} there ${invalid.length === 1 ? 'is' : 'are'} damaged or forged, and ignored.`,
    findings.length > 0 &&
      '"mailkeep copy --refresh" uploads every segment again, from the archive here.',
  ]).join('\n');
}
