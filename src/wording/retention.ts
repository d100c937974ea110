import type { RetentionFacts } from '../errors/retention.ts';
import { counted } from './amounts.ts';
import { type Sentences, say } from './sentence.ts';

const HOLD_PROBLEM: Readonly<Record<string, string>> = {
  'other-moment': 'it asks about another moment',
  'unknown-name': 'it names something the archive does not have',
};

export const RETENTION_SENTENCES: Sentences<RetentionFacts> = {
  'retention-clock': ({ direction, now, lastCommit }) =>
    say(
      direction === 'behind'
        ? `The clock shows ${now}, before the last commit of the archive (${lastCommit}), so nothing is pruned.`
        : `The clock shows ${now}, long after the last commit of the archive (${lastCommit}), so nothing is pruned.`,
      direction === 'behind'
        ? 'Set the clock.'
        : 'Set the clock; if it is right, run "mailkeep sync" first.',
    ),
  'retention-not-indexed': ({ pending }) =>
    say(
      `A hold uses a query, and ${pending} messages or attachments cannot be searched yet: they could be on hold. Nothing is pruned.`,
      'Run "mailkeep sync" or "mailkeep rebuild" first.',
    ),
  'retention-bad-hold': ({ query, problem }) =>
    say(
      `The query of a hold cannot be read: ${query}: ${HOLD_PROBLEM[problem] ?? problem}`,
      'See retention.hold in the configuration.',
    ),
  'forget-on-hold': ({ hold, messages }) =>
    say(
      `Nothing was removed: a hold of the configuration (${hold}) keeps ${counted(messages, 'message')} of it.`,
      'If the hold no longer applies, remove it from retention.hold in the configuration.',
    ),
  'forget-unfinished': () =>
    say(
      '"mailkeep forget" was interrupted, and its messages are not removed yet. Nothing is pruned before that is finished.',
      'Stop the daemon and run "mailkeep prune --apply", which finishes it.',
    ),
  'purge-interrupted': ({ left }) =>
    say(
      `Interrupted; segments left to rewrite: ${left}. The log records what to remove.`,
      'Run the same command again to finish.',
    ),
  'message-purged': ({ id, reason, time }) =>
    say(
      `Message ${id} was ${reason === 'forgotten' ? 'forgotten' : 'pruned'}${time === null ? '' : ` at ${time}`}: its bytes, its text and its listed fields were removed on purpose.`,
      'Only its id is left. An older copy may still have it.',
    ),
  'forget-nothing-chosen': () =>
    say(
      'Nothing in quarantine matches your selection.',
      '"mailkeep quarantine" lists what is there.',
    ),
};
