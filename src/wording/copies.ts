import type { OffsiteFacts } from '../errors/copies.ts';
import { count, counted } from './amounts.ts';
import { reasonText, type Sentences, say, some } from './sentence.ts';

export const COPIES_SENTENCES: Sentences<OffsiteFacts> = {
  'offsite-key-unwritable': ({ file, reason }) =>
    say(`The keys of the copy cannot be written to ${file}: ${reasonText(reason)}.`),
  'offsite-key-unreadable': ({ file, reason }) =>
    say(
      `The keys of a copy cannot be read from ${file}: ${reasonText(reason)}.`,
      '"mailkeep copy adopt" writes them again, with the recovery key.',
    ),
  'offsite-exists': ({ to }) =>
    say(
      `${to} has a copy already. Nothing was changed there.`,
      'Use another prefix for a new copy. If this archive came from that copy, run "mailkeep copy adopt".',
    ),
  'offsite-no-copy': ({ to }) =>
    say(`There is no copy at ${to}.`, 'Begin one with "mailkeep copy init", or check the address.'),
  'offsite-other-copy': ({ to, found, folder }) =>
    say(
      `This archive has no keys for the copy at ${to} (${found}); they would be in ${folder}.`,
      'If this archive came from that copy, run "mailkeep copy adopt" with the recovery key.',
    ),
  'offsite-in-use': ({ to }) =>
    say(`Another process is copying this archive to ${to}.`, 'Wait until it has ended.'),
  'offsite-no-locks': ({ to }) =>
    say(
      `${to} cannot lock objects. Nothing was copied.`,
      'A bucket locks if it was created with Object Lock, at a provider that has it; a folder never does. Copy without --lock-days (or "lockDays"), or use another bucket.',
    ),
  'offsite-no-manifest': ({ to, invalid }) =>
    invalid === 0
      ? say(
          `The copy at ${to} is empty: nothing has been copied to it yet.`,
          'Run "mailkeep copy --to" with its address.',
        )
      : say(
          `None of the ${counted(invalid, 'manifest')} at ${to} is valid: they are damaged, or signed by another key.`,
          'If an archive was rebuilt and copied from elsewhere, use its keys. Otherwise somebody changed the copy.',
        ),
  'offsite-rolled-back': ({ to, number, seen }) =>
    say(
      `The newest manifest at ${to} is of commit ${count(number)}, but commit ${count(seen)} was copied there before.`,
      'Somebody removed newer manifests, or put an older copy back. Check who can write there, and begin a new copy with another prefix.',
    ),
  'offsite-ahead': ({ to, number, here }) =>
    say(
      `The copy at ${to} reaches commit ${count(number)}, but this archive only reaches commit ${count(here)}. Nothing was changed there.`,
      'If this archive lost its last commits, "mailkeep copy --from" brings them back into an empty folder.',
    ),
  'offsite-diverged': ({ to, number }) =>
    say(
      `Commit ${count(number)} in the copy at ${to} differs from the one in this archive. Nothing was changed there.`,
      'It is the copy of an archive that has continued elsewhere. Use another prefix for a copy of this one.',
    ),
  'offsite-other-signer': ({ to, signer }) =>
    say(
      `The key in checkpoint.key (${signer}) may not sign for the copy at ${to}.`,
      'Put the earlier checkpoint.key back, or run "mailkeep copy adopt" with the recovery key.',
    ),
  'offsite-no-commit': ({ to, number, nearest }) =>
    say(
      `The copy at ${to} has no manifest of commit ${count(number)}.`,
      nearest.length === 0 ? null : `It has manifests of commits ${some(nearest, 5)}.`,
    ),
  'offsite-not-empty': ({ dir, stranger }) =>
    say(
      `${dir} is not empty: ${stranger} is in it. Nothing was changed there.`,
      'Name an empty folder.',
    ),
  'offsite-gap': ({ to, name, from }) =>
    say(`The manifest at ${to} does not list the bytes from ${count(from)} on of ${name}.`),
  'offsite-broken-chain': ({ to, segment }) =>
    say(
      `Segment ${segment} of the copy at ${to} does not continue the one before it, or does not end with the commit of the manifest.`,
    ),
  'offsite-too-large': ({ to, name, most }) =>
    say(`${name} at ${to} has more than ${counted(most, 'byte')}, which none of ours has.`),
  'offsite-write-only': ({ to }) =>
    say(
      `This machine can write to the copy at ${to}, but has no key that reads it.`,
      '"mailkeep copy --from" with the recovery key makes a readable archive of it, in an empty folder.',
    ),
  'offsite-no-way': ({ variable }) =>
    say(
      'Nothing was given that opens the copy.',
      `Use --recovery-key-file, --passphrase-file, --identity-file or the variable ${variable}.`,
    ),
  'offsite-no-witness': () =>
    say(
      'There is no terminal to show the recovery key on. Nothing was done.',
      'Use --recovery-key-file with a new file, and move that file away from this machine.',
    ),
  'offsite-key-unfit': ({ to }) =>
    say(
      `What was given opens the copy at ${to}, but not with the keys that this machine has.`,
      'It is from before a rotation, or somebody else added it. Use a newer recovery key or passphrase.',
    ),
  'offsite-no-recipient': ({ to, id, found }) =>
    say(
      found === 0
        ? `No recipient of the copy at ${to} has an id that begins with "${id}".`
        : `The ids of ${counted(found, 'recipient')} of the copy at ${to} begin with "${id}".`,
      '"mailkeep copy key list" lists the ids.',
    ),
  'offsite-too-many-recipients': ({ to, type, most }) =>
    say(
      `The copy at ${to} would have more than ${count(most)} recipients of type ${type}. Nothing was changed there.`,
      'Remove some first, with "mailkeep copy key remove".',
    ),
  'offsite-too-many-rotations': ({ to, most }) =>
    say(
      `The copy at ${to} has ${count(most)} keys already, and takes no more. Nothing was changed there.`,
      'Begin a new copy with another prefix.',
    ),
  'offsite-not-kept': ({ to, name }) =>
    say(
      `${name} was written to ${to}, but something else is there now.`,
      'This machine still writes with the keys of before. Check who else can write there, then run the command again.',
    ),
  'offsite-key-older': ({ to, ids }) =>
    say(
      ids.length === 0
        ? `The keys of the copy at ${to} were rotated. What was given opens only what was copied before.`
        : `The keys of the copy at ${to} were rotated, or a rotation was begun: what was given does not have the keys of ${counted(ids.length, 'recipient')} (${some(ids, 3)}).`,
      ids.length === 0
        ? 'Use a newer recovery key, passphrase or identity.'
        : 'Use a newer recovery key, passphrase or identity. If there is none, --older-key continues with these keys.',
    ),
  'offsite-too-many-manifests': ({ to, most }) =>
    say(
      `More than ${count(most)} objects at ${to} are named like manifests. A copy never has so many.`,
      'Somebody else put them there. Remove those that "mailkeep copy" did not write.',
    ),
  'offsite-signer-unnamed': ({ to, found }) =>
    say(
      `Whoever knows an age recipient can wrap keys for it, so nothing shows that those of the copy at ${to} are yours. They name the signing key ${found}. Nothing was changed.`,
      'Compare it with the one that "copy init" printed, and which the file of the recovery key has too. If it is the same, name it with --signer.',
    ),
  'offsite-signer-differs': ({ to, found, wanted }) =>
    say(
      `The copy at ${to} was begun with the signing key ${found}, not with ${wanted}. Nothing was changed.`,
      'Compare both with what "copy init" printed. If that is the second one, somebody has put other keys there.',
    ),
  'offsite-last-recipient': ({ to }) =>
    say(
      `Nothing was removed: nobody else could open what is copied to ${to} from now on.`,
      'Add a recipient first, with "mailkeep copy key add".',
    ),
  'offsite-no-recipients': ({ to }) =>
    say(
      `No recipient at ${to} opens what is copied there now: without this machine, the copy is lost.`,
      'Add one with "mailkeep copy key add".',
    ),
  'offsite-signer-lost': ({ to }) =>
    say(`A later signer of the copy at ${to} was damaged or removed there.`),
  'offsite-mend-first': ({ to, names }) =>
    say(
      `Objects at ${to} are damaged or missing: ${some(names, 3)}. Nothing was changed.`,
      'Run "mailkeep copy --to" with its address first: it stores them again.',
    ),
  'offsite-unknown': ({ to }) =>
    say(`No copy at ${to} is known.`, '"mailkeep status" lists the copies with their addresses.'),
  'offsite-planned': ({ to }) =>
    say(
      `The daemon keeps the copy at ${to} up to date.`,
      'Remove it from "copies" in the configuration and reload the daemon first.',
    ),
  'offsite-cut-off': ({ to, number, seen }) =>
    say(
      `The copy at ${to} ends with commit ${count(number)}, but commit ${count(seen)} was copied there before.`,
      '"mailkeep copy --to" copies what it lacks.',
    ),
  'offsite-not-made': ({ to, reason }) =>
    say(`The archive could not be copied to ${to}: the process ended with ${reason}.`),
  'offsite-target-gone': ({ to }) =>
    say(
      `${to} had a copy of this archive, and has none now. Nothing was written there.`,
      'Check whether its disk is mounted. If you emptied it on purpose, run "mailkeep copy --to" once.',
    ),
  'offsite-invalid-manifests': ({ to, invalid }) =>
    say(
      `${counted(invalid, 'manifest')} at ${to} ${invalid === 1 ? 'is' : 'are'} damaged or forged. The copy was made all the same.`,
      'Check who can write there.',
    ),
  'offsite-kept-locked': ({ to, locked, until }) =>
    say(
      `${counted(locked, 'object')} at ${to} could not be removed, because the bucket keeps ${locked === 1 ? 'it' : 'them'} locked${until === null ? '' : ` until ${until}`}. The copy was made all the same.`,
      'The next copy after the lock has ended removes what is left.',
    ),
  'offsite-damaged': ({ to, found }) =>
    say(
      `The copy at ${to} was found damaged in ${counted(found, 'place')}.`,
      '"mailkeep verify --copy" shows where; "mailkeep copy --to" uploads again what is damaged.',
    ),
  'offsite-stale': ({ to, behind, copiedAt }) =>
    say(
      copiedAt === null
        ? `The copy at ${to} was never made.`
        : `The copy at ${to} was last brought up to date at ${copiedAt}, and lacks ${counted(behind ?? 0, 'commit')}.`,
      '"mailkeep status" shows why.',
    ),
  'offsite-nothing': ({ dir }) =>
    say(
      `The archive in ${dir} has no commit yet: there is nothing to copy.`,
      'Run "mailkeep sync" first.',
    ),
};
