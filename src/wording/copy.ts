import type { CopyFacts } from '../errors/copy.ts';
import { type Sentences, say } from './sentence.ts';

export const COPY_SENTENCES: Sentences<CopyFacts> = {
  'copy-other-archive': ({ to, found, wanted }) =>
    say(
      `${to} holds another archive (${found}, this one is ${wanted}). Nothing was changed there.`,
      'Name an empty folder, or the one that holds the copy of this archive.',
    ),
  'copy-unreadable': ({ to }) =>
    say(
      `${to} holds a log whose files cannot be read: it may be another archive's. Nothing was changed there.`,
      'Name an empty folder; if this is a damaged copy, move it aside.',
    ),
  'copy-ahead': ({ to, number, here }) =>
    say(
      `${to} goes up to commit ${number}, this archive to commit ${here}. Nothing was changed there.`,
      'If this archive lost its end, "mailkeep verify --repair --from" brings it back from the copy.',
    ),
  'copy-diverged': ({ to, number }) =>
    say(
      `${to} has another commit ${number} than this archive: somebody wrote to it. Nothing was changed there.`,
      'A copy is only ever written by "mailkeep copy". Name an empty folder for a new one.',
    ),
  'copy-elsewhere': ({ to, stranger }) =>
    say(
      `${to} holds something other than a copy of an archive: ${stranger}. Nothing was changed there.`,
      'Name a folder that is empty or not there yet.',
    ),
  'copy-linked': ({ file }) =>
    say(
      `${file} is a link: the copy would be written somewhere else. Nothing was changed there.`,
      'Name the folder itself that is to hold the copy.',
    ),
  'copy-onto-itself': ({ to }) =>
    say(`${to} is the archive itself, or lies in it.`, 'Name another folder.'),
};
