import type * as errors from '../errors/import.ts';
import { type FactsOfModule, reasonText, type Sentences, say } from './sentence.ts';

export const IMPORT_SENTENCES: Sentences<FactsOfModule<typeof errors>> = {
  'import-no-mail': ({ path }) =>
    say(
      `${path} is neither a message nor an mbox. Nothing was imported.`,
      'Messages end in .eml or begin with a header field; unpack a zip that mailkeep did not export.',
    ),
  'import-manifest-damaged': ({ path }) =>
    say(
      `The manifest in ${path} is damaged. Nothing was imported.`,
      'Unpack the zip and import its folder: folders and dates are then taken from the files, and flags are lost.',
    ),
  'import-unreadable': ({ path, errno }) => say(`${path} cannot be read: ${reasonText(errno)}.`),
  'import-name-taken': ({ name }) =>
    say(
      `The archive already mirrors a mailbox called ${name}; imported mail needs a mailbox of its own.`,
      'Choose another name with --mailbox NAME.',
    ),
};
