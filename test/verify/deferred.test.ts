import { afterEach, beforeEach, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import { checkSegment } from '../../src/verify/check-segment.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { GrownArchive, verified } from './grown-archive.ts';

let archive: GrownArchive;
beforeEach(async () => {
  archive = new GrownArchive();
  const mail = Array.from({ length: 12 }, (_, i) => sampleMail(i + 1));
  // The twelfth message has the attachment of the sixth, which is in the first segment.
  await archive.grow(mail.slice(0, 6), true);
  await archive.grow(mail.slice(6), true);
});
afterEach(() => archive.remove());

test('a message with bytes in another segment is rebuilt once the whole log has been read', async () => {
  const job = { dir: archive.dir, segment: 2, last: false, seen: 0, full: true };
  const outcomes = [...checkSegment(realFiles, job)].flatMap(({ what }) =>
    what === 'deferred' || what === 'unsound' ? [what] : [],
  );
  expect(outcomes).toEqual(['deferred']);
  expect(await verified(archive.dir)).toMatchObject({ messages: 12, rebuilt: 12, found: 0 });
});
