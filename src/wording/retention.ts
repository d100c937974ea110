import type { RetentionFacts } from '../errors/retention.ts';
import { type Sentences, say } from './sentence.ts';

export const RETENTION_SENTENCES: Sentences<RetentionFacts> = {
  'retention-clock': ({ direction, now, lastCommit }) =>
    say(
      direction === 'behind'
        ? `The clock says ${now}, which is behind the last commit of the archive (${lastCommit}). Nothing is pruned by a clock like that.`
        : `The clock says ${now}, which is far ahead of the last commit of the archive (${lastCommit}). Nothing is pruned by a clock like that.`,
      direction === 'behind'
        ? 'Set the clock right.'
        : 'Set the clock right, or run "mailkeep sync" first if it is.',
    ),
  'retention-not-indexed': ({ pending }) =>
    say(
      `A hold asks a query, and ${pending} messages or attachments cannot be searched yet: they could be on hold. Nothing is pruned.`,
      'Run "mailkeep sync" or "mailkeep rebuild" first.',
    ),
  'retention-bad-hold': ({ query, problem }) =>
    say(
      `The query of a hold cannot be read: ${query}: ${problem}`,
      'See retention.hold in the configuration.',
    ),
  'forget-unfinished': () =>
    say(
      'Messages that are to be forgotten are not gone yet: "mailkeep forget" was cut off. Nothing is pruned before that is finished.',
      'Stop the daemon and run "mailkeep prune --apply", which finishes it.',
    ),
  'purge-interrupted': ({ left }) =>
    say(
      `Interrupted with ${left} segments to go. What goes is decided and is in the log.`,
      'The same command finishes the work.',
    ),
  'message-purged': ({ id, reason, time }) =>
    say(
      `Message ${id} was ${reason === 'forgotten' ? 'forgotten' : 'pruned'}${time === null ? '' : ` at ${time}`}: its bytes, its text and what was listed of it were removed on purpose.`,
      'Only its id is left. A copy made before may still have it.',
    ),
  'forget-nothing-chosen': () =>
    say('Nothing in quarantine is what you chose.', '"mailkeep quarantine" lists what is there.'),
};
