import { defineErrors, reasonText } from '../core/errors.ts';
import type { KnownDamage } from '../core/state.ts';
import { counted } from '../core/text.ts';

const MAX_NAMED = 3;

function summarise(findings: readonly string[], found: number): string {
  const named = findings.slice(0, MAX_NAMED);
  const more = found - named.length;
  return `${named.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

export const verifyError = defineErrors({
  usage: {
    'checkpoint-unreadable': ({ file, reason }: { file: string; reason?: string }) =>
      reason === undefined
        ? [`${file} is not a checkpoint.`, '"mailkeep checkpoint" writes one.']
        : `The checkpoint ${file} cannot be read: ${reasonText(reason)}.`,
    'checkpoint-public-key': ({ given }: { given: string }) => [
      `${given} is neither an Ed25519 public key nor a file that contains one.`,
      '"mailkeep checkpoint" prints the key that it signs with.',
    ],
    'checkpoint-key': ({ file, reason }: { file: string; reason: string }) => [
      `${file} contains no Ed25519 key that can sign: ${reasonText(reason)}.`,
      'Name another with --key FILE, or leave it out.',
    ],
    'repair-other-archive': (f: { copy: string; found: string; wanted: string }) => [
      `${f.copy} is a copy of another archive (${f.found}, this one is ${f.wanted}). Nothing was changed.`,
      'Name a copy of this archive with --from, or leave it out.',
    ],
    'repair-archive-unknown': ({ dir, copy }: { dir: string; copy: string }) => [
      `What is left in ${dir} does not show whether ${copy} is a copy of it. Nothing was changed.`,
      'If it is one, use it instead of the damaged archive: "mailkeep copy" copies it to an empty folder.',
    ],
    'import-unknown-run': ({ run, runs }: { run: number; runs: number }) => [
      runs === 0
        ? `The archive has no record of import ${run}, or of any other import.`
        : `The archive has no record of import ${run}.`,
      `${runs === 0 ? 'Imports by earlier versions have no record' : '"mailkeep import --list" lists the imports'}. To remove a whole mailbox, run "mailkeep forget --mailbox NAME".`,
    ],
  },
  damage: {
    'checkpoint-forged': ({ file }: { file: string }) => [
      `The signature of the checkpoint ${file} is invalid: the file was changed.`,
      'Use another copy of it. This result says nothing about the archive.',
    ],
    'checkpoint-other-key': (f: { file: string; found: string; wanted: string }) => [
      `The checkpoint ${f.file} was signed with key ${f.found}, not with ${f.wanted}.`,
      'It proves nothing about what the owner of that key signed. Use another copy of it.',
    ],
    'archive-damaged': ({
      found,
      findings = [],
    }: {
      found: number;
      findings?: readonly string[];
    }) => [
      findings.length === 0
        ? `The archive is damaged: ${found === 1 ? 'one place differs' : `${found} places differ`} from what was written.`
        : `The archive is damaged (${found === 1 ? '1 finding' : `${found} findings`}): ${summarise(findings, found)}.`,
      '"mailkeep verify" names the affected messages, and "mailkeep verify --repair" repairs what can be repaired.',
    ],
  },
  disk: {
    /** A verification that stopped before reading everything. */
    'verification-not-made': ({ reason }: { reason: string }) => [
      `The archive could not be verified: ${reasonText(reason)}.`,
      'Run "mailkeep verify" to see why.',
    ],
  },
});

const HOLD_PROBLEM: Readonly<Record<string, string>> = {
  'other-moment': 'it asks about another moment',
  'unknown-name': 'it names something the archive does not have',
};

export const retentionError = defineErrors({
  held: {
    'retention-clock': (f: {
      direction: 'behind' | 'ahead';
      /** ISO 8601. */
      now: string;
      lastCommit: string;
    }) => [
      f.direction === 'behind'
        ? `The clock shows ${f.now}, before the last commit of the archive (${f.lastCommit}), so nothing is pruned.`
        : `The clock shows ${f.now}, long after the last commit of the archive (${f.lastCommit}), so nothing is pruned.`,
      f.direction === 'behind'
        ? 'Set the clock.'
        : 'Set the clock; if it is right, run "mailkeep sync" first.',
    ],
    'retention-not-indexed': ({ pending }: { pending: number }) => [
      `A hold uses a query, and ${pending} messages or attachments cannot be searched yet: they could be on hold. Nothing is pruned.`,
      'Run "mailkeep sync" or "mailkeep rebuild" first.',
    ],
    'forget-on-hold': ({ hold, messages }: { hold: string; messages: number }) => [
      `Nothing was removed: a hold of the configuration (${hold}) keeps ${counted(messages, 'message')} of it.`,
      'If the hold no longer applies, remove it from retention.hold in the configuration.',
    ],
    /** The daemon cannot finish a `forget` while it holds open the catalog that must be rebuilt. */
    'forget-unfinished': () => [
      '"mailkeep forget" was interrupted, and its messages are not removed yet. Nothing is pruned before that is finished.',
      'Stop the daemon and run "mailkeep prune --apply", which finishes it.',
    ],
  },
  config: {
    /** `problem` is `other-moment`, `unknown-name` or the parser's error text. */
    'retention-bad-hold': ({ query, problem }: { query: string; problem: string }) => [
      `The query of a hold cannot be read: ${query}: ${HOLD_PROBLEM[problem] ?? problem}`,
      'See retention.hold in the configuration.',
    ],
  },
  interrupted: {
    'purge-interrupted': ({ left }: { left: number }) => [
      `Interrupted; segments left to rewrite: ${left}. The log records what to remove.`,
      'Run the same command again to finish.',
    ],
  },
  usage: {
    'message-purged': (f: {
      id: string;
      reason: string;
      /** Time in ISO 8601; null if the log does not contain it. */
      time: string | null;
    }) => [
      `Message ${f.id} was ${f.reason === 'forgotten' ? 'forgotten' : 'pruned'}${f.time === null ? '' : ` at ${f.time}`}: its bytes, its text and its listed fields were removed on purpose.`,
      'Only its id is left. An older copy may still have it.',
    ],
    'forget-nothing-chosen': () => [
      'Nothing in quarantine matches your selection.',
      '"mailkeep quarantine" lists what is there.',
    ],
  },
});

export function damageError({ found, findings }: KnownDamage) {
  return verifyError('archive-damaged', { found, findings: findings.map(({ text }) => text) });
}
