import type { FleetArchiveFacts } from '../errors/fleet-archive.ts';
import { type Sentences, say } from './sentence.ts';

type Problem = FleetArchiveFacts['manifest-damaged']['problem'];

const PROBLEMS: Readonly<Record<Problem, (commit: number) => string>> = {
  missing: (commit) => `nothing holds commit ${commit}`,
  twice: (commit) => `commit ${commit} is held twice`,
  place: (commit) => `commit ${commit} is in an earlier segment than the one before it`,
  end: (commit) => `commit ${commit} is not the last one that it names`,
};

export const FLEET_ARCHIVE_SENTENCES: Sentences<FleetArchiveFacts> = {
  'manifest-damaged': ({ archive, commit, problem }) =>
    say(
      `What the registry has of archive ${archive} does not make up its log: ${PROBLEMS[problem](commit)}. Nothing was changed.`,
      'Was the database restored, or changed by hand? Compare it with its backups and with the bucket.',
    ),
  'purge-damaged': ({ archive, purges }) =>
    say(
      `What is left to do of purge ${purges} of archive ${archive} is not what was written in the registry. Nothing was changed.`,
      'Was the database changed by hand? The archive is held by nobody until it is as it was.',
    ),
  'forget-damaged': ({ archive, request }) =>
    say(
      `Request ${request} to forget mail of archive ${archive} is not what this version of mailkeep writes. Nothing was forgotten by it.`,
      'Was it made by a newer version, or the database changed by hand? Ask again, by this version.',
    ),
  'memory-damaged': ({ archive, reason }) =>
    say(
      `What the registry remembers for archive ${archive} cannot be read (${reason}). The archive itself is not affected.`,
      'The next pass learns it again, and then it is replaced.',
    ),
};
