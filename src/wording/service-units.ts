import type { ServiceUnitsFacts } from '../errors/service-units.ts';
import { reasonText, type Sentences, say, some } from './sentence.ts';

export const SERVICE_UNITS_SENTENCES: Sentences<ServiceUnitsFacts> = {
  'service-units-differ': ({ files }) =>
    say(
      `Other files are there already: ${some(files, 6)}. Nothing was written.`,
      'Your own changes belong in a drop-in ("systemctl edit mailkeep"); --force replaces the files.',
    ),
  'service-units-path': ({ path }) =>
    say(
      `${JSON.stringify(path)} has a new line or another control character in it, and no unit can name it.`,
      'Rename the file or folder, or name another with --config or --data.',
    ),
  'service-units-unwritable': ({ file, reason }) =>
    say(
      `${file} cannot be written: ${reasonText(reason)}.`,
      'The system\'s units need root: "sudo mailkeep service install --system". --user needs no rights.',
    ),
};
