import type { FleetObjectFacts } from '../errors/fleet-objects.ts';
import { type Sentences, say } from './sentence.ts';

const REASONS: Readonly<Record<FleetObjectFacts['seal-refused']['reason'], string>> = {
  covered: 'it has another file of this segment',
  purged: 'the file still contains messages that are being removed',
  collected: 'the upload was taken for abandoned',
  open: 'the segment is not closed yet',
  moved: 'the right to write to the archive was renewed at the same time',
};

export const FLEET_OBJECT_SENTENCES: Sentences<FleetObjectFacts> = {
  'seal-refused': ({ segment, generation, reason }) =>
    say(
      `The registry did not take generation ${generation} of segment ${segment}: ${REASONS[reason]}. Nothing is lost.`,
      'It is tried again after the next pass. If it fails repeatedly, open the archive again.',
    ),
};
