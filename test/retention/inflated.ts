import { listSegments, openSegment } from '../../src/archive/segment-files.ts';
import { segmentRecords } from '../../src/archive/segment-reader.ts';
import type { SimulatedDisk } from '../archive/simulated-disk.ts';

/** Every byte of the disk as it lies there, and every payload of every generation unpacked. */
export function inflated(disk: SimulatedDisk, dir: string): Buffer {
  const pieces = disk.paths().map((path) => disk.read(path));
  for (const [segment, generations] of listSegments(disk.files, dir)) {
    for (const generation of generations) {
      const opened = openSegment(disk.files, dir, { segment, generation });
      if (opened === undefined) continue;
      for (const record of segmentRecords(opened, { digest: false })) {
        if (record.what === 'record' && record.payload !== undefined) {
          pieces.push(Buffer.from(record.payload));
        }
      }
    }
  }
  return Buffer.concat(pieces);
}
