import type { CopyFacts } from '../errors/small-families.ts';
import type { VerifyFacts } from '../errors/verify.ts';
import { reasonText, type Sentences, say } from './sentence.ts';

export const COPY_SENTENCES: Sentences<CopyFacts> = {
  'copy-other-archive': ({ to, found, wanted }) =>
    say(
      `${to} contains another archive (${found}; this one is ${wanted}). Nothing was changed there.`,
      'Name an empty folder, or the one with the copy of this archive.',
    ),
  'copy-unreadable': ({ to }) =>
    say(
      `${to} contains a log that cannot be read; it may belong to another archive. Nothing was changed there.`,
      'Name an empty folder; if this is a damaged copy, move it aside.',
    ),
  'copy-ahead': ({ to, number, here }) =>
    say(
      `${to} reaches commit ${number}, but this archive only reaches commit ${here}. Nothing was changed there.`,
      'If this archive lost its last commits, "mailkeep verify --repair --from" restores them from the copy.',
    ),
  'copy-diverged': ({ to, number }) =>
    say(
      `Commit ${number} in ${to} differs from the one in this archive: something else wrote to it. Nothing was changed there.`,
      'Only "mailkeep copy" may write to a copy. Name an empty folder for a new one.',
    ),
  'copy-elsewhere': ({ to, stranger }) =>
    say(
      `${to} contains something other than a copy of an archive: ${stranger}. Nothing was changed there.`,
      'Name a folder that is empty or does not exist yet.',
    ),
  'copy-linked': ({ file }) =>
    say(
      `${file} is a link: the copy would be written somewhere else. Nothing was changed there.`,
      'Name the actual folder for the copy.',
    ),
  'copy-onto-itself': ({ to }) =>
    say(`${to} is the archive itself, or is inside it.`, 'Name another folder.'),
};

export const VERIFY_SENTENCES: Sentences<VerifyFacts> = {
  'checkpoint-unreadable': ({ file, reason }) =>
    reason === undefined
      ? say(`${file} is not a checkpoint.`, '"mailkeep checkpoint" writes one.')
      : say(`The checkpoint ${file} cannot be read: ${reasonText(reason)}.`),
  'checkpoint-forged': ({ file }) =>
    say(
      `The signature of the checkpoint ${file} is invalid: the file was changed.`,
      'Use another copy of it. This result says nothing about the archive.',
    ),
  'checkpoint-other-key': ({ file, found, wanted }) =>
    say(
      `The checkpoint ${file} was signed with key ${found}, not with ${wanted}.`,
      'It proves nothing about what the owner of that key signed. Use another copy of it.',
    ),
  'checkpoint-public-key': ({ given }) =>
    say(
      `${given} is neither an Ed25519 public key nor a file that contains one.`,
      '"mailkeep checkpoint" prints the key that it signs with.',
    ),
  'checkpoint-key': ({ file, reason }) =>
    say(
      `${file} contains no Ed25519 key that can sign: ${reasonText(reason)}.`,
      'Name another with --key FILE, or leave it out.',
    ),
  'repair-other-archive': ({ copy, found, wanted }) =>
    say(
      `${copy} is a copy of another archive (${found}, this one is ${wanted}). Nothing was changed.`,
      'Name a copy of this archive with --from, or leave it out.',
    ),
  'repair-archive-unknown': ({ dir, copy }) =>
    say(
      `What is left in ${dir} does not show whether ${copy} is a copy of it. Nothing was changed.`,
      'If it is one, use it instead of the damaged archive: "mailkeep copy" copies it to an empty folder.',
    ),
  'archive-damaged': ({ found, findings = [] }) =>
    say(
      findings.length === 0
        ? `The archive is damaged: ${found === 1 ? 'one place differs' : `${found} places differ`} from what was written.`
        : `The archive is damaged (${found === 1 ? '1 finding' : `${found} findings`}): ${listed(findings, found)}.`,
      '"mailkeep verify" names the affected messages, and "mailkeep verify --repair" repairs what can be repaired.',
    ),
  'verification-not-made': ({ reason }) =>
    say(
      `The archive could not be verified: ${reasonText(reason)}.`,
      'Run "mailkeep verify" to see why.',
    ),
};

/** Findings that a sentence names. */
const MOST_NAMED = 3;

function listed(findings: readonly string[], found: number): string {
  const named = findings.slice(0, MOST_NAMED);
  const more = found - named.length;
  return `${named.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}
