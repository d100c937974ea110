import { relative } from 'node:path';
import { expect, test } from 'vitest';
import { Positions } from './positions.ts';
import { DIR, openOn, writeBatches } from './sample-log.ts';
import { SimulatedDisk } from './simulated-disk.ts';

/** Every act that changes the disk, with paths seen from the archive's folder. */
function recorded(disk: SimulatedDisk): string[] {
  const acts: string[] = [];
  disk.fault = (act, path) => {
    acts.push(`${act} ${relative(DIR, path) || '.'}`);
    return undefined;
  };
  return acts;
}

const BEGUN = (segment: number) => [
  `create log/000000000${segment}.1.seg.tmp`,
  `write log/000000000${segment}.1.seg.tmp`,
  `datasync log/000000000${segment}.1.seg.tmp`,
  `rename log/000000000${segment}.1.seg`,
  'syncFolder log',
];

test('a local log makes exactly these acts, in this order', async () => {
  const disk = new SimulatedDisk();
  const acts = recorded(disk);
  const writer = await openOn(disk.files);
  expect(acts.splice(0)).toEqual([
    'makeFolder log',
    'create FORMAT.tmp',
    'write FORMAT.tmp',
    'datasync FORMAT.tmp',
    'rename FORMAT',
    'syncFolder .',
    ...BEGUN(1),
    'syncFolder .',
    'syncFolder ..',
  ]);

  const known = new Positions();
  await writeBatches(writer, known, 1);
  expect(acts.splice(0)).toEqual(['write log/0000000001.1.seg', 'datasync log/0000000001.1.seg']);

  expect(await writer.rollIfLarger(1)).toBe(true);
  expect(acts.splice(0)).toEqual(BEGUN(2));
  await writer.close();
  expect(acts.splice(0)).toEqual([]);

  await openOn(disk.files, { expected: known.reached });
  expect(acts.splice(0)).toEqual(['makeFolder log', 'datasync log/0000000002.1.seg']);
});
