import { z } from 'zod';
import { daemonError } from '../errors/daemon.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { errorFacts, errorFamily, syncPlan, syncProgress, syncResult } from './sync-answers.ts';

/** What goes over the control socket. Both ends are the same program: `version` says whether they are. */
const names = z.array(z.string().max(4096)).max(10_000);

export const syncMessage = z.object({
  account: z.string().optional(),
  mailboxes: names,
  folders: names,
  full: z.boolean(),
  acceptEndings: z.boolean(),
  dryRun: z.boolean(),
});
export type SyncMessage = z.output<typeof syncMessage>;

export const hintMessage = z.object({
  resourceId: z.string().max(1024).optional(),
  address: z.string().max(1024).optional(),
  account: z.string().max(64).optional(),
  uid: z.int().min(1).optional(),
});

/** One line of the answer to `sync`: any number about progress, then one of the others. */
export const answerLine = z.union([
  z.object({ progress: syncProgress }),
  z.object({ result: syncResult }),
  z.object({ plan: syncPlan }),
  z.object({ error: z.object({ family: errorFamily, code: z.string(), facts: errorFacts }) }),
]);
export type AnswerLine = z.output<typeof answerLine>;

/** An error as it goes over the socket. Mistakes of the program stay in the daemon's log. */
export function errorLine(error: unknown): AnswerLine {
  const known = error instanceof MailkeepError ? error : daemonError('daemon-failed', {});
  const { family, code, facts } = known;
  return { error: { family, code, facts } };
}
