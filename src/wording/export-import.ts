import type * as exportErrors from '../errors/export.ts';
import type * as importErrors from '../errors/import.ts';
import { type FactsOfModule, reasonText, type Sentences, say } from './sentence.ts';

export const IMPORT_SENTENCES: Sentences<FactsOfModule<typeof importErrors>> = {
  'import-no-mail': ({ path }) =>
    say(
      `${path} is neither a message nor an mbox nor a zip. Nothing was imported.`,
      'Messages end in .eml or .emlx, or begin with a header field.',
    ),
  'import-manifest-damaged': ({ path }) =>
    say(
      `The manifest in ${path} is damaged. Nothing was imported.`,
      'Unpack the zip and import its folder: folders and dates are then taken from the files, and flags are lost.',
    ),
  'import-unreadable': ({ path, errno }) => say(`${path} cannot be read: ${reasonText(errno)}.`),
  'import-unknown-run': ({ run, runs }) =>
    say(
      runs === 0
        ? `The archive has no record of import ${run}, or of any other import.`
        : `The archive has no record of import ${run}.`,
      `${runs === 0 ? 'Imports by earlier versions have no record' : '"mailkeep import --list" lists the imports'}. To remove a whole mailbox, run "mailkeep forget --mailbox NAME".`,
    ),
  'import-name-taken': ({ name }) =>
    say(
      `The archive already mirrors a mailbox called ${name}; imported mail needs a mailbox of its own.`,
      'Choose another name with --mailbox NAME.',
    ),
};

export const EXPORT_SENTENCES: Sentences<FactsOfModule<typeof exportErrors>> = {
  'export-disk-full': ({ file }) =>
    say(
      `The disk is full: ${file} cannot be written. Files with their final names are complete.`,
      'Free some space and run the command again; it continues where it stopped.',
    ),
  'export-write-failed': ({ file, errno }) =>
    say(
      `${file} cannot be written: ${reasonText(errno)}. Files with their final names are complete.`,
      'Check the disk and the permissions, then run the command again; it continues where it stopped.',
    ),
  'export-target-foreign': ({ target, expected }) =>
    say(
      expected === 'folder'
        ? `${target} contains something other than an export of mailkeep. Nothing was changed.`
        : `${target} is not a zip file that mailkeep exported. Nothing was changed.`,
      `Name a ${expected} that does not exist yet with --to.`,
    ),
  'export-target-inside': ({ target, archive }) =>
    say(
      `${target} is inside the archive ${archive}, whose folder must contain nothing else.`,
      'Name another place with --to.',
    ),
  'export-format-differs': ({ target, found, wanted }) =>
    say(
      `${target} contains an export in format ${found}, but this one would be ${wanted}. Nothing was changed.`,
      `Name another place with --to, or use --format ${found}.`,
    ),
  'export-manifest-damaged': ({ file }) =>
    say(
      `The manifest ${file} was changed or damaged.`,
      'Export to a new target; the existing export stays as it is.',
    ),
  'export-changed': ({ file }) =>
    say(
      `${file} was changed after it was exported. It was left as it is.`,
      'Export to a new target, or export without --incremental to rewrite it.',
    ),
  'export-target-linked': ({ folder }) =>
    say(
      `${folder} is a link: the export would be written somewhere else. Nothing was written through it.`,
      'Remove the link, or name another place with --to.',
    ),
  'export-incomplete': ({ places, told }) =>
    say(
      `The export has ${told} of ${places} places, and the others are not accounted for.`,
      'Run "mailkeep verify" on the archive, and export to a new target.',
    ),
  'export-missing': ({ target }) => say(`There is no export of mailkeep at ${target}.`),
};
