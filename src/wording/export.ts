import type * as errors from '../errors/export.ts';
import { type FactsOfModule, reasonText, type Sentences, say } from './sentence.ts';

export const EXPORT_SENTENCES: Sentences<FactsOfModule<typeof errors>> = {
  'export-disk-full': ({ file }) =>
    say(
      `The disk is full: ${file} cannot be written. What has its final name is whole.`,
      'Make room and run the command again: it goes on where it stopped.',
    ),
  'export-write-failed': ({ file, errno }) =>
    say(
      `${file} cannot be written: ${reasonText(errno)}. What has its final name is whole.`,
      'Look at the disk and its permissions, then run the command again: it goes on where it stopped.',
    ),
  'export-target-foreign': ({ target, expected }) =>
    say(
      expected === 'folder'
        ? `${target} holds something other than an export of mailkeep. Nothing was changed.`
        : `${target} is no zip file that mailkeep exported. Nothing was changed.`,
      `Name a ${expected} that is not there yet with --to.`,
    ),
  'export-target-inside': ({ target, archive }) =>
    say(
      `${target} lies in the archive ${archive}, whose folder is for nothing else.`,
      'Name another place with --to.',
    ),
  'export-format-differs': ({ target, found, wanted }) =>
    say(
      `${target} holds an export of format ${found}, and this one would be ${wanted}. Nothing was changed.`,
      `Name another place with --to, or use --format ${found}.`,
    ),
  'export-manifest-damaged': ({ file }) =>
    say(
      `The manifest ${file} is not what was written.`,
      'Export to a new place; what is here stays as it is.',
    ),
  'export-changed': ({ file }) =>
    say(
      `${file} was changed since it was exported. It was not touched.`,
      'Export to a new place, or without --incremental to rewrite it.',
    ),
  'export-target-linked': ({ folder }) =>
    say(
      `${folder} is a link: what is exported there would lie elsewhere. Nothing was written through it.`,
      'Remove the link, or name another place with --to.',
    ),
  'export-incomplete': ({ places, told }) =>
    say(
      `The export has ${told} of ${places} places and cannot say what became of the others.`,
      'Run "mailkeep verify" on the archive, and export to a new place.',
    ),
  'export-missing': ({ target }) => say(`There is no export of mailkeep at ${target}.`),
};
